// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos_sin() returns the rotation of (1, 0).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "rope/rejects.h"
#include "rotary/frequencies.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "support/half.h"

namespace rotary::cos_sin_test {
namespace {

constexpr std::int64_t kPairs = 5;
constexpr std::int64_t kTokens = 7;

Frequencies scaled() {
  Frequencies f = make_frequencies({.rotary_dim = 2 * kPairs, .theta = 100.0});
  f.scale = 1.25;
  return f;
}

Rope make_rope(const RopeOptions& options = {}) {
  return Rope(scaled(), {.head_dim = 2 * kPairs, .pairing = Pairing::kHalf}, options);
}

template <typename T>
TensorView rows(std::vector<T>& memory, DType dtype) {
  return TensorView::contiguous(memory.data(), dtype, {kTokens, kPairs});
}

TEST(CosSin, OfEveryToken) {
  const std::vector<double> ids = {0.0, 1.0, 2.5, -3.0, 1e6, 7.0, 0.25};
  std::vector<double> cos(kTokens * kPairs);
  std::vector<double> sin(kTokens * kPairs);
  make_rope().cos_sin(rows(cos, DType::kFloat64), rows(sin, DType::kFloat64), Positions::ids(ids));
  const Frequencies f = scaled();
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const long double angle = static_cast<long double>(ids[t]) * f.values[i];
      const std::size_t at = t * kPairs + i;
      const double allowed = 1e-15 + 1.25 * std::fabs(ids[t]) * 1.8e-19;  // as rope.h promises
      EXPECT_NEAR(cos[at], static_cast<double>(1.25L * std::cos(angle)), allowed) << t << ' ' << i;
      EXPECT_NEAR(sin[at], static_cast<double>(1.25L * std::sin(angle)), allowed) << t << ' ' << i;
    }
  }
}

// TableRope with that table gives the same rotation.
TEST(CosSin, MakeATableForTableRope) {
  for (const CachePolicy policy : {CachePolicy::kNone, CachePolicy::kAll}) {
    const Rope rope = make_rope({.cache = {policy, 4}});
    std::vector<float> cos(kTokens * kPairs);
    std::vector<float> sin(kTokens * kPairs);
    rope.cos_sin(rows(cos, DType::kFloat32), rows(sin, DType::kFloat32), Positions::range(-2));
    std::vector<float> x(kTokens * 2 * 2 * kPairs);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
    std::vector<float> y = x;
    const auto view = [](std::vector<float>& memory) {
      return TensorView::contiguous(memory.data(), DType::kFloat32, {kTokens, 2, 2 * kPairs});
    };
    rope.rotate(view(x), Positions::range(-2));
    TableRope({rows(cos, DType::kFloat32), rows(sin, DType::kFloat32)}, rope.layout(),
              TableWidth::kPairs)
        .rotate(view(y));
    EXPECT_EQ(x, y);
  }
}

TEST(CosSin, RoundedOnceAndStrided) {
  const Rope rope = make_rope();
  std::vector<float> cos(kTokens * kPairs);
  std::vector<float> sin(kTokens * kPairs);
  rope.cos_sin(rows(cos, DType::kFloat32), rows(sin, DType::kFloat32), Positions::range(100));
  // Batch rows of [tokens, cos and sin, pairs], backwards.
  std::vector<std::uint16_t> both(2 * kTokens * 2 * kPairs, 0);
  const std::int64_t token = -2 * kPairs;
  const auto part = [&](std::int64_t first) {
    return TensorView{&both[static_cast<std::size_t>(first + (kTokens - 1) * 2 * kPairs)],
                      DType::kBFloat16,
                      3,
                      {2, kTokens, kPairs},
                      {kTokens * 2 * kPairs, token, 1},
                      {}};
  };
  rope.cos_sin(part(0), part(kPairs), Positions::range(100));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const auto from = static_cast<std::size_t>(t * kPairs + i);
        const auto at =
            static_cast<std::size_t>(b * kTokens * 2 * kPairs + (kTokens - 1 - t) * 2 * kPairs + i);
        EXPECT_EQ(both[at], internal::to_bfloat16(cos[from]));
        EXPECT_EQ(both[at + kPairs], internal::to_bfloat16(sin[from]));
      }
    }
  }
}

TEST(CosSin, RejectsInvalidArguments) {
  const Rope rope = make_rope();
  std::vector<float> memory(2 * kTokens * kPairs, 3.0f);
  const auto view = [&](std::initializer_list<std::int64_t> shape, std::int64_t first = 0) {
    return TensorView::contiguous(memory.data() + first, DType::kFloat32, shape);
  };
  const auto rejects = [&](const TensorView& cos, const TensorView& sin, const char* rule,
                           const Positions& positions = Positions::range()) {
    expect_rejected([&] { rope.cos_sin(cos, sin, positions); }, "cos_sin", rule, "");
  };
  const TensorView cos = view({kTokens, kPairs});
  const TensorView sin = view({kTokens, kPairs}, kTokens * kPairs);
  rejects(view({kTokens * kPairs}), sin, "got rank 1");
  rejects(view({kTokens, kPairs - 1}), sin, "a column for each of 5 pairs, got 4");
  rejects(cos, view({kTokens - 1, kPairs}, kTokens * kPairs), "the same shape, type and device");
  rejects(cos, cos, "must not share memory");
  TensorView whole = cos;
  whole.dtype = DType::kInt32;
  rejects(whole, whole, "floating-point type of 16 bits or more, got int32");
  TensorView repeated = cos;
  repeated.strides[0] = 0;
  rejects(repeated, sin, "must not share memory");
  const std::vector<std::int64_t> few(3, 0);
  rejects(cos, sin, "positions must be given for 7 tokens", Positions::ids(few));
  constexpr const char* kApart = "must not share memory with the positions";
  rejects(cos, sin, kApart, Positions::ids(view({kTokens}, kPairs)));
  rejects(cos, sin, kApart, Positions::ids(view({kTokens}, kTokens * kPairs)));
  EXPECT_EQ(memory, std::vector<float>(memory.size(), 3.0f));
}

}  // namespace
}  // namespace rotary::cos_sin_test
