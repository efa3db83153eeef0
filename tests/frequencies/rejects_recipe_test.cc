// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Recipes that make_frequencies rejects. Every message names function, rule and value.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "rotary/frequencies.h"

namespace rotary {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

struct Case {
  std::string rule;
  std::string value;
  Recipe recipe;
  std::int64_t context = 0;
};

void expect_rejected(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.rule + c.value);
    EXPECT_THAT([&c] { make_frequencies(c.recipe, c.context); },
                testing::ThrowsMessage<std::invalid_argument>(AllOf(
                    StartsWith("[make_frequencies] "), HasSubstr(c.rule), HasSubstr(c.value))));
  }
}

/// A valid recipe except for its scaling or axes.
Recipe scaled(Scaling scaling, std::int64_t d = 8) {
  return {.rotary_dim = d, .theta = 1e4, .scaling = std::move(scaling)};
}
Recipe mapped(AxisMap map, std::int64_t d = 8) {
  return {.rotary_dim = d, .theta = 1e4, .axes = std::move(map)};
}

TEST(MakeFrequenciesRejects, InvalidRecipeMembers) {
  expect_rejected({
      {"rotary_dim must be even", "got 7", {.rotary_dim = 7, .theta = 1e4}},
      {"rotary_dim must be 2 to 1048576", "got 0", {.theta = 1e4}},
      {"rotary_dim must be 2 to 1048576", "got -8", {.rotary_dim = -8, .theta = 1e4}},
      {"rotary_dim must be 2 to 1048576", "got 1048578", {.rotary_dim = 1048578, .theta = 1e4}},
      {"rotary_dim must be 2 to", "got 4611686018427387904", {.rotary_dim = kHuge, .theta = 1e4}},
      {"ladder_dim must be 0 to", "got -1", {.rotary_dim = 8, .theta = 1e4, .ladder_dim = -1}},
      {"ladder_dim must be 0 to", "got 461", {.rotary_dim = 8, .theta = 1e4, .ladder_dim = kHuge}},
      {"theta must be positive and finite", "got 0", {.rotary_dim = 8}},
      {"theta must be positive and finite", "got -1", {.rotary_dim = 8, .theta = -1}},
      {"theta must be positive and finite", "got nan", {.rotary_dim = 8, .theta = kNan}},
      {"theta must be positive and finite", "got inf", {.rotary_dim = 8, .theta = kInf}},
      {"gain must be finite", "got 0", {.rotary_dim = 8, .theta = 1e4, .gain = 0}},
      {"gain must be finite", "got nan", {.rotary_dim = 8, .theta = 1e4, .gain = kNan}},
      {"context must not be negative", "got -1", {.rotary_dim = 8, .theta = 1e4}, -1},
      {"not finite", "pair 2", {.rotary_dim = 8, .theta = 1e-300, .gain = 1e200}},
  });
}

TEST(MakeFrequenciesRejects, InvalidLinearAndNtk) {
  expect_rejected({
      {"linear factor must be positive and finite", "got 0", scaled(Linear{.factor = 0})},
      {"linear factor must be positive", "got -2", scaled(Linear{.factor = -2})},
      {"linear factor must be positive", "got nan", scaled(Linear{.factor = kNan})},
      {"ntk factor must be positive", "got inf", scaled(Ntk{.factor = kInf})},
      {"ntk mixed_b must be positive", "got 0", scaled(Ntk{.factor = 2, .mixed_b = 0.0})},
      {"ntk alpha must be positive", "got 0", scaled(NtkAlpha{.alpha = 0})},
      {"needs rotary_dim of at least 4", "got 2", scaled(NtkAlpha{.alpha = 2}, 2)},
      {"needs rotary_dim of at least 4", "got 2", scaled(DynamicNtk{2, 64}, 2)},
      {"dynamic factor must be positive", "got -1", scaled(DynamicNtk{-1, 64})},
      {"dynamic original_context must be positive", "got 0", scaled(DynamicNtk{.factor = 2})},
  });
}

