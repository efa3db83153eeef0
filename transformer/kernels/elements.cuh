// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Element types of kernels: conversions, and dispatch from ElementType to a template argument.
#pragma once

#include <cuda_runtime.h>

#include "device/elements.cuh"
#include "transformer/kernels/element_type.h"

namespace rotary::transformer::cuda {

using device::Accum;
using device::from_accum;
using device::pack_two;
using device::to_accum;
using device::unpack_two;

/// Calls launch(T{}) with the type that `type` names, then returns cudaGetLastError(). kDouble is
/// not among them: see dispatch_with_double().
template <typename Launch>
int dispatch(ElementType type, const Launch& launch) {
  switch (type) {
    case ElementType::kFloat:
      launch(float{});
      break;
    case ElementType::kBFloat16:
      launch(__nv_bfloat16{});
      break;
    case ElementType::kFloat16:
      launch(__half{});
      break;
    case ElementType::kDouble:
      return static_cast<int>(cudaErrorInvalidValue);
  }
  return static_cast<int>(cudaGetLastError());
}

template <typename Launch>
int dispatch_with_double(ElementType type, const Launch& launch) {
  if (type != ElementType::kDouble) return dispatch(type, launch);
  launch(double{});
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::transformer::cuda
