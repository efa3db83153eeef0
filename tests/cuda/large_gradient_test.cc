// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::gradient over many tokens, batch rows, heads and pairs, q and k together: close to the CPU,
// and deterministic.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/device_memory.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

struct Shape {
  Sizes sizes;  // of q; k has half the heads
  std::int64_t rotary_dim;
  Pairing pairing;
  Pairing output;
};

/// Gradients of frequencies, positions and scale, concatenated.
using Sums = std::vector<double>;

/// q and k, the gradients of their outputs, and the positions.
class Problem {
 public:
  Problem(const Shape& shape, DType dtype)
      : sizes_(shape.sizes),
        rope_(make_frequencies({.rotary_dim = shape.rotary_dim, .theta = 1e4}),
              {.head_dim = shape.sizes.head_dim,
               .pairing = shape.pairing,
               .output_pairing = shape.output}),
        q_(Layout::kContiguous, dtype, shape.sizes, 1, 0),
        k_(Layout::kPackedQkv, dtype, of_k(shape.sizes), 2, 0),
        q_grad_(Layout::kContiguous, dtype, shape.sizes, 3, 0),
        k_grad_(Layout::kHeadsFirst, dtype, of_k(shape.sizes), 4, 0),
        first_(static_cast<std::size_t>(shape.sizes.batch)) {
    std::iota(first_.begin(), first_.end(), std::int64_t{-3});
  }

  /// Tensor gradients overwrite the output gradients.
  Sums on_cpu() const {
    Sums sums(count(), -1.0);
    rope_.gradient({{q_.view(), q_grad_.view(), q_grad_.view()}, {k_.view(), k_grad_.view()}},
                   Positions::range(first_), parameters(sums.data(), {}));
    return sums;
  }
  Sums on_gpu() const {
    const DeviceTensor q(q_);
    const DeviceTensor k(k_);
    const DeviceTensor q_grad(q_grad_);
    const DeviceTensor k_grad(k_grad_);
    const DeviceList<double> sums(Sums(count(), -1.0));
    const DeviceMemory workspace(rope_.gradient_workspace(sizes_.batch, sizes_.tokens));
    workspace.fill(0xff);  // NaN: shows reads of uninitialised workspace
    ParameterGradients wanted = parameters(sums.data(), kGpu);
    wanted.workspace = {workspace.data(), workspace.size()};
    rope_.gradient({{q.view(), q_grad.view(), q_grad.view()}, {k.view(), k_grad.view()}},
                   DevicePositions(Positions::range(first_)), wanted);
    EXPECT_TRUE(q.untouched() && k.untouched() && k_grad.untouched());
    const PlacedTensor adjoint(Layout::kContiguous, q_.view().dtype, sizes_, 3, 0);
    rope_.adjoint(adjoint.view(), Positions::range(first_));
    EXPECT_TRUE(q_grad.downloaded() == adjoint.memory());
    return sums.values();
  }

  /// Errors relative to the sum of the terms' magnitudes: products of two values of 1/4 to 1 with a
  /// position, a frequency or 1.
  void expect_near(const Sums& got, const Sums& wanted) const {
    const double tolerance = 32.0 * (q_.view().dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23);
    const auto heads = static_cast<double>(q_.sizes().heads + k_.sizes().heads);
    const auto rows = static_cast<double>(sizes_.batch * sizes_.tokens);
    const auto max_position = static_cast<double>(sizes_.batch + sizes_.tokens);
    const auto pairs = static_cast<double>(rope_.frequencies().pairs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double size = heads * rows * pairs;  // of the scale
      if (i < frequencies()) {
        size = heads * rows * max_position;
      } else if (i + 1 < got.size()) {
        size = heads * pairs;
      }
      ASSERT_NEAR(got[i], wanted[i], tolerance * size) << i;
    }
  }

 private:
  static Sizes of_k(Sizes sizes) {
    sizes.heads = (sizes.heads + 1) / 2;
    return sizes;
  }
  std::size_t frequencies() const { return rope_.frequencies().values.size(); }
  std::size_t count() const {
    return frequencies() + static_cast<std::size_t>(sizes_.batch * sizes_.tokens) + 1;
  }
  ParameterGradients parameters(double* sums, Device device) const {
    return {{sums, frequencies()},
            TensorView::contiguous(sums + frequencies(), DType::kFloat64,
                                   {1, sizes_.batch, sizes_.tokens}, device),
            sums + count() - 1,
            {}};
  }

  Sizes sizes_;
  Rope rope_;
  PlacedTensor q_;
  PlacedTensor k_;
  PlacedTensor q_grad_;
  PlacedTensor k_grad_;
  std::vector<std::int64_t> first_;
};

constexpr auto kHalf = Pairing::kHalf;
constexpr auto kInterleaved = Pairing::kInterleaved;

class CudaLargeGradient : public testing::TestWithParam<DType> {
 protected:
  static void expect_sums(const Shape& shape) {
    SCOPED_TRACE(std::to_string(shape.sizes.batch) + " x " + std::to_string(shape.sizes.tokens) +
                 " x " + std::to_string(shape.sizes.heads) + " x " +
                 std::to_string(shape.sizes.head_dim));
    const Problem problem(shape, GetParam());
    const Sums got = problem.on_gpu();
    EXPECT_EQ(problem.on_gpu(), got);
    problem.expect_near(got, problem.on_cpu());
  }
};

TEST_P(CudaLargeGradient, CloseToCpuAndDeterministic) {
  for (const Shape& shape :
       {Shape{{2, 3001, 5, 64}, 64, kHalf, kHalf},
        Shape{{2, 1000, 8, 128}, 128, kInterleaved, kInterleaved},
        Shape{{1, 131, 40, 128}, 128, kHalf, kHalf},
        Shape{{1, 65, 64, 256}, 192, kHalf, kInterleaved},
        Shape{{1, 7, 3, 67}, 64, kInterleaved, kHalf}, Shape{{70000, 1, 1, 8}, 6, kHalf, kHalf},
        Shape{{1, 70000, 1, 4}, 4, kInterleaved, kInterleaved},
        Shape{{1, 3, 2, 2048}, 2048, kHalf, kHalf}}) {
    expect_sums(shape);
    if (HasFatalFailure()) return;
  }
}

// Small, for the sanitizers: a power of two of fragments per head, which has its own kernel, and
// other numbers.
TEST_P(CudaLargeGradient, Vectorized) {
  expect_sums({{2, 70, 3, 64}, 64, kHalf, kHalf});
  expect_sums({{2, 70, 3, 64}, 64, kInterleaved, kInterleaved});
  expect_sums({{2, 70, 3, 96}, 96, kHalf, kHalf});
  expect_sums({{2, 70, 3, 96}, 96, kInterleaved, kInterleaved});
}

INSTANTIATE_TEST_SUITE_P(All, CudaLargeGradient,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                         DType::kFloat16),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(name_of(param.param));
                         });

}  // namespace
}  // namespace rotary
