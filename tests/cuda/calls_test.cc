// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every kind of call on the GPU, in every type, with several tensors and positions of every kind:
// bit-identical to the CPU, canaries included.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/against_cpu.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 6;

/// Frequencies, and the tolerance between GPU and CPU in ulps: with growth, exp may differ in its
/// last place, for values up to 8.
struct Recipe {
  std::string name;
  Frequencies f;
  double ulps;
};

Recipe recipe(std::string name, const Scaling& scaling, const AxisMap& axes, double ulps) {
  return {std::move(name),
          make_frequencies({.rotary_dim = 48, .theta = 1e4, .scaling = scaling, .axes = axes}),
          ulps};
}

std::vector<Recipe> recipes() {
  const Yarn yarn{.factor = 4, .original_context = 64};
  Mixed matrix{.axes = 2, .frequencies = {}};
  for (int i = 0; i < 48; ++i) matrix.frequencies.push_back(0.9 - 0.037 * i);
  return {recipe("plain", Plain{}, OneAxis{}, 0.0), recipe("YaRN", yarn, OneAxis{}, 0.0),
          recipe("M-RoPE", yarn, Mrope{{8, 8, 8}}, 0.0), recipe("mixed", Plain{}, matrix, 0.0),
          recipe("xPos", Xpos{.origin = 30.0}, OneAxis{}, 8.0)};
}

/// A rotary slice that can be vectorised, or an unaligned one.
HeadLayout head(Pairing pairing, Pairing output, bool odd) {
  return {.head_dim = odd ? 51 : 64,
          .rotary_offset = odd ? 3 : 0,
          .pairing = pairing,
          .output_pairing = output};
}

Sizes sizes(std::int64_t heads, const HeadLayout& layout) {
  return {kBatch, kTokens, heads, layout.head_dim};
}

std::unique_ptr<PlacedTensor> tensor(Layout layout, DType dtype, const Sizes& sizes, unsigned seed,
                                     std::int64_t misaligned) {
  return std::make_unique<PlacedTensor>(layout, dtype, sizes, seed, misaligned);
}

struct NamedOp {
  const char* name;
  std::function<void(const Rope&, const Operands&, const Positions&)> run;
};
std::vector<NamedOp> ops() {
  return {
      {"rotate", [](const Rope& r, const Operands& x, const Positions& p) { r.rotate(x, p); }},
      {"unrotate", [](const Rope& r, const Operands& x, const Positions& p) { r.unrotate(x, p); }},
      {"adjoint", [](const Rope& r, const Operands& x, const Positions& p) { r.adjoint(x, p); }},
      {"shift", [](const Rope& r, const Operands& x, const Positions& p) { r.shift(x, p); }},
      {"rerotate", [](const Rope& r, const Operands& x, const Positions& p) {
         Frequencies other = r.frequencies();
         other.scale = 0.7;
         for (double& f : other.values) f *= -0.37;
         rerotate(x, r, Rope(other, r.layout()), p);
       }}};
}

/// q in place and k out of place, both of one type.
testing::AssertionResult q_and_k_match_cpu(const NamedOp& op, const Rope& rope, DType dtype,
                                           bool odd, const Positions& positions, double ulps) {
  const HeadLayout& layout = rope.layout();
  Tensors tensors;
  tensors.push_back(tensor(Layout::kContiguous, dtype, sizes(5, layout), 1, odd ? 1 : 0));
  tensors.push_back(tensor(Layout::kPackedQkv, dtype, sizes(2, layout), 2, odd ? 3 : 0));
  tensors.push_back(tensor(Layout::kHeadsFirst, dtype, sizes(2, layout), 3, 0));
  return matches_cpu(
      tensors, positions,
      [&](const Views& x, const Positions& at) { op.run(rope, {x[0], {x[1], x[2]}}, at); }, ulps);
}

class CudaCalls : public testing::TestWithParam<DType> {};

