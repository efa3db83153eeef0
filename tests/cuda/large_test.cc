// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Limits: heads of thousands of pairs, more batch rows and tokens than fit one grid, tensors of
// more than 2^31 elements, strides beyond 2^31 bytes.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/against_cpu.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};

Frequencies frequencies(std::int64_t pairs, std::int64_t axes = 1) {
  Frequencies f{.pairs = pairs, .axes = axes, .scale = 1.25};
  for (std::int64_t i = 0; i < pairs * axes; ++i) {
    f.values.push_back(1.0 / (1.0 + 0.37 * static_cast<double>(i)));
  }
  return f;
}

Rope large_rope(std::int64_t pairs, std::int64_t axes, Pairing pairing, Pairing output) {
  return Rope(frequencies(pairs, axes), {.head_dim = 2 * pairs + pairs % 8,
                                         .rotary_offset = pairs % 8 / 2,
                                         .pairing = pairing,
                                         .output_pairing = output});
}

/// Rotate and unrotate: one tensor in place, another out of place.
testing::AssertionResult round_trip_matches_cpu(const Rope& rope, DType dtype) {
  const Sizes sizes{2, 3, 2, rope.layout().head_dim};
  Tensors tensors;
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, sizes, 1, 0));
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kHeadsFirst, dtype, sizes, 2, 1));
  tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, sizes, 3, 1));
  return matches_cpu(tensors, Positions::range(131069).on_all_axes(),
                     [&](const Views& x, const Positions& at) {
                       rope.rotate({x[0], {x[1], x[2]}}, at);
                       rope.unrotate({x[0], {x[2], x[1]}}, at);
                     });
}

class CudaLargeHeads : public testing::TestWithParam<DType> {};

TEST_P(CudaLargeHeads, ManyPairs) {
  for (const std::int64_t pairs : {128, 129, 256, 300, 511, 512, 513, 1024, 3072, 4096}) {
    for (const std::int64_t axes : {1, 2}) {
      for (const Pairing pairing : kPairings) {
        for (const Pairing output : kPairings) {
          ASSERT_TRUE(round_trip_matches_cpu(large_rope(pairs, axes, pairing, output), GetParam()))
              << pairs << " pairs " << axes << " axes " << name_of(pairing) << "->"
              << name_of(output);
        }
      }
    }
  }
}

// A change of pairing in place permutes a head through shared memory in chunks (12288 pairs of
// 16-bit elements, 3072 of 64-bit): one chunk, one pair more, complete and incomplete runs.
TEST_P(CudaLargeHeads, ChangesPairingInPlace) {
  const std::int64_t chunk = 12288 * 2 / static_cast<std::int64_t>(size_of(GetParam()));
  for (const std::int64_t pairs :
       {chunk, chunk + 1, 2 * chunk, 2 * chunk + 5, 3 * chunk, 5 * chunk - 3, 7 * chunk + 1,
        std::int64_t{4096}, std::int64_t{10000}, std::int64_t{32768}}) {
    for (const Pairing pairing : kPairings) {
      const Pairing other = pairing == Pairing::kHalf ? Pairing::kInterleaved : Pairing::kHalf;
      for (const std::int64_t rest : {0, 7}) {
        const Rope rope(frequencies(pairs), {.head_dim = 2 * pairs + rest,
                                             .rotary_offset = rest / 2,
                                             .pairing = pairing,
                                             .output_pairing = other});
        Tensors tensors;
        tensors.push_back(std::make_unique<PlacedTensor>(
            rest == 0 ? Layout::kContiguous : Layout::kInnerStride2, GetParam(),
            Sizes{1, 2, 1, rope.layout().head_dim}, 1, 0));
        EXPECT_TRUE(
            matches_cpu(tensors, Positions::range(131069),
                        [&](const Views& x, const Positions& at) { rope.rotate(x[0], at); }))
            << pairs << " pairs from " << name_of(pairing) << ", " << rest << " beside them";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaLargeHeads, testing::ValuesIn(kTypes),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

TEST(CudaLarge, TablesOfManyPairs) {
  for (const std::int64_t pairs : {300, 513, 2048}) {
    for (const Pairing output : kPairings) {
      const Rope rope(frequencies(pairs),
                      {.head_dim = 2 * pairs, .pairing = Pairing::kHalf, .output_pairing = output});
      const Sizes sizes{1, 5, 2, 2 * pairs};
      const PlacedTensor x(Layout::kContiguous, DType::kFloat32, sizes, 1, 0);
      const DeviceTensor device(x);
      const auto bytes = static_cast<std::size_t>(5 * pairs) * sizeof(float);
      const DeviceMemory table(2 * bytes);
      const auto half = [&](std::size_t at) {
        return TensorView::contiguous(table.data(at), DType::kFloat32, {5, pairs}, kGpu);
      };
      rope.cos_sin(half(0), half(bytes), Positions::range(77));
      TableRope({half(0), half(bytes)}, rope.layout(), TableWidth::kPairs).rotate(device.view());
      rope.rotate(x.view(), Positions::range(77));
      EXPECT_TRUE(device.downloaded() == x.memory()) << pairs;
    }
  }
}

TEST(CudaLarge, ManyBatchRows) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const std::int64_t head_dim : {16, 15}) {  // vectorised or not
      const Rope rope(frequencies(7), {.head_dim = head_dim, .pairing = Pairing::kHalf});
      for (const Sizes& sizes : {Sizes{65535, 1, 2, head_dim}, Sizes{65536, 2, 1, head_dim},
                                 Sizes{140000, 1, 1, head_dim}}) {
        std::vector<std::int64_t> first;
        for (std::int64_t b = 0; b < sizes.batch; ++b) first.push_back(3 * b - 5);
        Tensors tensors;
        tensors.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, sizes, 1, 0));
        EXPECT_TRUE(
            matches_cpu(tensors, Positions::range(first),
                        [&](const Views& x, const Positions& at) { rope.rotate(x[0], at); }))
            << sizes.batch << ' ' << name_of(dtype);
      }
    }
  }
}

