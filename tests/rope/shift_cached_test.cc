// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::shift_cached and rerotate_cached: bits where keys are not quantised, else the bound that
// rope.h states.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "reference/elements.h"
#include "reference/stored.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::shift_cached_test {
namespace {

constexpr std::int64_t kBlocks = 5, kBlockSize = 4, kHeads = 2, kHeadDim = 32;
constexpr std::size_t kRow = kHeads * kHeadDim;
constexpr std::size_t kSlots = kBlocks * kBlockSize;

Rope rope_of(double theta) {
  return Rope(make_frequencies({.rotary_dim = 24, .theta = theta}),
              {.head_dim = kHeadDim, .rotary_offset = 4, .pairing = Pairing::kHalf});
}

/// Slots 3, 10, 4, ..., with two that are not stored.
std::vector<std::int64_t> some_slots() {
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < 12; ++i) slots.push_back((3 + 7 * i) % kSlots);
  slots[2] = slots[9] = -1;
  return slots;
}

Slots flat(const std::vector<std::int64_t>& slots) {
  return Slots::flat(ConstTensorView::contiguous(slots.data(), DType::kInt64,
                                                 {static_cast<std::int64_t>(slots.size())}));
}

/// A key of slot s as [1, heads, head_dim].
TensorView key(reference::Elements& keys, std::int64_t slot) {
  return TensorView::contiguous(keys.data(static_cast<std::size_t>(slot) * kRow), keys.dtype(),
                                {1, kHeads, kHeadDim});
}

TEST(ShiftCached, HasTheBitsOfShift) {
  const Rope rope = rope_of(1e4);
  const Rope longer = rope_of(5e5);
  const std::vector<std::int64_t> slots = some_slots();
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    reference::Elements keys(type, kSlots * kRow);
    for (std::size_t i = 0; i < keys.size(); ++i) keys.set(i, std::cos(static_cast<double>(i)));
    const TensorView cache =
        TensorView::contiguous(keys.data(), type, {kBlocks, kBlockSize, kHeads, kHeadDim});
    reference::Elements expected = keys;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] < 0) continue;
      const TensorView one = key(expected, slots[i]);
      rope.shift(one, Positions::at(-4096));
      rerotate(one, rope, longer, Positions::at(static_cast<std::int64_t>(100 + i)));
    }
    rope.shift_cached({cache}, flat(slots), Positions::at(-4096));
    rerotate_cached({cache}, flat(slots), rope, longer, Positions::range(100));
    EXPECT_TRUE(keys == expected) << name_of(type);
  }
}

/// Half a step of the type at the stored magnitude `size`, for a scale of 1.
double half_step(DType stored, double size) {
  if (stored == DType::kInt8) return 0.5;
  const auto [mantissa_bits, bias, largest] = reference::float8_of(stored);
  const int exponent = size > 0 ? std::max(std::ilogb(size), 1 - bias) : 1 - bias;
  return std::ldexp(0.5, exponent - mantissa_bits);
}

TEST(ShiftCached, QuantisedKeysAreWithinTheBound) {
  const Rope rope = rope_of(1e4);
  std::vector<std::int64_t> slots(kSlots);
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const DType stored : {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8}) {
    for (const bool computes : {false, true}) {
      std::vector<std::uint8_t> keys(kSlots * kRow);
      std::vector<float> scales(kSlots * kHeads);
      const std::vector<float> given{stored == DType::kInt8 ? 0.07f : 0.03f};
      StoredTensor cache{.data = TensorView::contiguous(keys.data(), stored,
                                                        {kBlocks, kBlockSize, kHeads, kHeadDim})};
      if (computes) {
        cache.computed_scales =
            TensorView::contiguous(scales.data(), DType::kFloat32, {kBlocks, kBlockSize, kHeads});
      } else {
        cache.scale = ConstTensorView::contiguous(given.data(), DType::kFloat32, {1});
      }
      std::vector<float> k(kSlots * kRow);
      for (float& x : k) x = normal(random);
      const auto view = ConstTensorView::contiguous(
          k.data(), DType::kFloat32, {static_cast<std::int64_t>(kSlots), kHeads, kHeadDim});
      rope.append({.k = view, .keys = cache, .slots = flat(slots)}, Positions::range());
      const auto read = [&](std::size_t i) {
        const float scale = computes ? scales[i / kHeadDim] : given[0];
        return reference::dequantized(stored, keys[i]) * scale;
      };
      reference::Elements exact(DType::kFloat64, keys.size());
      for (std::size_t i = 0; i < keys.size(); ++i) exact.set(i, read(i));
      rope.shift(TensorView::contiguous(exact.data(), DType::kFloat64,
                                        {static_cast<std::int64_t>(kSlots), kHeads, kHeadDim}),
                 Positions::at(-77));
      rope.shift_cached(cache, flat(slots), Positions::at(-77));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const double scale = computes ? scales[i / kHeadDim] : given[0];
        const double want = exact.get(i);
        const double bound = half_step(stored, std::fabs(want) / scale * 1.0001) * scale + 6e-6;
        ASSERT_LE(std::fabs(read(i) - want), bound) << name_of(stored) << " " << i;
      }
    }
  }
}

TEST(ShiftCached, RejectsBadArguments) {
  const Rope rope = rope_of(1e4);
  std::vector<float> keys(kSlots * kRow, 1.0f);
  const std::vector<float> before = keys;
  StoredTensor cache{TensorView::contiguous(keys.data(), DType::kFloat32,
                                            {kBlocks, kBlockSize, kHeads, kHeadDim})};
  const std::vector<std::int64_t> beyond{0, 20};
  expect_rejected([&] { rope.shift_cached(cache, flat(beyond), Positions::at(1)); }, "shift_cached",
                  "slots must be below 20");
  const std::vector<std::int32_t> three{1, 2, 3};
  const std::vector<std::int64_t> two{0, 1};
  expect_rejected([&] { rope.shift_cached(cache, flat(two), Positions::ids(three)); },
                  "shift_cached", "positions must be given for 2 tokens");
  cache.data.shape[3] = 16;
  expect_rejected([&] { rope.shift_cached(cache, flat(two), Positions::at(1)); }, "shift_cached",
                  "keys must hold 2 heads of 32");
  cache.data.shape[3] = kHeadDim;
  const Rope other(make_frequencies({.rotary_dim = 16, .theta = 1e4}),
                   {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  expect_rejected([&] { rerotate_cached(cache, flat(two), rope, other, Positions::at(1)); },
                  "rerotate_cached", "the same slice");
  EXPECT_EQ(keys, before);
}

}  // namespace
}  // namespace rotary::shift_cached_test