TEST_P(CudaCalls, EveryOpRecipeAndPairing) {
  const std::vector<std::int64_t> far = {7, -3, 131071, 0, 39001, 77};
  const std::vector<std::int64_t> near = {7, -3, 511, 0, 390, 77};
  for (const Recipe& t : recipes()) {
    const Positions positions = Positions::ids(t.ulps > 0.0 ? near : far).on_all_axes();
    for (const Pairing pairing : kPairings) {
      for (const Pairing output : kPairings) {
        for (const bool odd : {false, true}) {
          for (const Precision precision : {Precision::kExact, Precision::kReference}) {
            const Rope rope(t.f, head(pairing, output, odd), {.precision = precision});
            for (const NamedOp& op : ops()) {
              ASSERT_TRUE(q_and_k_match_cpu(op, rope, GetParam(), odd, positions, t.ulps))
                  << t.name << ' ' << op.name << ' ' << name_of(pairing) << "->" << name_of(output)
                  << (odd ? " odd" : "") << (precision == Precision::kExact ? "" : " reference");
            }
          }
        }
      }
    }
  }
}

// Starts per batch row, packed sequences and distances: int32 and int64, contiguous and strided.
TEST_P(CudaCalls, PositionsInEveryForm) {
  const std::vector<std::int64_t> rows = {5, -77};
  const std::vector<std::int32_t> short_rows = {5, 9, -77, 9};
  const std::vector<std::int64_t> boundaries = {0, 1, 1, 4, kTokens};
  const std::vector<std::int32_t> short_boundaries = {0, 1, 1, 4, kTokens};
  const std::vector<std::int64_t> starts = {-5, 100, 1 << 20, 3};
  const std::vector<std::int32_t> short_starts = {-5, 100, 1 << 20, 3};
  const std::vector<std::int64_t> ids = {0, 1, 2, 3, 4, 5, 1L << 40, -(1L << 33), 9, 8, 7, 6};
  const std::vector<float> real32 = {0.5f, -0.37f, 0.0f, 100.125f, 1e-3f, 1e9f};
  const std::vector<double> real64 = {0.1, -0.37, 0.0, 100.3, 1e-9, 1e12};
  const auto row = [](const std::vector<std::int32_t>& x, std::int64_t size, std::int64_t step) {
    return ConstTensorView{x.data(), DType::kInt32, 1, {size}, {step}, {}};
  };
  const auto every_row =
      ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, kBatch, kTokens});
  const auto back = ConstTensorView{real64.data() + 5, DType::kFloat64, 2, {1, 6}, {0, -1}, {}};
  const auto b32 = row(short_boundaries, 5, 1);
  const std::vector<Positions> all = {Positions::range(),
                                      Positions::range(-1000),
                                      Positions::range((std::int64_t{1} << 40) - 3),
                                      Positions::range(rows),
                                      Positions::range(row(short_rows, 2, 2)),
                                      Positions::at(131072),
                                      Positions::at(rows),
                                      Positions::at(row(short_rows, 2, 1)),
                                      Positions::packed(boundaries),
                                      Positions::packed(boundaries, starts),
                                      Positions::packed(b32),
                                      Positions::packed(b32, row(short_starts, 4, 1)),
                                      Positions::packed_at(boundaries, starts),
                                      Positions::packed_at(b32, row(short_starts, 4, 1)),
                                      Positions::ids(every_row),
                                      Positions::ids(std::span<const float>(real32)),
                                      Positions::ids(std::span<const double>(real64)),
                                      Positions::ids(back)};
  const Rope rope(recipes()[1].f, head(Pairing::kHalf, Pairing::kHalf, false));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const NamedOp& op : ops()) {
      ASSERT_TRUE(q_and_k_match_cpu(op, rope, GetParam(), false, all[i], 0.0))
          << i << ' ' << op.name;
    }
  }
}

