// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// 8-bit output: the CPU's float32 rotation, times the scale, rounded once as reference/float8.h
// does, in every layout, with nothing else written.

#include "reference/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/device_memory.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
constexpr Layout kLayouts[] = {Layout::kContiguous,  Layout::kHeadsFirst,   Layout::kPackedQkv,
                               Layout::kHeadwiseQkv, Layout::kInnerStride2, Layout::kBackwards};
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kHeads = 3;

using Op = std::function<void(const Rope&, const Operand&, const Positions&)>;
std::vector<Op> ops() {
  return {[](const Rope& r, const Operand& x, const Positions& p) { r.rotate(x, p); },
          [](const Rope& r, const Operand& x, const Positions& p) { r.unrotate(x, p); },
          [](const Rope& r, const Operand& x, const Positions& p) { r.adjoint(x, p); },
          [](const Rope& r, const Operand& x, const Positions& p) { r.shift(x, p); },
          [](const Rope& r, const Operand& x, const Positions& p) {
            Frequencies other = r.frequencies();
            for (double& f : other.values) f *= 0.37;
            rerotate(x, r, Rope(other, r.layout()), p);
          }};
}

/// Expected 8-bit output: [batch, tokens, heads, head_dim].
std::vector<std::uint8_t> expected(const Rope& rope, const Op& op, const PlacedTensor& x,
                                   const Positions& positions, DType dtype, float scale) {
  PlacedTensor exact(Layout::kContiguous, DType::kFloat32, x.sizes(), 0);
  exact.assign(x);
  op(rope, exact.view(), positions);
  std::vector<std::uint8_t> bits;
  for (const std::size_t place : exact.indices()) {
    bits.push_back(
        reference::to_float8(dtype, static_cast<float>(exact.memory().get(place)) * scale));
  }
  return bits;
}

/// Whether the output has the expected bits (all NaNs are equal), and nothing else was written.
testing::AssertionResult matches(const DeviceTensor& device, const PlacedTensor& before,
                                 const std::vector<std::uint8_t>& wanted) {
  reference::Elements got = device.downloaded();
  const auto places = before.indices();
  const DType dtype = got.dtype();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto bits = static_cast<std::uint8_t>(got.bits(places[i]));
    const bool both_nan =
        reference::is_nan_float8(dtype, bits) && reference::is_nan_float8(dtype, wanted[i]);
    if (bits != wanted[i] && !both_nan) {
      return testing::AssertionFailure()
             << name_of(dtype) << " element " << i << " is " << int{bits} << ", expected "
             << int{wanted[i]} << " for " << reference::from_float8(dtype, wanted[i]);
    }
    got.copy(places[i], before.memory());
  }
  if (!(got == before.memory())) return testing::AssertionFailure() << "memory outside changed";
  return testing::AssertionSuccess();
}

Rope make_rope(std::int64_t pairs, Pairing pairing, Pairing output, bool odd) {
  return Rope(make_frequencies({.rotary_dim = 2 * pairs,
                                .theta = 1e4,
                                .scaling = Yarn{.factor = 4, .original_context = 64}}),
              {.head_dim = 2 * pairs + (odd           ? 5
                                        : pairs == 32 ? 16
                                                      : 0),
               .rotary_offset = odd ? 3 : 0,
               .pairing = pairing,
               .output_pairing = output});
}

using Param = std::tuple<DType, DType>;  // in, out
class CudaFloat8 : public testing::TestWithParam<Param> {};

TEST_P(CudaFloat8, EveryLayoutAndOp) {
  const auto [in_type, out_type] = GetParam();
  const std::vector<std::int64_t> ids = {7, -3, 131071, 0, 39001, 77};
  const Positions positions = Positions::ids(ids);
  const DevicePositions at(positions);
  for (const float scale : {1.0f, 0.37f, 700.0f}) {
    const DeviceList<float> device_scale({scale});
    for (const std::int64_t pairs : {6, 32, 64}) {
      for (const Pairing pairing : kPairings) {
        for (const Pairing output : kPairings) {
          const Rope rope = make_rope(pairs, pairing, output, pairs == 6);
          const Sizes sizes{kBatch, kTokens, kHeads, rope.layout().head_dim};
          unsigned index = 0;
          for (const Layout layout : kLayouts) {
            ++index;
            const PlacedTensor x(kLayouts[index % 3], in_type, sizes, 1, index % 2);
            const PlacedTensor out(layout, out_type, sizes, 2, index % 3);
            const DeviceTensor x_device(x);
            int op_index = 0;
            for (const Op& op : ops()) {
              const DeviceTensor out_device(out);
              op(rope,
                 {x_device.view(), out_device.view(),
                  scale == 1.0f ? nullptr : device_scale.data()},
                 at);
              ASSERT_TRUE(
                  matches(out_device, out, expected(rope, op, x, positions, out_type, scale)))
                  << name_of(layout) << ' ' << name_of(pairing) << "->" << name_of(output) << ' '
                  << pairs << " pairs, scale " << scale << ", op " << op_index;
              ++op_index;
            }
            ASSERT_TRUE(x_device.untouched());
          }
        }
      }
    }
  }
}

