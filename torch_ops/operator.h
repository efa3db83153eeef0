// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// An operator by its name, to be called from C++ as from Python: through PyTorch's dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace rotary::torch {

/// Looks the name up, "rotary::linear_dot": once for each place that calls.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace rotary::torch
