// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/no_derivative.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <vector>

namespace rotary::torch {
namespace {

void run_without_derivative(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                            ::torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  std::vector<at::Tensor> written;
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& value = (*stack)[stack->size() - count + i];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& x = value.toTensor();
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::GradMode::is_enabled() || !x.requires_grad(), "[",
                                schema.name(),
                                "] has no derivative: call it under torch.no_grad(), or detach ",
                                schema.arguments()[i].name());
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written.push_back(x);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
  for (const at::Tensor& x : written) ::torch::autograd::increment_version(x);
}

}  // namespace

::torch::CppFunction no_derivative() {
  return ::torch::CppFunction::makeFromBoxedFunction<&run_without_derivative>();
}

}  // namespace rotary::torch
