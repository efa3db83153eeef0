// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The size class selects kernel and configuration (src/cuda/launch_tuned.cuh). The other tests are
// small; these have many short tokens, and tensors larger than the caches.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/against_cpu.h"
#include "rotary/cuda.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};

/// `overlap` applies to CUDA tensors only.
Stream stream_for(const TensorView& x, bool overlap) {
  return {.handle = nullptr, .overlap = overlap && x.device.type == DeviceType::kCuda};
}

Rope make_rope(std::int64_t head_dim, std::int64_t rotary_dim, Pairing pairing,
               const AxisMap& axes = OneAxis{}) {
  return Rope(make_frequencies({.rotary_dim = rotary_dim, .theta = 1e4, .axes = axes}),
              {.head_dim = head_dim, .rotary_offset = head_dim - rotary_dim, .pairing = pairing});
}

/// q and k, and their outputs unless in place.
Tensors make_tensors(DType dtype, const Sizes& q, std::int64_t k_heads, bool in_place) {
  const Sizes k{q.batch, q.tokens, k_heads, q.head_dim};
  Tensors tensors;
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, q, 1, 0));
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, k, 2, 0));
  if (in_place) return tensors;
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, q, 3, 0));
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kHeadsFirst, dtype, k, 4, 0));
  return tensors;
}

/// The same memory with batch, tokens and heads reversed.
TensorView backwards(TensorView x) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    last += (x.shape[i] - 1) * x.strides[i];
    x.strides[i] = -x.strides[i];
  }
  x.data = static_cast<std::byte*>(x.data) + last * static_cast<std::int64_t>(size_of(x.dtype));
  return x;
}

/// In place, or out of place.
void rotate(const Rope& rope, const Views& x, const Positions& positions, Stream on) {
  if (x.size() == 2) rope.rotate({x[0], x[1]}, positions, on);
  if (x.size() == 4) rope.rotate({{x[0], x[2]}, {x[1], x[3]}}, positions, on);
}

/// The reverse order: begins with what rotate() writes last, and ends with what it reads first.
void rotate_backwards(const Rope& rope, const Views& x, const Positions& positions, Stream on) {
  const TensorView q = backwards(x[0]);
  const TensorView k = backwards(x[1]);
  if (x.size() == 2) rope.rotate({k, q}, positions, on);
  if (x.size() == 4) rope.rotate({{backwards(x[3]), k}, {backwards(x[2]), q}}, positions, on);
}

/// Chained calls: each first reads, or prefetches, what the previous one writes last.
testing::AssertionResult chain_matches_cpu(const Rope& rope, const Tensors& tensors,
                                           const Positions& positions, bool overlap) {
  return matches_cpu(tensors, positions, [&](const Views& x, const Positions& at) {
    const Stream on = stream_for(x[0], overlap);
    for (int i = 0; i < 2; ++i) {
      rotate(rope, x, at, on);
      rotate_backwards(rope, x, at, on);
    }
  });
}

class CudaSizeClasses : public testing::TestWithParam<DType> {};