/// A device tensor too large to compare as a whole: a few tokens are filled, rotated with all the
/// others, and compared with the CPU's rotation of these tokens.
class CudaHuge : public testing::Test {
 protected:
  /// bfloat16 [tokens, heads, head_dim] with these strides, in place, at range(start).
  static void expect_tokens(const Rope& rope, const Dims& shape, const Dims& strides,
                            std::int64_t elements, std::int64_t start) {
    const DeviceMemory memory(static_cast<std::size_t>(elements) * 2);
    memory.fill(0x3f);
    const TensorView x{memory.data(), DType::kBFloat16, 3, shape, strides, kGpu};
    const std::int64_t middle = (std::int64_t{1} << 31) / strides[0];
    std::vector<std::int64_t> tokens;
    for (const std::int64_t t : {std::int64_t{0}, std::int64_t{1}, shape[0] / 2, middle / 2,
                                 middle - 1, middle, middle + 1, shape[0] - 2, shape[0] - 1}) {
      if (t >= 0 && t < shape[0]) tokens.push_back(t);
    }
    for (const std::int64_t t : tokens) copy(x, t, host(shape, t), cudaMemcpyHostToDevice);
    rope.rotate(x, Positions::range(start));
    for (const std::int64_t t : tokens) {
      const auto wanted = host(shape, t);
      rope.rotate(wanted->view(), Positions::range(start + t));
      const auto got = host(shape, 0);
      copy(x, t, got, cudaMemcpyDeviceToHost);
      EXPECT_EQ(got->bits(), wanted->bits()) << "token " << t;
    }
  }

 private:
  static std::unique_ptr<PlacedTensor> host(const Dims& shape, std::int64_t seed) {
    return std::make_unique<PlacedTensor>(Layout::kContiguous, DType::kBFloat16,
                                          Sizes{1, 1, shape[1], shape[2]},
                                          static_cast<unsigned>(seed), 0);
  }
  /// Copies token t, whose heads may be far apart, to or from a host tensor.
  static void copy(const TensorView& x, std::int64_t t, const std::unique_ptr<PlacedTensor>& with,
                   cudaMemcpyKind kind) {
    for (std::int64_t h = 0; h < x.shape[1]; ++h) {
      std::byte* there =
          static_cast<std::byte*>(x.data) + 2 * (t * x.strides[0] + h * x.strides[1]);
      std::byte* here = static_cast<std::byte*>(with->view().data) + 2 * h * x.shape[2];
      const bool up = kind == cudaMemcpyHostToDevice;
      check_cuda(cudaMemcpy(up ? there : here, up ? here : there,
                            static_cast<std::size_t>(2 * x.shape[2]), kind));
    }
  }
};

TEST_F(CudaHuge, MoreThanTwoToThe31Elements) {
  const std::int64_t tokens = (std::int64_t{1} << 31) / (8 * 128) + 5;
  for (const Pairing pairing : kPairings) {
    const Rope rope(frequencies(64), {.head_dim = 128, .pairing = pairing});
    expect_tokens(rope, {tokens, 8, 128}, {1024, 128, 1}, tokens * 1024, 1000);
  }
}

TEST_F(CudaHuge, HeadsFarApart) {  // [heads, tokens, head_dim]: two heads 2^31 bytes apart
  const std::int64_t tokens = (std::int64_t{1} << 30) / 128 + 3;
  const Rope rope(frequencies(64), {.head_dim = 128, .pairing = Pairing::kHalf});
  expect_tokens(rope, {tokens, 3, 128}, {128, tokens * 128, 1}, 3 * tokens * 128, -7);
}

TEST_F(CudaHuge, Unaligned) {  // heads of 33 elements: the element-by-element kernel
  const std::int64_t tokens = (std::int64_t{1} << 31) / (4 * 33) + 5;
  const Rope rope(frequencies(16), {.head_dim = 33, .pairing = Pairing::kInterleaved});
  expect_tokens(rope, {tokens, 4, 33}, {132, 33, 1}, tokens * 132, 0);
}

TEST_F(CudaHuge, MoreTokensThanOneLaunchTakes) {
  const std::int64_t tokens = (std::int64_t{1} << 30) + 7;
  const Rope rope(frequencies(1), {.head_dim = 2, .pairing = Pairing::kHalf});
  expect_tokens(rope, {tokens, 1, 2}, {2, 2, 1}, 2 * tokens, 3);
}

}  // namespace
}  // namespace rotary
