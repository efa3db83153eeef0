// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// TableRope and Rope::cos_sin on the GPU: bit-identical to the CPU for tables of every type, width
// and memory layout, indexed by token or by position; NaN outside the table.

#include "rotary/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/against_cpu.h"
#include "cuda/tables.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kRows = 50;

HeadLayout head(std::int64_t pairs, Pairing pairing, Pairing output) {
  const bool odd = pairs % 8 != 0;
  return {.head_dim = 2 * pairs + (odd ? 6 : 8),
          .rotary_offset = odd ? 3 : 0,
          .pairing = pairing,
          .output_pairing = output};
}

/// q in place and k out of place: rotate, unrotate and adjoint. `positions` null: row t for token
/// t.
testing::AssertionResult rotations_match_cpu(const Ropes& ropes, const HeadLayout& layout,
                                             DType dtype, const Positions* positions) {
  const Sizes sizes{kBatch, kTokens, 3, layout.head_dim};
  for (int op = 0; op < 3; ++op) {
    Tensors tensors;
    for (const Layout tensor_layout :
         {Layout::kContiguous, Layout::kPackedQkv, Layout::kHeadsFirst}) {
      tensors.push_back(std::make_unique<PlacedTensor>(tensor_layout, dtype, sizes, 1, 0));
    }
    const auto result =
        matches_cpu(tensors, positions == nullptr ? Positions::range() : *positions,
                    [&](const Views& x, const Positions& at) {
                      const TableRope& rope = ropes.of(x[0]);
                      const std::vector<Operand> list = {x[0], {x[1], x[2]}};
                      const Operands operands = std::span<const Operand>(list);
                      if (op == 0)
                        return positions ? rope.rotate(operands, at) : rope.rotate(operands);
                      if (op == 1)
                        return positions ? rope.unrotate(operands, at) : rope.unrotate(operands);
                      return positions ? rope.adjoint(operands, at) : rope.adjoint(operands);
                    });
    if (!result) return testing::AssertionFailure() << "op " << op << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

class CudaTable : public testing::TestWithParam<DType> {};

// Every choice of positions with every type of table; the other parameters cycle.
TEST_P(CudaTable, MatchesCpuBits) {
  const std::vector<std::int32_t> ids = {49, 0, 7, 7, 1, 30};
  const std::vector<std::int64_t> first = {44, 3};
  const std::vector<std::int64_t> boundaries = {0, 2, 6};
  const std::vector<std::int64_t> starts = {44, 10};
  const std::vector<Positions> positions = {Positions::ids(ids), Positions::range(44),
                                            Positions::range(first), Positions::at(49),
                                            Positions::packed(boundaries, starts)};
  int count = 0;
  for (const DType table_type : kTypes) {
    for (const std::int64_t batch : {0, 1, 2}) {
      for (int choice = -1; choice < static_cast<int>(positions.size()); ++choice) {
        for (const TableWidth width : {TableWidth::kPairs, TableWidth::kTwicePairs}) {
          for (const std::int64_t pairs : {17, 32}) {
            const Pairing pairing = kPairings[count % 2];
            const HeadLayout layout = head(pairs, pairing, kPairings[count / 2 % 2]);
            const std::int64_t columns = width == TableWidth::kPairs ? pairs : 2 * pairs;
            const Table table(table_type, batch, choice < 0 ? kTokens : kRows, columns,
                              static_cast<TableLayout>(count++ % 3));
            const Ropes ropes(table.host(), layout, width);
            const Positions* at =
                choice < 0 ? nullptr : &positions[static_cast<std::size_t>(choice)];
            ASSERT_TRUE(rotations_match_cpu(ropes, layout, GetParam(), at))
                << "table of " << name_of(table_type) << ", batch " << batch << ", choice "
                << choice << ", " << columns << " columns, " << pairs << " pairs";
          }
        }
      }
    }
  }
}

// Positions outside the table: their tokens become NaN in the rotary slice, the others are exact.
TEST_P(CudaTable, NanOutsideTheTable) {
  constexpr std::int64_t kPairs = 16;
  const Table table(DType::kFloat32, 0, kRows, kPairs, TableLayout::kContiguous);
  for (const Pairing pairing : kPairings) {
    const HeadLayout layout = head(kPairs, pairing, pairing);
    const Ropes ropes(table.host(), layout, TableWidth::kPairs);
    const std::vector<std::int64_t> ids = {49, 50, -1, 0, std::int64_t{1} << 32, 3};
    const std::vector<std::int64_t> good = {49, 0, 0, 0, 0, 3};
    const PlacedTensor x(Layout::kContiguous, GetParam(), {kBatch, kTokens, 3, layout.head_dim}, 1);
    const DeviceTensor device(x);
    ropes.of(device.view()).rotate(device.view(), DevicePositions(Positions::ids(ids)));
    ropes.of(x.view()).rotate(x.view(), Positions::ids(good));
    const auto got = device.downloaded();
    const auto places = x.indices();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const auto token = static_cast<std::size_t>(at / (3 * layout.head_dim) % kTokens);
      const bool rotated = at % layout.head_dim < 2 * kPairs;
      if (rotated && ids[token] != good[token]) {
        ASSERT_TRUE(std::isnan(got.get(places[i]))) << i;
      } else {
        ASSERT_EQ(got.bits(places[i]), x.memory().bits(places[i])) << i;
      }
    }
  }
}

/// cos and sin of one rope in several layouts, on both engines.
void expect_same_cos_sin(const Rope& rope, DType dtype, const Positions& positions) {
  for (const Layout layout :
       {Layout::kRank3, Layout::kContiguous, Layout::kBackwards, Layout::kInnerStride2}) {
    const std::int64_t batch = layout == Layout::kRank3 ? 1 : kBatch;
    if (positions.batch() >= 0 && positions.batch() != batch) continue;
    Tensors tensors;
    for (const unsigned seed : {1u, 2u}) {
      tensors.push_back(std::make_unique<PlacedTensor>(
          layout, dtype, Sizes{batch, kTokens, 1, rope.frequencies().pairs}, seed));
    }
    ASSERT_TRUE(matches_cpu(
        tensors, positions,
        [&](const Views& x, const Positions& at) {
          const auto without_heads = [&](TensorView view) {
            const auto heads = static_cast<std::size_t>(view.rank - 2);
            view.shape[heads] = view.shape[heads + 1];
            view.strides[heads] = view.strides[heads + 1];
            --view.rank;
            return view;
          };
          rope.cos_sin(without_heads(x[0]), without_heads(x[1]), at);
        },
        rope.frequencies().growth.empty() ? 0.0 : 8.0))
        << name_of(dtype) << ' ' << name_of(layout);
  }
}

TEST_P(CudaTable, CosSin) {
  const std::vector<std::int64_t> ids = {7, -3, 511, 0, 390, 77};
  const std::vector<std::int64_t> rows = {5, -77};
  const std::vector<double> real = {0.1, -0.37, 0.0, 100.3, 1e-9, 512.5};
  const std::vector<Positions> positions = {Positions::range(-2), Positions::ids(ids),
                                            Positions::range(rows), Positions::ids(real)};
  const Yarn yarn{.factor = 4, .original_context = 64};
  for (const std::int64_t pairs : {1, 17, 64, 300}) {
    for (const Scaling& scaling : {Scaling(Plain{}), Scaling(yarn), Scaling(Xpos{})}) {
      for (const AxisMap& axes : {AxisMap(OneAxis{}), AxisMap(Mrope{{pairs, 0, 0}})}) {
        const Frequencies f = make_frequencies(
            {.rotary_dim = 2 * pairs, .theta = 1e4, .scaling = scaling, .axes = axes});
        for (const Precision precision : {Precision::kExact, Precision::kReference}) {
          const Rope rope(f, {.head_dim = 2 * pairs, .pairing = Pairing::kHalf},
                          {.precision = precision});
          for (const Positions& at : positions) {
            expect_same_cos_sin(rope, GetParam(), at.on_all_axes());
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaTable, testing::ValuesIn(kTypes),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

}  // namespace
}  // namespace rotary