TEST_P(CudaSizeClasses, ManyShortTokens) {
  constexpr std::int64_t kTokens =
      75;  // times 2 batch rows: over 128, which another kernel handles
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> short_ids;
  for (std::int64_t i = 0; i < 3 * 2 * kTokens; ++i) {
    ids.push_back(i * i * 977 - 5);
    short_ids.push_back(static_cast<std::int32_t>(3 * i) - 7);
  }
  const auto at = [&](auto& values, DType dtype, std::int64_t axes) {
    return Positions::ids(TensorView::contiguous(values.data(), dtype, {axes, 2, kTokens}));
  };
  const std::vector<std::int64_t> boundaries = {0, 1, 40, 40, kTokens};
  for (const Pairing pairing : kPairings) {
    for (const bool in_place : {true, false}) {
      for (const std::int64_t head_dim : {32, 48}) {  // full or partial rotary_dim
        const Rope text = make_rope(head_dim, 32, pairing);
        const Rope image = make_rope(head_dim, 32, pairing, Mrope{{4, 6, 6}});
        const auto expect = [&](const Rope& rope, const Positions& positions, const char* what) {
          const Tensors tensors = make_tensors(GetParam(), {2, kTokens, 3, head_dim}, 1, in_place);
          EXPECT_TRUE(chain_matches_cpu(rope, tensors, positions, true))
              << what << ' ' << name_of(pairing) << (in_place ? " in place " : " ") << head_dim;
        };
        expect(text, Positions::range(-3), "range");
        expect(text, at(ids, DType::kInt64, 1), "ids");
        expect(text, at(short_ids, DType::kInt32, 1), "short ids");
        expect(text, Positions::packed(boundaries), "packed");
        expect(image, at(ids, DType::kInt64, 3), "image");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaSizeClasses,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

struct Shape {
  std::int64_t megabytes, q_heads, k_heads, head_dim;
};

/// q and k of two batch rows in bfloat16, at least `megabytes` together.
Tensors make_tensors(const Shape& shape, bool in_place) {
  const std::int64_t token = 2 * (shape.q_heads + shape.k_heads) * shape.head_dim;
  const std::int64_t tokens = (shape.megabytes << 20) / token / 2 + 1;
  return make_tensors(DType::kBFloat16, {2, tokens, shape.q_heads, shape.head_dim}, shape.k_heads,
                      in_place);
}

std::string describe(const Shape& shape, Pairing pairing, bool in_place) {
  return std::to_string(shape.q_heads) + " and " + std::to_string(shape.k_heads) + " heads of " +
         std::to_string(shape.head_dim) + ' ' + std::string(name_of(pairing)) +
         (in_place ? " in place" : "");
}

// 20 MB, which fit the caches, and 34 MB: tokens of up to 4 KB, up to 8 KB, and longer ones. The
// last two do not fit the warp shuffle.
TEST(CudaLargeSizes, TokensOfEverySize) {
  for (const Shape& shape :
       {Shape{20, 12, 4, 64}, Shape{34, 7, 3, 64}, Shape{34, 20, 4, 128}, Shape{34, 32, 8, 128},
        Shape{34, 10, 10, 256}, Shape{34, 24, 24, 96}, Shape{34, 50, 18, 64}}) {
    for (const Pairing pairing : kPairings) {
      const Rope rope = make_rope(shape.head_dim, shape.head_dim, pairing);
      for (const bool in_place : {true, false}) {
        const Tensors tensors = make_tensors(shape, in_place);
        for (const bool overlap : {true, false}) {
          EXPECT_TRUE(chain_matches_cpu(rope, tensors, Positions::range(131000), overlap))
              << describe(shape, pairing, in_place) << (overlap ? " overlapping" : "");
        }
      }
    }
  }
}

// For the sanitizers: every configuration of the tuned kernels for large tensors, once.
TEST(CudaLargeSizes, EveryConfigOnce) {
  struct ConfigCase {
    Pairing pairing;
    bool in_place;
    Shape shape;
  };
  constexpr auto kHalf = Pairing::kHalf;
  constexpr auto kInterleaved = Pairing::kInterleaved;
  for (const auto& [pairing, in_place, shape] :
       {ConfigCase{kHalf, true, {34, 7, 3, 64}},               // OneHead
        ConfigCase{kHalf, true, {34, 20, 4, 128}},             // rotate_tokens
        ConfigCase{kHalf, true, {34, 32, 8, 128}},             // FourHeads, warp shuffle
        ConfigCase{kHalf, true, {34, 24, 24, 96}},             // TwoAdjacentHeads
        ConfigCase{kInterleaved, true, {34, 20, 4, 128}},      // TwoHeads
        ConfigCase{kInterleaved, true, {34, 32, 8, 128}},      // EightHeads
        ConfigCase{kInterleaved, false, {34, 32, 8, 128}}}) {  // FourHeads
    const Rope rope = make_rope(shape.head_dim, shape.head_dim, pairing);
    EXPECT_TRUE(matches_cpu(
        make_tensors(shape, in_place), Positions::range(131000),
        [&](const Views& x, const Positions& at) { rotate(rope, x, at, stream_for(x[0], true)); }))
        << describe(shape, pairing, in_place);
  }
}

}  // namespace
}  // namespace rotary