TEST(MakeFrequenciesRejects, InvalidYarn) {
  const auto with = [](auto change) {
    Yarn yarn{.factor = 4, .original_context = 4096};
    change(yarn);
    return scaled(yarn);
  };
  Recipe flat = with([](Yarn&) {});
  flat.theta = 1.0;
  expect_rejected({
      {"yarn factor must be positive", "got 0", with([](Yarn& y) { y.factor = 0; })},
      {"yarn original_context must be", "got 0", with([](Yarn& y) { y.original_context = 0; })},
      {"yarn beta_fast must be positive", "got 0", with([](Yarn& y) { y.beta_fast = 0; })},
      {"yarn beta_slow must be positive", "got -1", with([](Yarn& y) { y.beta_slow = -1; })},
      {"scale on cos and sin must be", "got 0", with([](Yarn& y) { y.attention_factor = 0.0; })},
      {"scale on cos and sin must be", "nan", with([](Yarn& y) { y.attention_factor = kNan; })},
      {"softmax_scale must be positive and finite", "nan", with([](Yarn& y) {
         y.mscale_all_dim = kNan;
         y.softmax_correction = SoftmaxCorrection::kMscaleAllDimSquared;
         y.attention_factor = 1.0;
       })},
      {"yarn needs a theta other than 1", "", flat},
      {"yarn factor must be positive", "got 0", scaled(YarnPaper{.factor = 0})},
      {"yarn original_context must be positive", "got 0", scaled(YarnPaper{.factor = 2})},
      {"yarn beta must exceed alpha (32)", "got 32",
       scaled(YarnPaper{.factor = 2, .original_context = 64, .alpha = 32})},
      {"yarn beta must exceed alpha", "got nan",
       scaled(YarnPaper{.factor = 2, .original_context = 64, .beta = kNan})},
      {"yarn_walkthrough factor must be positive", "got 0",
       scaled(YarnWalkthrough{.factor = 0, .original_context = 64})},
      {"yarn_walkthrough original_context must be positive", "got 0",
       scaled(YarnWalkthrough{.factor = 2})},
      {"yarn_walkthrough beta_fast must be positive", "got 0",
       scaled(YarnWalkthrough{.factor = 2, .original_context = 64, .beta_fast = 0})},
      {"yarn_walkthrough beta_slow must be positive", "got 0",
       scaled(YarnWalkthrough{.factor = 2, .original_context = 64, .beta_slow = 0})},
  });
}

TEST(MakeFrequenciesRejects, InvalidLongRopeAndLlama3) {
  const std::vector<double> ones(4, 1.0);
  const std::vector<double> zero = {1, 1, 0, 1};
  const auto rope = [](std::vector<double> low, std::vector<double> high) {
    return LongRope{
        .short_factor = std::move(low), .long_factor = std::move(high), .original_context = 64};
  };
  LongRope no_context = rope(ones, ones);
  no_context.original_context = 0;
  LongRope one_position = rope(ones, ones);
  one_position.original_context = 1;
  one_position.factor = 2;
  LongRope negative_scale = rope(ones, ones);
  negative_scale.attention_factor = -1;
  expect_rejected({
      {"longrope short_factor must have one entry a pair (4)", "got 3",
       scaled(rope({1, 1, 1}, ones))},
      {"longrope long_factor must have one entry a pair (4)", "got 0", scaled(rope(ones, {}))},
      {"longrope short_factor must be positive", "got 0", scaled(rope(zero, ones))},
      {"longrope long_factor must be positive", "got 0", scaled(rope(ones, zero)), 65},
      // An invalid list is rejected in the other regime too, not only when a sequence grows long.
      {"longrope long_factor must be positive", "got 0", scaled(rope(ones, zero)), 64},
      {"longrope short_factor must be positive", "got 0", scaled(rope(zero, ones)), 65},
      {"longrope original_context must be positive", "got 0", scaled(no_context)},
      {"scale on cos and sin must be", "got inf", scaled(one_position)},
      {"scale on cos and sin must be", "got -1", scaled(negative_scale)},
      {"llama3 factor must be positive", "got 0",
       scaled(Llama3{.factor = 0, .original_context = 64})},
      {"llama3 original_context must be positive", "got 0", scaled(Llama3{.factor = 8})},
      {"llama3 low_freq_factor must be positive", "got 0",
       scaled(Llama3{.factor = 8, .original_context = 64, .low_freq_factor = 0})},
      {"llama3 high_freq_factor must be positive", "got nan",
       scaled(Llama3{.factor = 8, .original_context = 64, .high_freq_factor = kNan})},
      {"llama3 high_freq_factor must not be below low_freq_factor (4)", "got 1",
       scaled(Llama3{
           .factor = 8, .original_context = 64, .low_freq_factor = 4, .high_freq_factor = 1})},
  });
}

TEST(MakeFrequenciesRejects, InvalidPerPairFactors) {
  expect_rejected({
      {"proportional fraction must be in [0, 1]", "got 1.5", scaled(Proportional{1.5})},
      {"proportional fraction must be in [0, 1]", "got -0.1", scaled(Proportional{-0.1})},
      {"proportional fraction must be in [0, 1]", "got nan", scaled(Proportional{kNan})},
      {"proportional factor must be positive", "got 0", scaled(Proportional{0.5, 0.0})},
      {"divisors divisor must have one entry a pair (4)", "got 2", scaled(Divisors{{1, 1}})},
      {"divisors divisor must be positive", "got 0", scaled(Divisors{{1, 1, 1, 0}})},
      {"divisors divisor must be positive", "got nan", scaled(Divisors{{1, 1, 1, kNan}})},
      {"learnable log_gain must have one entry a pair (4)", "got 5",
       scaled(Learnable{{0, 0, 0, 0, 0}})},
      {"not finite", "pair 2", scaled(Learnable{{0, 0, kNan, 0}})},
      {"not finite", "pair 1", scaled(Learnable{{0, 1e6, 0, 0}})},
      {"receptive_field alpha and rho must be finite", "got nan and 1",
       scaled(ReceptiveField{.alpha = kNan})},
      {"receptive_field alpha and rho must be finite", "got 0 and inf",
       scaled(ReceptiveField{.rho = kInf})},
      {"xpos scale_base must be positive", "got 0", scaled(Xpos{.scale_base = 0})},
      {"xpos gamma must be positive", "got 0", scaled(Xpos{.gamma = 0})},
      {"xpos origin must be finite", "got nan", scaled(Xpos{.origin = kNan})},
  });
}

