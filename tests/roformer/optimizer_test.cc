// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The learning-rate schedule and AdamW against their formulas.
#include "roformer/train/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <vector>

#include "roformer/train/schedule.h"
#include "rotary/transformer/optimizer.h"

namespace rotary::roformer {
namespace {

TEST(Schedule, WarmsUpAndFalls) {
  const auto at = [](ScheduleShape shape, std::int64_t step, double final_share = 0.0) {
    return schedule_share({.shape = shape, .warmup_steps = 10, .final_share = final_share}, step,
                          110);
  };
  for (const auto shape :
       {ScheduleShape::kConstant, ScheduleShape::kLinear, ScheduleShape::kCosine}) {
    EXPECT_DOUBLE_EQ(at(shape, 1), 0.1);
    EXPECT_DOUBLE_EQ(at(shape, 10), 1.0);
  }
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kConstant, 110), 1.0);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 60), 0.5);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 110), 0.0);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 110, 0.1), 0.1);
  EXPECT_NEAR(at(ScheduleShape::kCosine, 35), 0.5 + 0.5 * std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(at(ScheduleShape::kCosine, 110, 0.2), 0.2, 1e-12);
}

/// The formula of the paper (Loshchilov & Hutter, algorithm 2), in double precision.
struct ReferenceAdamW {
  AdamWOptions options;
  double decay;
  at::Tensor value, first, second;
  int steps = 0;

  void step(double rate, const at::Tensor& gradient) {
    const at::Tensor g = gradient.to(at::kDouble);
    ++steps;
    first = options.beta1 * first + (1 - options.beta1) * g;
    second = options.beta2 * second + (1 - options.beta2) * g * g;
    const at::Tensor m = first / (1 - std::pow(options.beta1, steps));
    const at::Tensor v = second / (1 - std::pow(options.beta2, steps));
    value = value - rate * decay * value - rate * m / (v.sqrt() + options.epsilon);
  }
};

TEST(AdamWTest, MatchesThePaper) {
  const at::NoGradGuard no_grad;
  ::torch::nn::Linear layer(5, 3);
  const AdamWOptions options{.weight_decay = 0.3};
  std::vector<ReferenceAdamW> references;
  for (const at::Tensor& p : {layer->weight, layer->bias}) {
    const at::Tensor value = p.to(at::kDouble);
    references.push_back(
        {options, p.dim() == 2 ? 0.3 : 0.0, value, at::zeros_like(value), at::zeros_like(value)});
  }
  ParameterStore store(*layer);
  AdamW optimizer(store, options, 0, store.size());
  at::manual_seed(1);
  for (int step = 1; step <= 5; ++step) {
    const double rate = 0.1 / step;
    std::size_t i = 0;
    for (const auto& segment : store.segments()) {
      segment.gradient.normal_();
      references[i++].step(rate, segment.gradient / 4);
    }
    optimizer.step(rate, at::full({1}, 4.0f), at::zeros({1}));
  }
  EXPECT_LT((layer->weight.to(at::kDouble) - references[0].value).abs().max().item<double>(), 1e-6);
  EXPECT_LT((layer->bias.to(at::kDouble) - references[1].value).abs().max().item<double>(), 1e-6);
  const at::Tensor before = store.values().clone();
  optimizer.step(0.1, at::ones({1}), at::ones({1}));
  EXPECT_TRUE(at::equal(before, store.values()));
}

/// A tensor of another device, whose memory the kernels would read as if it were here.
at::Tensor elsewhere(const at::Tensor& x) { return x.to(at::kMeta); }

TEST(OptimizerArguments, OtherDevicesAndRowsAreRefused) {
  const at::Tensor flat = at::zeros({64});
  const at::Tensor one = at::ones({1});
  const transformer::AdamWState state{
      .values = flat, .first = flat.clone(), .second = flat.clone(), .steps = one.clone()};
  const transformer::AdamWOptions options{};
  EXPECT_NO_THROW(transformer::adamw_(state, flat, one, one, options));
  EXPECT_THROW(transformer::adamw_(state, elsewhere(flat), one, one, options), c10::ValueError);
  EXPECT_THROW(transformer::adamw_(state, flat, elsewhere(one), one, options), c10::ValueError);
  transformer::AdamWState other = state;
  other.second = elsewhere(flat);
  EXPECT_THROW(transformer::adamw_(other, flat, one, one, options), c10::ValueError);
  other = state;
  other.narrow = elsewhere(flat.to(at::kBFloat16));
  EXPECT_THROW(transformer::adamw_(other, flat, one, one, options), c10::ValueError);

  EXPECT_THROW(transformer::gather_segments(flat, {{elsewhere(one), 0}}, false), c10::ValueError);
  EXPECT_THROW(transformer::gather_segments(flat, {{at::ones({8}), 60}}, false), c10::ValueError);

  const at::Tensor table = at::zeros({4, 8});
  const at::Tensor values = at::ones({2, 8});
  const at::Tensor rows = at::tensor({0, 3}, at::kLong);
  EXPECT_NO_THROW(transformer::add_rows(table, rows, values, -1));
  EXPECT_THROW(transformer::add_rows(table, elsewhere(rows), values, -1), c10::ValueError);
  EXPECT_THROW(transformer::add_rows(table, rows, elsewhere(values), -1), c10::ValueError);
  EXPECT_THROW(transformer::add_rows(table, at::tensor({0, 4}, at::kLong), values, -1), c10::Error);
  EXPECT_THROW(transformer::add_rows(table, at::tensor({std::int64_t{1} << 32, std::int64_t{0}}),
                                     values, -1),
               c10::Error);

  const transformer::SegmentNorms norms({{.offset = 60, .size = 8}}, at::kCPU);
  EXPECT_THROW(static_cast<void>(norms.of(flat)), c10::ValueError);
}

}  // namespace
}  // namespace rotary::roformer
