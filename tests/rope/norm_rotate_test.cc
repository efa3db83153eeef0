// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::norm_rotate against its definition: a norm in float32, rounded, then rotate().

#include <gtest/gtest.h>

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "rope/norm_testing.h"
#include "rope/on_every_target.h"
#include "rope/rejects.h"
#include "rotary/norm.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::norm_rotate_test {
namespace {

constexpr std::int64_t kTokens = 9;
constexpr std::int64_t kHeads = 3;
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

using Memory = NormMemory;

Memory random(DType type, std::int64_t size, unsigned seed) {
  return Memory::random(type, size, seed);
}

TensorView heads_of(Memory& x, std::int64_t head_dim) { return x.heads(kTokens, kHeads, head_dim); }

Rope rope_of(std::int64_t head_dim, Pairing pairing) {
  return Rope(make_frequencies({.rotary_dim = head_dim / 4 * 2, .theta = 1e4}),
              {.head_dim = head_dim, .rotary_offset = 1, .pairing = pairing});
}

TEST(NormRotate, HasTheBitsOfNormThenRotate) {
  on_every_target([](std::string_view) {
    for (const DType type : kTypes) {
      for (const std::int64_t head_dim : {7, 8, 24, 64, 72, 100, 128, 320}) {
        for (const int lanes : {4, 8, 16, 32}) {
          for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus}) {
            const bool half = lanes != 8;
            const Rope rope = rope_of(head_dim, half ? Pairing::kHalf : Pairing::kInterleaved);
            const HeadNorm norm{.kind = kind, .eps = 1e-5, .sum_lanes = lanes};
            const std::int64_t size = kTokens * kHeads * head_dim;
            Memory x = random(type, size, 1);
            Memory weight = random(type, head_dim, 2);
            Memory expected(type, size);
            norm_to(x, half ? &weight : nullptr, nullptr, norm, head_dim, expected);
            rope.rotate(heads_of(expected, head_dim), Positions::range(99'000));
            const ConstTensorView w = half ? weight.row() : ConstTensorView{};
            Memory out(type, size);
            const Operand apart(heads_of(x, head_dim), heads_of(out, head_dim));
            rope.norm_rotate({{apart, w}}, norm, Positions::range(99'000));
            EXPECT_EQ(out.bytes(), expected.bytes()) << head_dim << " " << lanes;
            rope.norm_rotate({{heads_of(x, head_dim), w}}, norm, Positions::range(99'000));
            EXPECT_EQ(x.bytes(), expected.bytes()) << head_dim << " " << lanes << " in place";
          }
        }
      }
    }
  });
}

/// Of results so large that they bypass the caches where the CPU has stores for it, on a line and
/// beside one; in place they do not.
TEST(NormRotate, LargeResultsHaveTheBitsOfThoseInPlace) {
  constexpr std::int64_t kManyTokens = 1000;
  constexpr std::int64_t kManyHeads = 17;
  constexpr std::int64_t kHeadDim = 256;
  constexpr std::int64_t kSize = kManyTokens * kManyHeads * kHeadDim;
  const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
                  {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  const HeadNorm norm{.sum_lanes = 8};
  for (const DType type : kTypes) {
    const auto size = static_cast<std::int64_t>(size_of(type));
    Memory x = random(type, kSize, 1);
    std::vector<unsigned char> memory(static_cast<std::size_t>(kSize * size) + 128);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    const TensorView in = x.heads(kManyTokens, kManyHeads, kHeadDim);
    std::vector<std::vector<unsigned char>> results;
    for (const std::size_t past_line : {std::size_t{0}, std::size_t{16}}) {
      unsigned char* const to = memory.data() + (64 - begin % 64) % 64 + past_line;
      const TensorView out = TensorView::contiguous(to, type, {kManyTokens, kManyHeads, kHeadDim});
      rope.norm_rotate({NormOperand(Operand(in, out))}, norm, Positions::range(7));
      results.emplace_back(to, to + kSize * size);
    }
    rope.norm_rotate({NormOperand(in)}, norm, Positions::range(7));
    EXPECT_TRUE(results[0] == x.bytes());
    EXPECT_TRUE(results[1] == x.bytes());
  }
}

/// Numbers of heads that kernels take four at a time, all of which rotate, and others.
TEST(NormRotate, HasTheBitsOfNormThenRotateForGroupsOfHeads) {
  on_every_target([](std::string_view) {
    for (const DType type : kTypes) {
      for (const std::int64_t head_dim : {64, 96, 128, 256}) {
        for (const std::int64_t heads : {4, 6, 8}) {
          for (int i = 0; i < 4; ++i) {
            const Pairing pairing = i < 2 ? Pairing::kHalf : Pairing::kInterleaved;
            const Rope rope(make_frequencies({.rotary_dim = head_dim, .theta = 1e4}),
                            {.head_dim = head_dim, .pairing = pairing});
            const HeadNorm norm{
                .eps = 1e-6,
                .rounding = i % 2 == 0 ? NormRounding::kTensor : NormRounding::kEveryStep,
                .sum_lanes = 4};
            const std::int64_t size = kTokens * heads * head_dim;
            Memory x = random(type, size, 11);
            x.set(1, 0.0f);
            x.set(2, -0.0f);
            x.set(head_dim + 5, 1e-30f);
            Memory weight = random(DType::kFloat32, head_dim, 12);
            Memory expected(type, size);
            norm_to(x, &weight, nullptr, norm, head_dim, expected);
            rope.rotate(expected.heads(kTokens, heads, head_dim), Positions::range(7));
            Memory out(type, size);
            const Operand apart(x.heads(kTokens, heads, head_dim),
                                out.heads(kTokens, heads, head_dim));
            rope.norm_rotate({{apart, weight.row()}}, norm, Positions::range(7));
            EXPECT_EQ(out.bytes(), expected.bytes()) << head_dim << " " << heads;
            rope.norm_rotate({{x.heads(kTokens, heads, head_dim), weight.row()}}, norm,
                             Positions::range(7));
            EXPECT_EQ(x.bytes(), expected.bytes()) << head_dim << " " << heads << " in place";
          }
        }
      }
    }
  });
}

/// Heads that do not fill a vector, whose other lanes must not divide by 0.
TEST(NormRotate, DividesByNothingWithoutEps) {
  constexpr std::int64_t kFiveHeads = 5;
  constexpr std::int64_t kHeadDim = 64;
  const Rope rope = rope_of(kHeadDim, Pairing::kHalf);
  on_every_target([&](std::string_view target) {
    for (const DType type : kTypes) {
      for (const int lanes : {4, 8, 16, 32}) {
        Memory x = random(type, kTokens * kFiveHeads * kHeadDim, 1);
        std::feclearexcept(FE_ALL_EXCEPT);
        rope.norm_rotate({{x.heads(kTokens, kFiveHeads, kHeadDim)}},
                         {.eps = 0.0, .sum_lanes = lanes}, Positions::range());
        EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO), 0) << target << " " << lanes;
      }
    }
  });
}

TEST(NormRotate, RoundsOnceInFloat32) {
  constexpr std::int64_t kHeadDim = 72;
  constexpr std::int64_t kSize = kTokens * kHeads * kHeadDim;
  const Rope rope = rope_of(kHeadDim, Pairing::kInterleaved);
  const HeadNorm norm{.rounding = NormRounding::kFloat32};
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    Memory x = random(type, kSize, 3);
    Memory weight = random(DType::kFloat32, kHeadDim, 4);
    Memory wide(DType::kFloat32, kSize);
    norm_to(x, &weight, nullptr, norm, kHeadDim, wide);
    rope.rotate(heads_of(wide, kHeadDim), Positions::range());
    Memory expected(type, kSize);
    for (std::int64_t i = 0; i < kSize; ++i) expected.set(i, wide.get(i));
    rope.norm_rotate({{heads_of(x, kHeadDim), weight.row()}}, norm, Positions::range());
    EXPECT_EQ(x.bytes(), expected.bytes());
  }
}

TEST(NormRotate, RoundsOnceInFloat32ForGroupsOfHeads) {
  constexpr std::int64_t kHeadDim = 128;
  constexpr std::int64_t kSize = kTokens * 8 * kHeadDim;
  const HeadNorm norm{.rounding = NormRounding::kFloat32};
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
                    {.head_dim = kHeadDim, .pairing = pairing});
    for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
      Memory x = random(type, kSize, 13);
      Memory weight = random(type, kHeadDim, 14);
      Memory wide(DType::kFloat32, kSize);
      norm_to(x, &weight, nullptr, norm, kHeadDim, wide);
      rope.rotate(wide.heads(kTokens, 8, kHeadDim), Positions::range());
      Memory expected(type, kSize);
      for (std::int64_t i = 0; i < kSize; ++i) expected.set(i, wide.get(i));
      rope.norm_rotate({{x.heads(kTokens, 8, kHeadDim), weight.row()}}, norm, Positions::range());
      EXPECT_EQ(x.bytes(), expected.bytes());
    }
  }
}