TEST(MakeFrequenciesRejects, InvalidAxial) {
  constexpr auto kAlternating = AxialOrder::kAlternating;
  constexpr auto kStrided = AxialLadder::kStrided;
  expect_rejected({
      {"axial axes must be 1 to 16", "got 0", mapped(Axial{.axes = 0})},
      {"axial axes must be 1 to 16", "got 17", mapped(Axial{.axes = 17})},
      {"axial dims must have one entry an axis (2)", "got 3", mapped(Axial{.dims = {2, 2, 2}})},
      {"axial dims must be even and fit into rotary_dim 8", "got 3", mapped(Axial{.dims = {4, 3}})},
      {"axial dims must be even and fit into rotary_dim 8", "got -2",
       mapped(Axial{.dims = {4, -2}})},
      {"axial dims must be even and fit into rotary_dim 8", "got 6", mapped(Axial{.dims = {4, 6}})},
      {"alternating axes need equal dims", "got 6 and 2",
       mapped(Axial{.dims = {6, 2}, .order = kAlternating})},
      // Three pairs of axis 0 would need entry 4 of 4.
      {"strided axes need equal dims", "got 6 and 2",
       mapped(Axial{.dims = {6, 2}, .ladder = kStrided})},
      {"axial axis_order must be a permutation of 0..1", "got axis 2",
       mapped(Axial{.axis_order = {0, 2}})},
      {"axial axis_order must be a permutation of 0..1", "got axis 0",
       mapped(Axial{.axis_order = {0, 0}})},
      {"axial axis_order must have one entry an axis (2)", "got 1",
       mapped(Axial{.axis_order = {1}})},
  });
}

TEST(MakeFrequenciesRejects, InvalidMrope) {
  constexpr auto kInterleaved = MropeOrder::kInterleaved;
  constexpr auto kRoundRobin = MropeOrder::kRoundRobin;
  constexpr auto kSpatialFirst = MropeOrder::kSpatialFirst;
  expect_rejected({
      {"mrope needs 1 to 16 sections", "got 0", mapped(Mrope{})},
      {"mrope needs 1 to 16 sections", "got 17",
       mapped(Mrope{.sections = std::vector<std::int64_t>(17, 1)})},
      {"mrope sections must add up to 4 pairs", "got 3", mapped(Mrope{{1, 1, 1}})},
      {"mrope sections must add up to 4 pairs", "a section of 3", mapped(Mrope{{2, 3}})},
      {"mrope sections must add up to 4 pairs", "a section of -1", mapped(Mrope{{4, -1}})},
      {"mrope sections must add up to 4 pairs", "a section of 461", mapped(Mrope{{kHuge, kHuge}})},
      {"mrope sections must add up to 4 pairs", "got 2", mapped(Mrope{{1, 1}, kRoundRobin})},
      {"mrope sections must add up to 4 pairs", "a section of -1",
       mapped(Mrope{{4, -1}, kInterleaved})},
      {"spatial-first sections must be t h w with equal h and w", "got 2 sections",
       mapped(Mrope{{2, 2}, kSpatialFirst})},
      {"spatial-first sections must be t h w with equal h and w", "got 1 2 1",
       mapped(Mrope{{1, 2, 1}, kSpatialFirst})},
  });
}

TEST(MakeFrequenciesRejects, InvalidMixed) {
  const auto mixed = [](std::int64_t axes, std::vector<double> values) {
    return Recipe{.rotary_dim = 4, .axes = Mixed{axes, std::move(values)}};
  };
  expect_rejected({
      {"mixed frequencies must be [2 pairs x 2 axes]", "got 3 values", mixed(2, {1, 2, 3})},
      {"mixed axes must be 1 to 16", "got 0", mixed(0, {})},
      {"mixed axes must be 1 to 16", "got -1", mixed(-1, {1, 2})},
      // 2 pairs times 2^63 axes is 0 in 64 bits.
      {"mixed axes must be 1 to 16", "got 4611686018427387904", mixed(kHuge, {})},
      {"not finite", "pair 1", mixed(2, {1, 2, kNan, 4})},
      {"not finite", "pair 0", mixed(1, {-kInf, 4})},
  });
}

}  // namespace
}  // namespace rotary
