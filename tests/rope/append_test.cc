// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::append, rotate_to and unrotate_to against their definition, bit for bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "reference/elements.h"
#include "reference/stored.h"
#include "rope/append_fixture.h"
#include "rope/on_every_target.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"

namespace rotary::append_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr DType kQuantized[] = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8};
constexpr CacheLayout kLayouts[] = {CacheLayout::kTokenMajor, CacheLayout::kHeadMajor,
                                    CacheLayout::kInterleaved};
constexpr QueryKind kQueries[] = {QueryKind::kNone, QueryKind::kInPlace, QueryKind::kApart};
constexpr SlotKind kSlots[] = {SlotKind::kInt32, SlotKind::kInt64, SlotKind::kPaged,
                               SlotKind::kShort};

void expect_chain(const AppendCase& c) {
  AppendFixture fixture(c);
  fixture.run();
  EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << to_string(c);
  EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << to_string(c);
  EXPECT_EQ(fixture.computed(), fixture.expected_computed()) << to_string(c);
}

TEST(Append, CopiesEveryTypeLayoutAndSlot) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    for (const CacheLayout layout : kLayouts) {
      for (const QueryKind query : kQueries) {
        for (const SlotKind slots : kSlots) {
          for (const std::int64_t batch : {1, 2}) {
            expect_chain({.type = type,
                          .layout = layout,
                          .query = query,
                          .slots = slots,
                          .batch = batch,
                          .pairing = batch == 1 ? Pairing::kHalf : Pairing::kInterleaved});
          }
        }
      }
    }
  }
}

TEST(Append, QuantisesByEveryScale) {
  on_every_target([](std::string_view) {
    for (const DType type : kTypes) {
      for (const DType stored : kQuantized) {
        for (const ScaleKind scale : {ScaleKind::kNone, ScaleKind::kTensor, ScaleKind::kHead,
                                      ScaleKind::kComputed, ScaleKind::kGroups}) {
          for (const ScaleUse use : {ScaleUse::kDivide, ScaleUse::kMultiply}) {
            for (const CacheLayout layout : kLayouts) {
              expect_chain({.type = type,
                            .quantized = stored,
                            .scale = scale,
                            .use = use,
                            .layout = layout,
                            .query = QueryKind::kApart,
                            .slots = SlotKind::kPaged,
                            .batch = 2});
            }
          }
        }
      }
    }
  });
}

TEST(Append, NormalisesFirst) {
  for (const DType type : kTypes) {
    for (const NormKind norm : {NormKind::kRms, NormKind::kRmsOnePlus}) {
      for (const QueryKind query : kQueries) {
        expect_chain({.type = type, .query = query, .norm = {.kind = norm}, .batch = 2});
        expect_chain({.type = type,
                      .quantized = DType::kFloat8E4M3,
                      .scale = ScaleKind::kComputed,
                      .query = query,
                      .norm = {.kind = norm}});
      }
    }
  }
}

TEST(Append, AnyCombination) {
  std::mt19937 random(20);
  const auto one_of = [&random](const auto& choices) {
    return choices[random() % std::size(choices)];
  };
  constexpr ScaleKind kScales[] = {ScaleKind::kNone, ScaleKind::kTensor, ScaleKind::kHead,
                                   ScaleKind::kComputed, ScaleKind::kGroups};
  for (unsigned i = 0; i < 500; ++i) {
    AppendCase c{.type = one_of(kTypes),
                 .layout = one_of(kLayouts),
                 .query = one_of(kQueries),
                 .slots = one_of(kSlots),
                 .batch = static_cast<std::int64_t>(1 + random() % 3),
                 .tokens = static_cast<std::int64_t>(2 + random() % 40),
                 .pairing = random() % 2 == 0 ? Pairing::kHalf : Pairing::kInterleaved,
                 .seed = i};
    if (random() % 3 != 0) {
      c.quantized = one_of(kQuantized);
      c.scale = one_of(kScales);
      c.use = random() % 2 == 0 ? ScaleUse::kDivide : ScaleUse::kMultiply;
    }
    expect_chain(c);
  }
}

