// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The accuracy that rope.h promises, on the GPU: cos and sin at large positions, and a prefill
// whose error is that of rounding the result once. Long double angles are accurate to 1e-10 at
// positions up to 2^31.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cuda/device_memory.h"
#include "reference/rotation.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"
#include "support/half.h"

namespace rotary {
namespace {

/// Positions of every magnitude up to 2^31.
std::vector<std::int64_t> far_positions() {
  std::vector<std::int64_t> positions = {
      0, 1, 39001, 131071, 1048575, (1 << 24) - 1, 1'000'000'000};
  std::mt19937_64 engine(1);
  while (positions.size() < 4096) {
    const auto bits = static_cast<int>(engine() % 30) + 1;
    const auto p = static_cast<std::int64_t>(engine() >> (64 - bits));
    positions.push_back(engine() % 4 == 0 ? -p : p);
  }
  return positions;
}

// Pairs (1, 0) become (cos, sin).
TEST(CudaAccuracy, CosAndSinOfFarPositions) {
  constexpr std::int64_t kPairs = 64;
  const std::vector<std::int64_t> positions = far_positions();
  const auto tokens = static_cast<std::int64_t>(positions.size());
  for (const double theta : {1e4, 5e5}) {
    const Frequencies f = make_frequencies({.rotary_dim = 2 * kPairs, .theta = theta});
    const Rope rope(f, {.head_dim = 2 * kPairs, .pairing = Pairing::kInterleaved});
    std::vector<float> unit(static_cast<std::size_t>(tokens * 2 * kPairs), 0.0f);
    for (std::size_t i = 0; i < unit.size(); i += 2) unit[i] = 1.0f;
    const DeviceList<float> x(unit);
    rope.rotate(TensorView::contiguous(x.data(), DType::kFloat32, {tokens, 1, 2 * kPairs}, kGpu),
                DevicePositions(Positions::ids(positions)));
    const std::vector<float> got = x.values();
    long double max_error = 0.0L;
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const auto at = static_cast<long double>(positions[t]);
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const auto z = reference::multiplier(f, reference::Map::kRotate, i, &at);
        const std::size_t index = 2 * (t * kPairs + static_cast<std::size_t>(i));
        max_error = std::max({max_error, std::fabs(static_cast<long double>(got[index]) - z.real()),
                              std::fabs(static_cast<long double>(got[index + 1]) - z.imag())});
      }
    }
    EXPECT_LT(static_cast<double>(max_error), 1e-7) << theta;
    RecordProperty(theta == 1e4 ? "max_error_theta_1e4" : "max_error_theta_5e5",
                   std::to_string(static_cast<double>(max_error) * 1e9) + "e-9");
  }
}

/// Sums of squared errors: of the result, of the exact result rounded once; and of the exact
/// values.
struct Errors {
  long double result = 0.0L;
  long double rounding = 0.0L;
  long double size = 0.0L;

  void add(double got, long double exact) {
    const auto once = static_cast<long double>(
        internal::from_bfloat16(internal::to_bfloat16(static_cast<float>(exact))));
    result += (static_cast<long double>(got) - exact) * (static_cast<long double>(got) - exact);
    rounding += (once - exact) * (once - exact);
    size += exact * exact;
  }
};

// 131,072 tokens of 32 heads in bfloat16, of which 64 are checked.
TEST(CudaAccuracy, PrefillIsRoundedOnce) {
  constexpr std::int64_t kTokens = 131072;
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kDim = 128;
  constexpr std::size_t kRow = kHeads * kDim * 2;
  const Frequencies f = make_frequencies({.rotary_dim = kDim, .theta = 5e5});
  const DeviceMemory memory(kTokens * kRow);
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
    const Rope rope(f, {.head_dim = kDim, .pairing = pairing});
    for (const std::int64_t start : {std::int64_t{0}, std::int64_t{1'000'000'000}}) {
      memory.fill(0x3f);
      const PlacedTensor x(Layout::kContiguous, DType::kBFloat16, {1, 64, kHeads, kDim}, 1, 0);
      const auto* from = static_cast<const std::byte*>(x.view().data);
      constexpr std::size_t kStep = (kTokens - 1) / 63;
      for (std::size_t i = 0; i < 64; ++i) memory.upload(from + i * kRow, kRow, i * kStep * kRow);
      rope.rotate(
          TensorView::contiguous(memory.data(), DType::kBFloat16, {kTokens, kHeads, kDim}, kGpu),
          Positions::range(start));
      std::vector<long double> at;
      reference::Elements got(DType::kBFloat16, 64 * kHeads * kDim);
      for (std::size_t i = 0; i < 64; ++i) {
        at.push_back(static_cast<long double>(start + static_cast<std::int64_t>(i * kStep)));
        memory.download(got.data(i * kRow / 2), kRow, i * kStep * kRow);
      }
      const auto exact =
          reference::rotate(f, rope.layout(), reference::Map::kRotate, x.values(), kHeads, at);
      Errors errors;
      for (std::size_t i = 0; i < exact.size(); ++i) errors.add(got.get(i), exact[i]);
      EXPECT_LT(std::sqrt(errors.result), 1.01L * std::sqrt(errors.rounding)) << start;
      EXPECT_LT(std::sqrt(errors.result / errors.size), 2e-3L) << start;
    }
  }
}

}  // namespace
}  // namespace rotary
