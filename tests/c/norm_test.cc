// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary_rope_norm_rotate gives the bits and the errors of the C++ API.

#include "rotary/norm.h"

#include <cstdint>
#include <vector>

#include "c/c_testing.h"

namespace rotary::norm_test {
namespace {

constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kHeadDim = 8;

std::vector<float> numbers(std::int64_t size, float step) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < size; ++i) x.push_back(static_cast<float>(i % 17) * step - 1.0f);
  return x;
}

TensorView heads_of(std::vector<float>& x) {
  return TensorView::contiguous(x.data(), DType::kFloat32, {kTokens, kHeads, kHeadDim});
}
TensorView row_of(std::vector<float>& x) {
  return TensorView::contiguous(x.data(), DType::kFloat32, {static_cast<std::int64_t>(x.size())});
}

CRope c_rope_of_8() {
  rotary_rope* made = nullptr;
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
  ROTARY_EXPECT_OK(rotary_rope_from_theta(kHeadDim, 1e4, &layout, nullptr, &made));
  return CRope(made);
}
Rope rope_of_8() {
  return Rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
              {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
}

TEST(CNormTest, EveryChoiceAsCpp) {
  const CRope c = c_rope_of_8();
  const Rope cpp = rope_of_8();
  const rotary_positions at = rotary_positions_range(7);
  for (int kind = ROTARY_NORM_NONE; kind <= ROTARY_NORM_LAYER; ++kind) {
    for (int bits = 0; bits < 16; ++bits) {
      rotary_norm norm = rotary_norm_init(kind, 1e-5);
      norm.rounding = bits & 1;
      norm.scope = bits >> 1 & 1;
      norm.order = bits >> 2 & 1;
      norm.rotation = bits >> 3 & 1;
      std::vector<float> x = numbers(kTokens * kHeads * kHeadDim, 0.3f);
      std::vector<float> y = x;
      const std::int64_t size = norm.scope == 0 ? kHeadDim : kHeads * kHeadDim;
      std::vector<float> weight = numbers(size, 0.2f);
      std::vector<float> bias = numbers(size, 0.1f);
      const rotary_tensor in = c_tensor(heads_of(x));
      const rotary_tensor w = c_tensor(row_of(weight));
      const rotary_tensor b = c_tensor(row_of(bias));
      const bool has_bias = kind == ROTARY_NORM_LAYER;
      ROTARY_EXPECT_OK(rotary_rope_norm_rotate(c.get(), &in, nullptr, 1, &w,
                                               has_bias ? &b : nullptr, &norm, &at));
      cpp.norm_rotate({{heads_of(y), row_of(weight),
                        has_bias ? ConstTensorView(row_of(bias)) : ConstTensorView{}}},
                      {.kind = static_cast<NormKind>(kind),
                       .eps = 1e-5,
                       .rounding = static_cast<NormRounding>(norm.rounding),
                       .scope = static_cast<NormScope>(norm.scope),
                       .order = static_cast<NormOrder>(norm.order),
                       .rotation = static_cast<NormRotation>(norm.rotation)},
                      Positions::range(7));
      EXPECT_EQ(x, y) << kind << " " << bits;
    }
  }
}

TEST(CNormTest, RejectsBadArguments) {
  const CRope c = c_rope_of_8();
  const rotary_positions at = rotary_positions_range(0);
  std::vector<float> x = numbers(kTokens * kHeads * kHeadDim, 0.3f);
  const std::vector<float> before = x;
  const rotary_tensor in = c_tensor(heads_of(x));
  rotary_norm norm = rotary_norm_init(ROTARY_NORM_RMS, 1e-6);
  const auto call = [&](const rotary_tensor* tensors, const rotary_norm* how,
                        const rotary_positions* positions) {
    return rotary_rope_norm_rotate(c.get(), tensors, nullptr, 1, nullptr, nullptr, how, positions);
  };
  expect_failed(call(nullptr, &norm, &at), ROTARY_INVALID_ARGUMENT, "[rotary_rope_norm_rotate]",
                "in");
  expect_failed(call(&in, nullptr, &at), ROTARY_INVALID_ARGUMENT, "[rotary_rope_norm_rotate]",
                "norm");
  expect_failed(call(&in, &norm, nullptr), ROTARY_INVALID_ARGUMENT, "[rotary_rope_norm_rotate]",
                "positions");
  norm.kind = 4;
  expect_failed(call(&in, &norm, &at), ROTARY_INVALID_ARGUMENT, "[rotary_rope_norm_rotate]",
                "norm.kind");
  norm = rotary_norm_init(ROTARY_NORM_RMS, -1.0);
  expect_failed(call(&in, &norm, &at), ROTARY_INVALID_ARGUMENT, "[norm_rotate]",
                "eps must be finite");
  EXPECT_EQ(x, before);
}

}  // namespace
}  // namespace rotary::norm_test
