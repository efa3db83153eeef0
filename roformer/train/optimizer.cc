// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <stdexcept>

#include "rotary/torch_optimizer.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

// 256 bytes: what allocators align to, so that kernels find each parameter as they would alone.
constexpr std::int64_t kAlignment = 64;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void check_parameter(const std::string& name, const at::Tensor& parameter,
                     const at::Tensor& first) {
  if (parameter.scalar_type() != at::kFloat) {
    internal::reject("[Trainer] parameters must be float32, got ", parameter.scalar_type(), " for ",
                     name);
  }
  if (parameter.device() != first.device()) {
    internal::reject("[Trainer] parameters must be on one device, got ", parameter.device(),
                     " for ", name, " and ", first.device());
  }
}

}  // namespace

FlatParameters::FlatParameters(::torch::nn::Module& module, std::int64_t ranks) {
  const at::NoGradGuard no_grad;
  for (const bool decays : {true, false}) {
    for (const auto& item : module.named_parameters()) {
      const at::Tensor& parameter = item.value();
      if (!parameter.requires_grad() || (parameter.dim() >= 2) != decays) continue;
      parts_.push_back({.name = item.key(), .parameter = parameter});
    }
  }
  if (parts_.empty()) internal::reject("[Trainer] the model has no parameters to train");
  std::int64_t size = 0;
  for (Part& part : parts_) {
    check_parameter(part.name, part.parameter, parts_.front().parameter);
    part.offset = size;
    size += round_up(part.parameter.numel(), kAlignment);
    if (part.parameter.dim() >= 2) num_decaying_ = size;
  }
  size = round_up(size, kAlignment * ranks);
  values_ = at::zeros({size}, parts_.front().parameter.options().requires_grad(false));
  gradients_ = at::zeros_like(values_);
  for (Part& part : parts_) {
    const at::Tensor view = view_of(part, values_);
    view.copy_(part.parameter);
    part.parameter.set_data(view);
    part.gradient = view_of(part, gradients_);
    part.parameter.mutable_grad() = part.gradient;
  }
}

at::Tensor FlatParameters::view_of(const Part& part, const at::Tensor& flat) {
  return flat.narrow(0, part.offset, part.parameter.numel()).view(part.parameter.sizes());
}

void FlatParameters::bump_versions() const {
  for (const Part& part : parts_) part.parameter.unsafeGetTensorImpl()->bump_version();
}

AdamW::AdamW(const FlatParameters& parameters, const AdamWOptions& options, std::int64_t begin,
             std::int64_t end)
    : parameters_(parameters),
      options_(options),
      begin_(begin),
      end_(end),
      first_(at::zeros({end - begin}, parameters.values().options())),
      second_(at::zeros_like(first_)),
      steps_(at::zeros({1}, first_.options())) {}

void AdamW::step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skip) {
  const std::int64_t size = end_ - begin_;
  const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, begin_, size); };
  torch::AdamWState state{
      .values = part(parameters_.values()), .first = first_, .second = second_, .steps = steps_};
  if (parameters_.narrow()) state.narrow = part(*parameters_.narrow());
  torch::adamw_(
      state, part(parameters_.gradients()), divisor, skip,
      {.learning_rate = learning_rate,
       .beta1 = options_.beta1,
       .beta2 = options_.beta2,
       .epsilon = options_.epsilon,
       .weight_decay = options_.weight_decay,
       .num_decaying = std::clamp(parameters_.num_decaying() - begin_, std::int64_t{0}, size)});
}

}  // namespace rotary::roformer
