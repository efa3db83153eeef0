// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <iterator>
#include <utility>

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
      steps_(at::zeros({1}, first_.options())),
      late_steps_(at::zeros_like(steps_)) {}

void AdamW::split(FlatRanges always, FlatRanges late) {
  always_ = std::move(always);
  late_ = std::move(late);
}

void AdamW::restore_late_steps(std::int64_t before) {
  late_steps_.copy_((steps_ - static_cast<double>(before)).clamp_min(0.0));
}

void AdamW::scale_rate(const FlatRanges& ranges, double factor) {
  if (rates_.empty()) rates_.emplace(begin_, 1.0);
  for (const auto& [begin, end] : ranges) {
    rates_[begin] = factor;
    rates_.emplace(end, 1.0);  // unless the next range has begun there
  }
}

void AdamW::step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skip,
                 const at::Tensor& rate) {
  const Update with{.learning_rate = learning_rate, .divisor = divisor, .skip = skip, .rate = rate};
  if (late_.empty() && rates_.empty()) return update(begin_, end_, steps_, with);
  update_parts(late_.empty() ? FlatRanges{{begin_, end_}} : always_, steps_, with);
  steps_.add_(1 - skip);
  if (late_.empty() || frozen_) return;
  update_parts(late_, late_steps_, with);
  late_steps_.add_(1 - skip);
}

void AdamW::update_parts(const FlatRanges& ranges, const at::Tensor& steps, const Update& with) {
  // adamw_() counts a step in its own copy.
  for (const auto& [begin, end] : ranges) {
    if (rates_.empty()) {
      update(begin, end, steps.clone(), with);
      continue;
    }
    for (auto rate = rates_.begin(); rate != rates_.end(); ++rate) {
      const auto next = std::next(rate);
      const std::int64_t first = std::max(begin, rate->first);
      const std::int64_t last = next == rates_.end() ? end : std::min(end, next->first);
      if (first >= last) continue;
      update(first, last, steps.clone(),
             {.learning_rate = with.learning_rate * rate->second,
              .divisor = with.divisor,
              .skip = with.skip,
              .rate = with.rate});
    }
  }
}

void AdamW::update(std::int64_t begin, std::int64_t end, const at::Tensor& steps,
                   const Update& with) {
  const std::int64_t size = end - begin;
  const auto range = [&](const at::Tensor& flat) { return flat.narrow(0, begin, size); };
  const auto own = [&](const at::Tensor& shard) { return shard.narrow(0, begin - begin_, size); };
  transformer::AdamWState state{.values = range(store_.values()),
                                .first = own(first_),
                                .second = own(second_),
                                .steps = steps};
  if (store_.low_precision()) state.narrow = range(*store_.low_precision());
  transformer::adamw_(
      state, range(store_.gradients()), with.divisor, with.skip,
      {.learning_rate = with.learning_rate,
       .beta1 = options_.beta1,
       .beta2 = options_.beta2,
       .epsilon = options_.epsilon,
       .weight_decay = options_.weight_decay,
       .num_decaying = std::clamp(store_.num_decaying() - begin, std::int64_t{0}, size),
       .rate = with.rate});
}

}  // namespace rotary::roformer
