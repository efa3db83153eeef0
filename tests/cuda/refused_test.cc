// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls on CUDA tensors that must be refused, before anything is written; and errors of the device.

#include "rope/refused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/every_call.h"
#include "rotary/cuda.h"
#include "rotary/error.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

/// Tensors on the device that must come back untouched.
class CudaRefused : public testing::Test {
 protected:
  void SetUp() override { before_ = desk_.memory(); }
  void TearDown() override {
    EXPECT_TRUE(desk_.memory() == before_);
    EXPECT_EQ(host_.bits(), PlacedTensor(Layout::kContiguous, DType::kBFloat16, kSizes, 1).bits());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  static constexpr Sizes kSizes{Desk::kBatch, Desk::kTokens, 6, 64};

  /// By each of the maps, which share their checks.
  void refused(const Operands& x, const Positions& at, const std::string& rule) const {
    const Rope& rope = desk_.rope;
    expect_refused([&] { rope.rotate(x, at); }, "rotate", rule);
    expect_refused([&] { rope.unrotate(x, at); }, "unrotate", rule);
    expect_refused([&] { rope.adjoint(x, at); }, "adjoint", rule);
    expect_refused([&] { rope.shift(x, at); }, "shift", rule);
    expect_refused([&] { rerotate(x, rope, rope, at); }, "rerotate", rule);
  }

  Desk desk_;
  PlacedTensor host_{Layout::kContiguous, DType::kBFloat16, kSizes, 1};

 private:
  std::vector<reference::Elements> before_;
};

TEST_F(CudaRefused, PositionsOnAnotherDevice) {
  const std::vector<std::int64_t> rows = {1, 2, 3};
  const std::vector<std::int64_t> ids = {1, 2, 3, 4};
  const std::vector<float> real = {1, 2, 3, 4};
  const std::vector<std::int64_t> boundaries = {0, 1, 2, 4};
  for (const Positions& at :
       {Positions::range(rows), Positions::at(rows), Positions::ids(ids), Positions::ids(real),
        Positions::packed(boundaries), Positions::packed(boundaries, rows)}) {
    refused(desk_.view(0), at, "same device");
    const TableRope table({desk_.rows(5), desk_.rows(6)}, desk_.rope.layout(), TableWidth::kPairs);
    expect_refused([&] { table.rotate(desk_.view(0), at); }, "rotate", "");
    expect_refused([&] { desk_.rope.cos_sin(desk_.rows(5), desk_.rows(6), at); }, "cos_sin",
                   "device");
    expect_refused(
        [&] { desk_.rope.gradient({{desk_.view(0), desk_.view(2)}}, at, desk_.gradients()); },
        "gradient", "device");
  }
  // And the other way round.
  refused(host_.view(), desk_.at_ids(), "same device");
}

TEST_F(CudaRefused, TensorsOnSeveralDevices) {
  refused({desk_.view(0), host_.view()}, Positions::range(), "same device");
  refused({host_.view(), desk_.view(0)}, Positions::range(), "same device");
  refused(Operand(desk_.view(0), host_.view()), Positions::range(), "same device");
  refused(Operand(host_.view(), desk_.view(0)), Positions::range(), "same device");
  TensorView other = desk_.view(1);
  other.device.index = 1;
  refused({desk_.view(0), other}, Positions::range(), "same device");
  expect_refused([&] { desk_.rope.gradient({{desk_.view(0), host_.view()}}, Positions::range()); },
                 "gradient", "device");
  expect_refused([&] { desk_.rope.cos_sin(desk_.rows(5), other, Positions::range()); }, "cos_sin",
                 "");
  std::vector<float> row(Desk::kTokens * Desk::kPairs);
  const auto rows =
      TensorView::contiguous(row.data(), DType::kFloat32, {Desk::kTokens, Desk::kPairs});
  const TableRope table({rows, rows}, desk_.rope.layout(), TableWidth::kPairs);
  expect_refused([&] { table.rotate(desk_.view(0)); }, "rotate", "same device");
  expect_refused([&] { TableRope({desk_.rows(5), rows}, desk_.rope.layout(), TableWidth::kPairs); },
                 "TableRope", "");
}

TEST_F(CudaRefused, Workspace) {
  const auto gradient = [&](const ParameterGradients& parameters) {
    return [&, parameters] {
      desk_.rope.gradient({{desk_.view(0), desk_.view(2), desk_.view(2)}}, desk_.at_ids(),
                          parameters);
    };
  };
  ASSERT_GT(desk_.workspace.size(), 0u);
  ParameterGradients wrong = desk_.gradients();
  wrong.workspace = {};
  expect_refused(gradient(wrong), "gradient", "workspace", "got 0");
  wrong.workspace = {desk_.workspace.data(), desk_.workspace.size() - 1};
  expect_refused(gradient(wrong), "gradient", "workspace");
  wrong.workspace = {desk_.workspace.data(16), desk_.workspace.size()};
  expect_refused(gradient(wrong), "gradient", "workspace", "aligned to 256");
  wrong = desk_.gradients();
  wrong.positions.device = {};
  expect_refused(gradient(wrong), "gradient", "device");
  wrong = desk_.gradients();
  wrong.scale = wrong.frequencies.data();
  expect_refused(gradient(wrong), "gradient", "share memory");
}

TEST_F(CudaRefused, Float8) {
  TensorView q8 = desk_.view(4);
  refused(q8, Positions::range(), "float8");
  refused(Operand(q8, desk_.view(0)), Positions::range(), "float8");
  refused(Operand(desk_.view(0), desk_.view(2), desk_.scale.data()), Positions::range(),
          "out_scale");
  PlacedTensor host8(Layout::kContiguous, DType::kFloat8E4M3, kSizes, 2);
  refused(Operand(host_.view(), host8.view()), Positions::range(), "");
  TensorView wide = desk_.view(8);  // any memory will do: it is not looked at
  wide.dtype = DType::kFloat64;
  wide.shape = q8.shape;
  wide.strides = q8.strides;
  refused(Operand(wide, q8), Positions::range(), "float8");
}

// Of positions without memory it is known that there is no row for them.
TEST_F(CudaRefused, RangesBeyondATable) {
  const TableRope table({desk_.rows(5), desk_.rows(6)}, desk_.rope.layout(), TableWidth::kPairs);
  expect_refused([&] { table.rotate(desk_.view(0), Positions::range(1)); }, "rotate", "row");
  expect_refused([&] { table.rotate(desk_.view(0), Positions::at(-1)); }, "rotate", "row");
}

// Checks of shapes and memory are those of the CPU.
TEST_F(CudaRefused, ShapesAndMemory) {
  refused(desk_.view(8), Positions::range(), "head_dim 64");
  TensorView wrong = desk_.view(0);
  wrong.strides[1] = 0;
  refused(wrong, Positions::range(), "share memory");
  refused({desk_.view(0), desk_.view(0)}, Positions::range(), "share");
  const std::vector<Operand> many(kMaxOperands + 1, Operand(desk_.view(0)));
  refused(std::span<const Operand>(many), Positions::range(), "at most 16");
}

// A stream that takes no kernels: its capture has failed.
TEST_F(CudaRefused, AStreamThatTakesNothing) {
  for (const NamedCall& call : every_call()) {
    const DeviceStream stream;
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    EXPECT_NE(cudaStreamSynchronize(stream.get()), cudaSuccess);  // not while it is captured
    try {
      call.run(desk_, stream.handle());
      ADD_FAILURE() << call.name;
    } catch (const CudaError& error) {
      EXPECT_NE(error.code(), 0);
      EXPECT_THAT(error.what(), testing::StartsWith("[")) << call.name;
    }
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
    cudaGetLastError();
  }
}

TEST(CudaEngine, IsThere) {
  EXPECT_TRUE(has_cuda());
  EXPECT_GE(cuda_device_count(), 1);
}

// Nothing to do is no launch and no error, whatever the memory.
TEST(CudaEngine, NothingToDo) {
  const Rope rope(half_radians(), {.head_dim = 4, .pairing = Pairing::kHalf});
  for (const Dims& shape : {Dims{0, 3, 2, 4}, Dims{2, 0, 2, 4}, Dims{2, 3, 0, 4}}) {
    const TensorView none{nullptr, DType::kFloat32, 4, shape, {24, 8, 4, 1}, kGpu};
    EXPECT_NO_THROW(rope.rotate(none, Positions::range()));
    EXPECT_NO_THROW(rope.shift(none, Positions::range()));
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace rotary
