// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How much there is decides which kernel takes it (src/cuda/launch_builds.cuh). The other tests are
// small: here are many short tokens, and more of all sizes than the caches hold.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/on_both.h"
#include "rotary/cuda.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};

/// On the GPU launches overlap, or not.
Stream stream_for(const TensorView& x, bool overlap) {
  return {.handle = nullptr, .overlap = overlap && x.device.type == DeviceType::kCuda};
}

Rope make_rope(std::int64_t head_dim, std::int64_t rotary_dim, Pairing pairing,
               const AxisMap& axes = OneAxis{}) {
  return Rope(make_frequencies({.rotary_dim = rotary_dim, .theta = 1e4, .axes = axes}),
              {.head_dim = head_dim, .rotary_offset = head_dim - rotary_dim, .pairing = pairing});
}

/// q and k, and where their results go unless that is in place.
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

/// Calls that read what the call before wrote, in place or there and back.
testing::AssertionResult same(const Rope& rope, const Tensors& tensors, const Positions& positions,
                              bool overlap) {
  return same_on_both(tensors, positions, [&](const Views& x, const Positions& at) {
    const Stream on = stream_for(x[0], overlap);
    for (int i = 0; i < 2; ++i) {
      if (x.size() == 2) rope.rotate({x[0], x[1]}, at, on);
      if (x.size() == 4) rope.rotate({{x[0], x[2]}, {x[1], x[3]}}, at, on);
      if (x.size() == 4) rope.rotate({{x[2], x[0]}, {x[3], x[1]}}, at, on);
    }
  });
}

class CudaAmounts : public testing::TestWithParam<DType> {};

TEST_P(CudaAmounts, ManyShortTokens) {
  constexpr std::int64_t kTokens = 75;  // twice: up to 128 are another kernel's
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
      for (const std::int64_t head_dim : {32, 48}) {  // all of it turns, or not
        const Rope text = make_rope(head_dim, 32, pairing);
        const Rope image = make_rope(head_dim, 32, pairing, Mrope{{4, 6, 6}});
        const auto expect = [&](const Rope& rope, const Positions& positions, const char* what) {
          const Tensors tensors = make_tensors(GetParam(), {2, kTokens, 3, head_dim}, 1, in_place);
          EXPECT_TRUE(same(rope, tensors, positions, true))
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

INSTANTIATE_TEST_SUITE_P(All, CudaAmounts,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

// 20 MB, which the caches hold, and 34 MB: tokens of up to 4 KB, up to 8 KB, and longer ones.
TEST(CudaLargeAmounts, TokensOfEverySize) {
  struct Shape {
    std::int64_t megabytes, q_heads, k_heads, head_dim;
  };
  for (const Shape& shape : {Shape{20, 12, 4, 64}, Shape{34, 7, 3, 64}, Shape{34, 20, 4, 128},
                             Shape{34, 32, 8, 128}, Shape{34, 10, 10, 256}}) {
    const std::int64_t token = 2 * (shape.q_heads + shape.k_heads) * shape.head_dim;
    const std::int64_t tokens = (shape.megabytes << 20) / token / 2 + 1;
    for (const Pairing pairing : kPairings) {
      const Rope rope = make_rope(shape.head_dim, shape.head_dim, pairing);
      for (const bool in_place : {true, false}) {
        for (const bool overlap : {true, false}) {
          const Tensors tensors =
              make_tensors(DType::kBFloat16, {2, tokens, shape.q_heads, shape.head_dim},
                           shape.k_heads, in_place);
          EXPECT_TRUE(same(rope, tensors, Positions::range(131000), overlap))
              << shape.q_heads << " heads of " << shape.head_dim << ' ' << name_of(pairing)
              << (in_place ? " in place" : "") << (overlap ? " overlapping" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace rotary