// Tokens beyond the last boundary continue the last sequence; GPU only.
TEST_P(CudaCalls, TokensBeyondTheBoundaries) {
  const DeviceList<std::int64_t> boundaries({0, 1, 3});
  const DeviceList<std::int64_t> first({10, 20});
  const auto list = [](const DeviceList<std::int64_t>& x, std::int64_t size) {
    return ConstTensorView::contiguous(x.data(), DType::kInt64, {size}, kGpu);
  };
  const std::vector<std::int64_t> ids = {10, 20, 21, 22, 23, 24};
  const Rope rope(recipes()[0].f, head(Pairing::kHalf, Pairing::kHalf, false));
  const PlacedTensor x(Layout::kContiguous, GetParam(), sizes(3, rope.layout()), 1, 0);
  const DeviceTensor got(x);
  rope.rotate(got.view(), Positions::packed(list(boundaries, 3), list(first, 2)));
  rope.rotate(x.view(), Positions::ids(ids));
  EXPECT_TRUE(got.downloaded() == x.memory());
}

// The maximum number of operands, of all types, some in place and some not, some without heads.
TEST_P(CudaCalls, SixteenOperands) {
  for (const bool odd : {false, true}) {
    for (const Pairing output : kPairings) {
      const Rope rope(recipes()[1].f, head(Pairing::kInterleaved, output, odd));
      Tensors tensors;
      for (unsigned i = 0; i < 2 * kMaxOperands; ++i) {
        const DType dtype = i % 8 < 4 ? kTypes[i / 2 % 4] : GetParam();
        const auto layout = i % 4 < 2 ? Layout::kContiguous : Layout::kHeadwiseQkv;
        tensors.push_back(tensor(layout, dtype, sizes(i / 2 % 4, rope.layout()), i, odd ? 1 : 0));
      }
      for (const NamedOp& op : ops()) {
        ASSERT_TRUE(matches_cpu(tensors, Positions::range(131069),
                                [&](const Views& x, const Positions& at) {
                                  std::vector<Operand> list;
                                  for (std::size_t i = 0; i < x.size(); i += 2) {
                                    list.push_back(i % 3 == 0 ? Operand(x[i])
                                                              : Operand(x[i], x[i + 1]));
                                  }
                                  op.run(rope, std::span<const Operand>(list), at);
                                }))
            << op.name;
      }
    }
  }
}

// The cos/sin cache is the CPU's; the GPU computes the angles, with the same bits.
TEST_P(CudaCalls, CacheChangesNothing) {
  const HeadLayout layout = head(Pairing::kHalf, Pairing::kHalf, false);
  const Rope rope(recipes()[1].f, layout,
                  {.cache = {.policy = CachePolicy::kAll, .positions = 64}});
  for (const NamedOp& op : ops()) {
    ASSERT_TRUE(q_and_k_match_cpu(op, rope, GetParam(), false, Positions::range(61), 0.0))
        << op.name;
  }
}

// No access outside the bytes of a view. compute-sanitizer sees it: the allocation ends with the
// view.
TEST_P(CudaCalls, NoAccessOutsideTheView) {
  for (const std::int64_t pairs : {1, 3, 4, 7, 8, 16, 33, 64, 128, 150}) {
    for (const Pairing pairing : kPairings) {
      for (const std::int64_t rest : {0, 1, 8}) {
        Frequencies f{.pairs = pairs};
        for (std::int64_t i = 0; i < pairs; ++i) {
          f.values.push_back(1.0 / (1.0 + static_cast<double>(i)));
        }
        const Rope rope(f, {.head_dim = 2 * pairs + rest, .pairing = pairing});
        const PlacedTensor x(Layout::kContiguous, GetParam(), sizes(3, rope.layout()), 1, 0);
        const DeviceView in(x.view());
        const DeviceView out(x.view());
        rope.rotate(in.view(), out.writable(), Positions::range(7));
        rope.rotate(in.writable(), Positions::range(7));
        rope.rotate(x.view(), Positions::range(7));
        const PlacedTensor got(Layout::kContiguous, GetParam(), x.sizes(), 2, 0);
        for (const DeviceView* from : {&in, &out}) {
          from->download(got.view());
          ASSERT_EQ(got.bits(), x.bits()) << pairs << ' ' << rest;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaCalls, testing::ValuesIn(kTypes),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

}  // namespace
}  // namespace rotary
