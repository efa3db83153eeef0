// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Helpers of operators and their derivatives.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

namespace rotary::torch {

/// The handle of an operator, such as "rotary::linear_dot", for calls through PyTorch's dispatcher.
/// The lookup is slow: keep the handle in a static.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// Guard: calls in its scope record no derivatives and are not cast by autocast.
class BelowAutogradAndAutocast {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard below_autocast_{c10::autocast_dispatch_keyset};
};

/// For a backward pass without derivatives of its own: double backward would silently be wrong.
inline void refuse_second_derivative(const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::GradMode::is_enabled(), "[", name,
                              "] has no second derivative");
}

}  // namespace rotary::torch