TEST(NormRotate, WithoutNormItRotates) {
  constexpr std::int64_t kHeadDim = 16;
  const Rope rope = rope_of(kHeadDim, Pairing::kHalf);
  Memory x = random(DType::kBFloat16, kTokens * kHeads * kHeadDim, 5);
  Memory expected = x;
  rope.rotate(heads_of(expected, kHeadDim), Positions::range());
  rope.norm_rotate({Operand(heads_of(x, kHeadDim))}, {.kind = NormKind::kNone}, Positions::range());
  EXPECT_EQ(x.bytes(), expected.bytes());
}

TEST(NormRotate, GradientsByATableHaveTheBitsOfTheRope) {
  constexpr std::int64_t kHeadDim = 24;
  const Rope rope(make_frequencies({.rotary_dim = 16, .theta = 1e4}),
                  {.head_dim = kHeadDim, .rotary_offset = 4, .pairing = Pairing::kInterleaved});
  std::vector<float> cos(kTokens * 8);
  std::vector<float> sin(cos.size());
  const auto table_of = [](std::vector<float>& x) {
    return TensorView::contiguous(x.data(), DType::kFloat32, {kTokens, 8});
  };
  rope.cos_sin(table_of(cos), table_of(sin), Positions::range(70'000));
  const TableRope table({table_of(cos), table_of(sin)}, rope.layout(), TableWidth::kPairs);
  const HeadNorm norm{.kind = NormKind::kRmsOnePlus};
  Memory x = Memory::random(DType::kBFloat16, kTokens * kHeads * kHeadDim, 30);
  Memory g = Memory::random(DType::kBFloat16, x.size(), 31);
  Memory weight = Memory::random(DType::kFloat32, kHeadDim, 32);
  std::vector<Memory> grads;
  std::vector<std::vector<double>> sums;
  const auto find = [&](const auto& gradient) {
    Memory to(DType::kBFloat16, x.size());
    std::vector<double> sum(kHeadDim);
    const NormGradientOperand operand{.in = x.heads(kTokens, kHeads, kHeadDim),
                                      .grad_out = g.heads(kTokens, kHeads, kHeadDim),
                                      .grad_in = to.heads(kTokens, kHeads, kHeadDim),
                                      .weight = weight.row(),
                                      .grad_weight = sum};
    gradient(std::span<const NormGradientOperand>(&operand, 1));
    grads.push_back(to);
    sums.push_back(sum);
  };
  find([&](auto operands) { rope.norm_gradient(operands, norm, Positions::range(70'000)); });
  find([&](auto operands) { table.norm_gradient(operands, norm); });
  find([&](auto operands) { table.norm_gradient(operands, norm, Positions::range(0)); });
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_EQ(grads[i].bytes(), grads[0].bytes());
    EXPECT_EQ(sums[i], sums[0]);
  }
  const auto rejected = [&](TensorView grad_in, const Positions& positions, const char* why) {
    const NormGradientOperand operand{.in = x.heads(kTokens, kHeads, kHeadDim),
                                      .grad_out = g.heads(kTokens, kHeads, kHeadDim),
                                      .grad_in = grad_in};
    expect_rejected([&] { table.norm_gradient({&operand, 1}, norm, positions); }, "norm_gradient",
                    why);
  };
  Memory to(DType::kBFloat16, x.size());
  rejected(to.heads(kTokens, kHeads, kHeadDim), Positions::range(1),
           "positions must be rows of the table");
  TensorView onto_table = to.heads(kTokens, kHeads, kHeadDim);
  onto_table.data = cos.data();
  rejected(onto_table, Positions::range(0), "must not share memory with the table");
}

TEST(NormRotate, RejectsBadArguments) {
  constexpr std::int64_t kHeadDim = 16;
  const Rope rope = rope_of(kHeadDim, Pairing::kHalf);
  Memory x = random(DType::kFloat32, kTokens * kHeads * kHeadDim, 6);
  Memory weight = random(DType::kFloat32, kHeadDim, 7);
  const Memory before = x;
  const auto rejected = [&](const NormOperand& operand, const HeadNorm& norm, const char* rule) {
    expect_rejected([&] { rope.norm_rotate({operand}, norm, Positions::range()); }, "norm_rotate",
                    rule);
  };
  const Operand heads = heads_of(x, kHeadDim);
  rejected(heads, {.eps = -1.0}, "eps must be finite and not negative");
  rejected(heads, {.eps = std::numeric_limits<double>::quiet_NaN()}, "eps must be finite");
  rejected(heads, {.sum_lanes = 5}, "sum_lanes must be 4, 8, 16 or 32, got 5");
  ConstTensorView w = weight.row();
  w.shape[0] = 8;
  rejected({heads, w}, {}, "weights and biases must be [16]");
  w = weight.row();
  w.dtype = DType::kFloat64;
  rejected({heads, w}, {}, "float32, bfloat16 or float16");
  rejected({heads, {}, weight.row()}, {}, "only NormKind::kLayer has a bias");
  rejected({heads, weight.row()}, {.scope = NormScope::kAllHeads},
           "weights and biases must be [48]");
  std::vector<double> wide(static_cast<std::size_t>(kTokens * kHeads * kHeadDim));
  const Operand doubles =
      TensorView::contiguous(wide.data(), DType::kFloat64, {kTokens, kHeads, kHeadDim});
  rejected(doubles, {}, "got float64");
  rejected(Operand(heads_of(x, 8)), {}, "head_dim");
  EXPECT_EQ(x.bytes(), before.bytes());
}

/// The distance of neighbouring numbers of a type at x.
double ulp_of(DType type, double x) {
  const int exponent = std::ilogb(x);
  return type == DType::kBFloat16 ? std::ldexp(1.0, exponent - 7)
                                  : std::ldexp(1.0, std::max(exponent, -14) - 10);
}

// Rounded once: within half a step of the type of the exact value, and what float32 leaves.
TEST(NormRotate, RoundsOnceToTheNearest) {
  constexpr std::int64_t kHeadDim = 128;
  constexpr std::int64_t kPairs = kHeadDim / 2;
  constexpr std::int64_t kFirst = 999'000;
  const Frequencies f = make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4});
  const Rope rope(f, {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    const NormMemory x = NormMemory::random(type, kTokens * kHeads * kHeadDim, 31);
    NormMemory weight = NormMemory::random(type, kHeadDim, 32);
    NormMemory y = x;
    rope.norm_rotate({{y.heads(kTokens, kHeads, kHeadDim), weight.row()}},
                     {.eps = 1e-6, .rounding = NormRounding::kFloat32}, Positions::range(kFirst));
    for (std::int64_t head = 0; head < kTokens * kHeads; ++head) {
      const std::int64_t at = head * kHeadDim;
      const auto element = [&](std::int64_t i) { return static_cast<double>(x.get(at + i)); };
      double squares = 0.0;
      for (std::int64_t i = 0; i < kHeadDim; ++i) squares += element(i) * element(i);
      const double r = 1.0 / std::sqrt(squares / kHeadDim + 1e-6);
      for (std::int64_t p = 0; p < kPairs; ++p) {
        const double a = element(p) * r * static_cast<double>(weight.get(p));
        const double b = element(p + kPairs) * r * static_cast<double>(weight.get(p + kPairs));
        const double phase =
            static_cast<double>(kFirst + head / kHeads) * f.values[static_cast<std::size_t>(p)];
        const double rotated[] = {a * std::cos(phase) - b * std::sin(phase),
                                  a * std::sin(phase) + b * std::cos(phase)};
        for (const std::int64_t k : {0, 1}) {
          const double exact = rotated[k];
          const double got = static_cast<double>(y.get(at + p + k * kPairs));
          ASSERT_LE(std::fabs(got - exact), 0.5 * ulp_of(type, exact) + 1e-6 * std::hypot(a, b))
              << name_of(type) << " head " << head << " pair " << p;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rotary::norm_rotate_test