TEST(Append, ManyTokensOnManyThreads) {
  constexpr std::int64_t kTokens = 3000;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kHeadDim = 64;
  const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
                  {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  constexpr auto kSize = static_cast<std::size_t>(kTokens * kHeads * kHeadDim);
  std::vector<float> q(kSize);
  for (std::size_t i = 0; i < kSize; ++i) q[i] = std::sin(static_cast<float>(i));
  std::vector<std::int64_t> slots(kTokens);
  // Every third slot is written several times.
  for (std::size_t t = 0; t < slots.size(); ++t) {
    slots[t] = static_cast<std::int64_t>(t % 3 == 0 ? 5 : t * 7 % kTokens);
  }
  const auto view = [](auto& x) {
    return TensorView::contiguous(x.data(), DType::kFloat32, {kTokens, kHeads, kHeadDim});
  };
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    std::vector<float> x = q;
    std::vector<float> k = q;
    std::vector<float> keys(kSize);
    std::vector<float> values(kSize);
    rope.with_threads({.count = threads})
        .append({.q = Operand(view(x)),
                 .k = view(k),
                 .v = view(k),
                 .keys = {view(keys)},
                 .values = {view(values)},
                 .slots = Slots::flat(
                     ConstTensorView::contiguous(slots.data(), DType::kInt64, {kTokens}))},
                Positions::range());
    results.push_back(x);
    results.back().insert(results.back().end(), keys.begin(), keys.end());
    results.back().insert(results.back().end(), values.begin(), values.end());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  rope.rotate(view(q), Positions::range());
  EXPECT_TRUE(std::equal(q.begin(), q.end(), results[0].begin()));
  // Of the tokens of slot 5 the last is stored: 2997, or a later one that is not a third.
  std::size_t last = 0;
  for (std::size_t t = 0; t < slots.size(); ++t) {
    if (slots[t] == 5) last = t;
  }
  const std::size_t row = kHeads * kHeadDim;
  EXPECT_TRUE(std::equal(q.begin() + static_cast<std::ptrdiff_t>(last * row),
                         q.begin() + static_cast<std::ptrdiff_t>((last + 1) * row),
                         results[0].begin() + static_cast<std::ptrdiff_t>(kSize + 5 * row)));
}

/// Every pattern of the upper 16 bits of a float, among them NaN, infinities and subnormals.
TEST(RotateTo, RoundsEveryNumber) {
  on_every_target([](std::string_view) {
    constexpr std::int64_t kHeadDim = 64;
    constexpr std::int64_t kTokens = 65536 / kHeadDim;
    // A frequency of 0 rotates by nothing.
    const Rope rope({.pairs = 1, .axes = 1, .values = {0.0}},
                    {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
    reference::Elements x(DType::kBFloat16, 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(x.data(i), &bits, sizeof(bits));
    }
    const auto in = ConstTensorView::contiguous(x.data(), DType::kBFloat16, {kTokens, 1, kHeadDim});
    reference::Elements rotated = x;
    rope.rotate(TensorView::contiguous(rotated.data(), DType::kBFloat16, {kTokens, 1, kHeadDim}),
                Positions::range());
    for (const DType stored : kQuantized) {
      for (const float scale : {1.0f, 0.25f, 0.3f}) {
        std::vector<std::uint8_t> out(65536);
        rope.rotate_to(in,
                       {.data = TensorView::contiguous(out.data(), stored, {kTokens, 1, kHeadDim}),
                        .scale = ConstTensorView::contiguous(&scale, DType::kFloat32, {1})},
                       Positions::range());
        for (std::size_t i = 0; i < 65536; ++i) {
          const float value = static_cast<float>(rotated.get(i)) / scale;
          ASSERT_EQ(out[i], reference::quantized(stored, value)) << i << " " << name_of(stored);
        }
      }
    }
  });
}

TEST(UnrotateTo, QuantisesGroups) {
  constexpr std::int64_t kTokens = 5;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kHeadDim = 512;
  constexpr std::int64_t kGroups = 4;
  constexpr std::size_t kSize = kTokens * kHeads * kHeadDim;
  const Rope rope(
      make_frequencies({.rotary_dim = 64, .theta = 1e4}),
      {.head_dim = kHeadDim, .rotary_offset = kHeadDim - 64, .pairing = Pairing::kInterleaved});
  reference::Elements x(DType::kBFloat16, kSize);
  for (std::size_t i = 0; i < kSize; ++i) x.set(i, std::sin(static_cast<double>(i * i)));
  const auto view = [](reference::Elements& of) {
    return TensorView::contiguous(of.data(), of.dtype(), {kTokens, kHeads, kHeadDim});
  };
  std::vector<std::uint8_t> out(kSize);
  std::vector<float> scales(kTokens * kHeads * kGroups);
  rope.unrotate_to(
      view(x),
      {.data = TensorView::contiguous(out.data(), DType::kFloat8E4M3, {kTokens, kHeads, kHeadDim}),
       .computed_scales =
           TensorView::contiguous(scales.data(), DType::kFloat32, {kTokens, kHeads, kGroups})},
      Positions::range(100));
  rope.unrotate(view(x), Positions::range(100));
  for (std::size_t g = 0; g < scales.size(); ++g) {
    std::vector<float> values;
    for (std::size_t i = 0; i < 128; ++i) values.push_back(static_cast<float>(x.get(g * 128 + i)));
    const float scale = reference::computed_scale(DType::kFloat8E4M3, ScaleUse::kDivide, values);
    EXPECT_EQ(scales[g], scale);
    for (std::size_t i = 0; i < 128; ++i) {
      EXPECT_EQ(out[g * 128 + i], reference::quantized(DType::kFloat8E4M3, values[i] / scale));
    }
  }
}

}  // namespace
}  // namespace rotary::append_test
