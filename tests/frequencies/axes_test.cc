// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Axis maps: axial, M-RoPE, mixed. Layouts are drawn with one letter per pair.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "frequencies/expect.h"

namespace rotary {
namespace {

Frequencies made(std::int64_t d, const AxisMap& map, const Scaling& scaling = Plain{}) {
  return make_frequencies({.rotary_dim = d, .theta = 1e4, .scaling = scaling, .axes = map});
}

std::string times(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

/// The frequency of a pair of one axis; 0 for none.
double driven(const Frequencies& f, std::int64_t pair) {
  double sum = 0.0;
  for (std::int64_t a = 0; a < f.axes; ++a) sum += f(pair, a);
  return sum;
}

// Qwen's vision towers: rows on the first half of the pairs, columns on the second, a ladder each.
TEST(Axial, TwoAxesInBlocks) {
  const Frequencies f = made(80, Axial{});
  EXPECT_EQ(f.axes, 2);
  EXPECT_EQ(drawing(f, "hw"), times("h", 20) + times("w", 20));
  for (std::int64_t i = 0; i < 40; ++i)
    EXPECT_TRUE(near(driven(f, i), base_frequency(1e4, 40, i % 20)));
}

TEST(Axial, RemainingDimsHaveFrequencyZero) {
  EXPECT_EQ(drawing(made(10, Axial{}), "hw"), "hhww.");
  EXPECT_EQ(drawing(made(80, Axial{.axes = 3})),
            times("t", 13) + times("h", 13) + times("w", 13) + ".");
  EXPECT_EQ(drawing(made(8, Axial{.axes = 1}), "t"), "tttt");
  // Too few dims for the axes: all frequencies are 0.
  EXPECT_EQ(drawing(made(4, Axial{.axes = 4}), "abcd"), "..");
}

// Video: 44 dims for time, 42 for rows, 42 for columns.
TEST(Axial, UnevenDims) {
  const Frequencies f = made(128, Axial{.axes = 3, .dims = {44, 42, 42}});
  EXPECT_EQ(drawing(f), times("t", 22) + times("h", 21) + times("w", 21));
  EXPECT_TRUE(near(driven(f, 21), base_frequency(1e4, 44, 21)));
  EXPECT_TRUE(near(driven(f, 22 + 20), base_frequency(1e4, 42, 20)));
  EXPECT_TRUE(near(driven(f, 43 + 7), base_frequency(1e4, 42, 7)));

  const Frequencies with_gap = made(12, Axial{.axes = 3, .dims = {4, 0, 4}});
  EXPECT_EQ(drawing(with_gap), "ttww..");
}

TEST(Axial, Alternating) {
  const Frequencies f = made(16, Axial{.order = AxialOrder::kAlternating});
  EXPECT_EQ(drawing(f, "hw"), "hwhwhwhw");
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_TRUE(near(driven(f, i), base_frequency(1e4, 8, i / 2)));
  EXPECT_EQ(drawing(made(14, Axial{.axes = 3, .order = AxialOrder::kAlternating})), "thwthw.");
}

// Pixtral: rows have f_0, f_2, f_4, ... of the ladder over all dims, columns f_1, f_3, f_5, ...
TEST(Axial, Strided) {
  const Frequencies f = made(64, Axial{.ladder = AxialLadder::kStrided});
  EXPECT_EQ(drawing(f, "hw"), times("h", 16) + times("w", 16));
  for (std::int64_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(near(f(i, 0), base_frequency(1e4, 64, 2 * i)));
    EXPECT_TRUE(near(f(16 + i, 1), base_frequency(1e4, 64, 2 * i + 1)));
  }
  const Frequencies alternating =
      made(16, Axial{.order = AxialOrder::kAlternating, .ladder = AxialLadder::kStrided});
  EXPECT_EQ(drawing(alternating, "hw"), "hwhwhwhw");
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_TRUE(near(driven(alternating, i), base_frequency(1e4, 16, i)));
}

// Kimi has columns before rows.
TEST(Axial, AxisOrder) {
  EXPECT_EQ(drawing(made(8, Axial{.axis_order = {1, 0}}), "hw"), "wwhh");
  EXPECT_EQ(drawing(made(72, Axial{.order = AxialOrder::kAlternating, .axis_order = {1, 0}}), "hw"),
            times("wh", 18));
  const Frequencies f = made(12, Axial{.axes = 3, .dims = {6, 4, 2}, .axis_order = {2, 0, 1}});
  EXPECT_EQ(drawing(f), "wwwtth");
  EXPECT_TRUE(near(f(2, 2), base_frequency(1e4, 6, 2)));
  EXPECT_TRUE(near(f(4, 0), base_frequency(1e4, 4, 1)));
}

TEST(Axial, ScalesEachLadderAndKeepsScale) {
  const Frequencies f = made(32, Axial{}, Yarn{.factor = 4, .original_context = 1024});
  const Frequencies own = make_frequencies(
      {.rotary_dim = 16, .theta = 1e4, .scaling = Yarn{.factor = 4, .original_context = 1024}});
  EXPECT_EQ(f.scale, own.scale);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(driven(f, i), own(i % 8));
}

TEST(Axial, GrowthFollowsItsFrequency) {
  const Frequencies f = made(16, Axial{}, Xpos{});
  const Frequencies own = make_frequencies({.rotary_dim = 8, .theta = 1e4, .scaling = Xpos{}});
  ASSERT_EQ(f.growth.size(), 16u);
  for (std::size_t pair = 0; pair < 8; ++pair) {
    EXPECT_EQ(f.growth[2 * pair + pair / 4], own.growth[pair % 4]);
    EXPECT_EQ(f.growth[2 * pair + 1 - pair / 4], 0.0);
  }
}

/// M-RoPE keeps the ladder: pair i has f_i, on any axis.
std::string mrope(std::vector<std::int64_t> sections, MropeOrder order, std::int64_t pairs) {
  const auto axes = static_cast<std::int64_t>(sections.size());
  const Frequencies f = made(2 * pairs, Mrope{std::move(sections), order});
  EXPECT_EQ(f.axes, axes);
  const Frequencies plain = make_frequencies({.rotary_dim = 2 * pairs, .theta = 1e4});
  for (std::int64_t i = 0; i < pairs; ++i) EXPECT_EQ(driven(f, i), plain(i)) << i;
  return drawing(f, axes == 4 ? "pwht" : "thw");
}

TEST(Mrope, Chunked) {
  constexpr auto kOrder = MropeOrder::kChunked;
  EXPECT_EQ(mrope({2, 2, 1}, kOrder, 5), "tthhw");
  EXPECT_EQ(mrope({16, 24, 24}, kOrder, 64), times("t", 16) + times("h", 24) + times("w", 24));
  EXPECT_EQ(mrope({8, 12, 12}, kOrder, 32), times("t", 8) + times("h", 12) + times("w", 12));
  EXPECT_EQ(mrope({16, 16, 16, 16}, kOrder, 64),
            times("p", 16) + times("w", 16) + times("h", 16) + times("t", 16));
  EXPECT_EQ(mrope({0, 3, 1}, kOrder, 4), "hhhw");
  EXPECT_EQ(mrope({4}, kOrder, 4), "tttt");
}

// Qwen3-VL: rows at 1, 4, 7, ... below three times their section, columns likewise, time elsewhere.
TEST(Mrope, Interleaved) {
  constexpr auto kOrder = MropeOrder::kInterleaved;
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(mrope({2, 2, 1}, kOrder, 5), "thwth");
  EXPECT_EQ(mrope({24, 20, 20}, kOrder, 64), times("thw", 20) + "tttt");
  EXPECT_EQ(mrope({11, 11, 10}, kOrder, 32), times("thw", 10) + "th");
  // Qwen3-Omni keeps its sections for a smaller head: they need not add up.
  EXPECT_EQ(mrope({24, 20, 20}, kOrder, 37), times("thw", 12) + "t");
  EXPECT_EQ(mrope({5, 2, 1}, kOrder, 8), "thwthttt");
  EXPECT_EQ(mrope({2, kHuge, kHuge}, kOrder, 7), "thwthwt");
}

TEST(Mrope, RoundRobinSkipsExhaustedAxes) {
  constexpr auto kOrder = MropeOrder::kRoundRobin;
  EXPECT_EQ(mrope({2, 2, 1}, kOrder, 5), "thwth");
  EXPECT_EQ(mrope({8, 12, 12}, kOrder, 32), times("thw", 8) + times("hw", 4));
  EXPECT_EQ(mrope({5, 2, 1}, kOrder, 8), "thwthttt");
  EXPECT_EQ(mrope({1, 0, 3}, kOrder, 4), "twww");
}

// ERNIE 4.5 VL (its config says h, w, t: 22, 22, 20).
TEST(Mrope, SpatialFirst) {
  constexpr auto kOrder = MropeOrder::kSpatialFirst;
  EXPECT_EQ(mrope({1, 2, 2}, kOrder, 5), "hwhwt");
  EXPECT_EQ(mrope({20, 22, 22}, kOrder, 64), times("hw", 22) + times("t", 20));
}

TEST(Mrope, GoesWithAnyScaling) {
  const Scaling alpha = NtkAlpha{.alpha = 1000};
  const Frequencies f = made(128, Mrope{.sections = {16, 16, 16, 16}}, alpha);
  const Frequencies plain = make_frequencies({.rotary_dim = 128, .theta = 1e4, .scaling = alpha});
  for (std::int64_t i = 0; i < 64; ++i) EXPECT_EQ(driven(f, i), plain(i));
}

TEST(Mixed, IsTheMatrixGiven) {
  const std::vector<double> values = {0.5, -0.25, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0};
  const Frequencies f = make_frequencies({.rotary_dim = 8, .axes = Mixed{.frequencies = values}});
  EXPECT_EQ(f.values, values);
  EXPECT_EQ(drawing(f, "xy"), "*yx.");
  const Frequencies cube =
      make_frequencies({.rotary_dim = 2, .axes = Mixed{.axes = 3, .frequencies = {1, 2, 3}}});
  EXPECT_EQ(cube.axes, 3);
  EXPECT_EQ(cube.values, (std::vector<double>{1, 2, 3}));
}

TEST(AxesOf, CountsPositionAxes) {
  EXPECT_EQ(axes_of(OneAxis{}), 1);
  EXPECT_EQ(axes_of(Axial{.axes = 3}), 3);
  EXPECT_EQ(axes_of(Mrope{.sections = {1, 2, 3, 4}}), 4);
  EXPECT_EQ(axes_of(Mixed{}), 2);
}

}  // namespace
}  // namespace rotary
