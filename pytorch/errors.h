// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The library's exceptions as PyTorch's.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>

#include "rotary/error.h"

namespace rotary::torch {

/// work(): std::invalid_argument becomes c10::ValueError, CudaError c10::Error.
template <typename Work>
decltype(auto) translate_errors(const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, error.what());
  } catch (const CudaError& error) {
    C10_THROW_ERROR(Error, error.what());
  }
}

}  // namespace rotary::torch
