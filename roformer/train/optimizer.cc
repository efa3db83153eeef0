// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/optimizer.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "rotary/transformer/optimizer.h"

namespace rotary::roformer {

AdamW::AdamW(const ParameterStore& store, const AdamWOptions& options, std::int64_t begin,
             std::int64_t end)
    : store_(store),
      options_(options),
      begin_(begin),
      end_(end),
      first_(at::zeros({end - begin}, store.values().options())),
      second_(at::zeros_like(first_)),
      steps_(at::zeros({1}, first_.options())) {}

void AdamW::step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skip) {
  const std::int64_t size = end_ - begin_;
  const auto range = [&](const at::Tensor& flat) { return flat.narrow(0, begin_, size); };
  transformer::AdamWState state{
      .values = range(store_.values()), .first = first_, .second = second_, .steps = steps_};
  if (store_.low_precision()) state.narrow = range(*store_.low_precision());
  transformer::adamw_(
      state, range(store_.gradients()), divisor, skip,
      {.learning_rate = learning_rate,
       .beta1 = options_.beta1,
       .beta2 = options_.beta2,
       .epsilon = options_.epsilon,
       .weight_decay = options_.weight_decay,
       .num_decaying = std::clamp(store_.num_decaying() - begin_, std::int64_t{0}, size)});
}

}  // namespace rotary::roformer