// Ties, subnormals, overflow, infinity and NaN: in a pair with frequency 0, and in pass-through
// elements.
TEST_P(CudaFloat8, RoundsToNearestEven) {
  const auto [in_type, out_type] = GetParam();
  std::vector<double> values;
  for (int bits = 0; bits < 255; ++bits) {  // each value, the midpoint to the next, and beside it
    const double x = reference::from_float8(out_type, static_cast<std::uint8_t>(bits));
    const double y = reference::from_float8(out_type, static_cast<std::uint8_t>(bits + 1));
    for (const double z : {x, 0.5 * (x + y), (0.5 + 0x1p-6) * x + (0.5 - 0x1p-6) * y}) {
      if (std::isfinite(z)) values.push_back(z);
    }
  }
  for (const double z : {449.0, 464.0, 480.0, 57345.0, 61440.0, 65504.0, 1e-9, -0.0,
                         std::numeric_limits<double>::infinity(), std::nan("")}) {
    values.push_back(z);
    values.push_back(-z);
  }
  const auto count = static_cast<std::int64_t>(values.size());
  for (const std::int64_t head_dim : {8, 9}) {
    const Sizes sizes{1, 1, (count + head_dim - 1) / head_dim, head_dim};
    PlacedTensor x(Layout::kContiguous, in_type, sizes, 1, 0);
    reference::Elements memory = x.snapshot();
    const auto places = x.indices();
    for (std::size_t i = 0; i < values.size(); ++i) memory.set(places[i], values[i]);
    x.restore(memory);
    const Rope still({.pairs = 2, .values = {0.0, 0.0}},
                     {.head_dim = head_dim, .pairing = Pairing::kHalf});
    const PlacedTensor out(Layout::kContiguous, out_type, sizes, 2, 0);
    const DeviceTensor x_device(x);
    const DeviceTensor out_device(out);
    still.rotate(Operand(x_device.view(), out_device.view()), Positions::range());
    EXPECT_TRUE(
        matches(out_device, out, expected(still, ops()[0], x, Positions::range(), out_type, 1.0f)));
  }
}

// With operands of other types, with a table, and with overlapping launches.
TEST_P(CudaFloat8, MixedOperandsAndTables) {
  const auto [in_type, out_type] = GetParam();
  const Rope rope = make_rope(64, Pairing::kHalf, Pairing::kHalf, false);
  const Sizes sizes{kBatch, kTokens, kHeads, 128};
  const PlacedTensor x(Layout::kContiguous, in_type, sizes, 1, 0);
  const PlacedTensor k(Layout::kPackedQkv, DType::kBFloat16, sizes, 2, 0);
  const PlacedTensor out(Layout::kHeadsFirst, out_type, sizes, 3, 0);
  const DeviceTensor x_device(x);
  const DeviceTensor k_device(k);
  const DeviceTensor out_device(out);
  const DeviceList<float> scale({3.0f});
  rope.rotate({k_device.view(), {x_device.view(), out_device.view(), scale.data()}},
              Positions::range(9), {.handle = nullptr, .overlap = true});
  const auto wanted = expected(rope, ops()[0], x, Positions::range(9), out_type, 3.0f);
  EXPECT_TRUE(matches(out_device, out, wanted));
  rope.rotate(k.view(), Positions::range(9));
  EXPECT_TRUE(k_device.downloaded() == k.memory());

  const DeviceMemory table(2 * kTokens * 64 * sizeof(float));
  const auto half = [&](std::size_t index) {
    return TensorView::contiguous(table.data(index * kTokens * 64 * sizeof(float)), DType::kFloat32,
                                  {kTokens, 64}, kGpu);
  };
  rope.cos_sin(half(0), half(1), Positions::range(9));
  out_device.reset();
  TableRope({half(0), half(1)}, rope.layout(), TableWidth::kPairs)
      .rotate(Operand(x_device.view(), out_device.view(), scale.data()));
  EXPECT_TRUE(matches(out_device, out, wanted));
}

INSTANTIATE_TEST_SUITE_P(All, CudaFloat8,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16,
                                                          DType::kFloat16),
                                          testing::Values(DType::kFloat8E4M3, DType::kFloat8E5M2)),
                         [](const testing::TestParamInfo<Param>& param) {
                           return std::string(name_of(std::get<0>(param.param))) + "_" +
                                  std::string(name_of(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace rotary
