// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What operators and their derivatives are made of.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

namespace rotary::torch {

/// An operator by its name, "rotary::linear_dot", to be called from C++ as from Python: through
/// PyTorch's dispatcher. Looks the name up: once for each place that calls.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// As long as it is there, calls are computed as they are: no derivatives, no types of autocast.
class AsTheyAre {
  at::AutoDispatchBelowADInplaceOrView below_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

/// For the way back of `name`, whose own derivatives would be wrong without a word.
inline void refuse_second_derivative(const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::GradMode::is_enabled(), "[", name,
                              "] has no second derivative");
}

}  // namespace rotary::torch
