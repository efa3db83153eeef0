// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls on CUDA tensors that must be rejected before anything is written; and errors of the device.

#include "rope/rejects.h"

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

/// Device tensors that must stay untouched.
class CudaRejects : public testing::Test {
 protected:
  void SetUp() override { before_ = fixture_.memory(); }
  void TearDown() override {
    EXPECT_TRUE(fixture_.memory() == before_);
    EXPECT_EQ(host_.bits(), PlacedTensor(Layout::kContiguous, DType::kBFloat16, kSizes, 1).bits());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  static constexpr Sizes kSizes{CallFixture::kBatch, CallFixture::kTokens, 6, 64};

  /// Every rotating call rejects the arguments: they share their checks.
  void expect_all_reject(const Operands& x, const Positions& at, const std::string& rule) const {
    const Rope& rope = fixture_.rope;
    expect_rejected([&] { rope.rotate(x, at); }, "rotate", rule);
    expect_rejected([&] { rope.unrotate(x, at); }, "unrotate", rule);
    expect_rejected([&] { rope.adjoint(x, at); }, "adjoint", rule);
    expect_rejected([&] { rope.shift(x, at); }, "shift", rule);
    expect_rejected([&] { rerotate(x, rope, rope, at); }, "rerotate", rule);
  }

  CallFixture fixture_;
  PlacedTensor host_{Layout::kContiguous, DType::kBFloat16, kSizes, 1};

 private:
  std::vector<reference::Elements> before_;
};

TEST_F(CudaRejects, PositionsOnAnotherDevice) {
  const std::vector<std::int64_t> rows = {1, 2, 3};
  const std::vector<std::int64_t> ids = {1, 2, 3, 4};
  const std::vector<float> real = {1, 2, 3, 4};
  const std::vector<std::int64_t> boundaries = {0, 1, 2, 4};
  for (const Positions& at :
       {Positions::range(rows), Positions::at(rows), Positions::ids(ids), Positions::ids(real),
        Positions::packed(boundaries), Positions::packed(boundaries, rows)}) {
    expect_all_reject(fixture_.view(0), at, "same device");
    const TableRope table({fixture_.rows(5), fixture_.rows(6)}, fixture_.rope.layout(),
                          TableWidth::kPairs);
    expect_rejected([&] { table.rotate(fixture_.view(0), at); }, "rotate", "");
    expect_rejected([&] { fixture_.rope.cos_sin(fixture_.rows(5), fixture_.rows(6), at); },
                    "cos_sin", "device");
    expect_rejected(
        [&] {
          fixture_.rope.gradient({{fixture_.view(0), fixture_.view(2)}}, at, fixture_.gradients());
        },
        "gradient", "device");
  }
  // Host tensors with device positions.
  expect_all_reject(host_.view(), fixture_.at_ids(), "same device");
}

TEST_F(CudaRejects, TensorsOnSeveralDevices) {
  expect_all_reject({fixture_.view(0), host_.view()}, Positions::range(), "same device");
  expect_all_reject({host_.view(), fixture_.view(0)}, Positions::range(), "same device");
  expect_all_reject(Operand(fixture_.view(0), host_.view()), Positions::range(), "same device");
  expect_all_reject(Operand(host_.view(), fixture_.view(0)), Positions::range(), "same device");
  TensorView other = fixture_.view(1);
  other.device.index = 1;
  expect_all_reject({fixture_.view(0), other}, Positions::range(), "same device");
  expect_rejected(
      [&] { fixture_.rope.gradient({{fixture_.view(0), host_.view()}}, Positions::range()); },
      "gradient", "device");
  expect_rejected([&] { fixture_.rope.cos_sin(fixture_.rows(5), other, Positions::range()); },
                  "cos_sin", "");
  std::vector<float> row(CallFixture::kTokens * CallFixture::kPairs);
  const auto rows = TensorView::contiguous(row.data(), DType::kFloat32,
                                           {CallFixture::kTokens, CallFixture::kPairs});
  const TableRope table({rows, rows}, fixture_.rope.layout(), TableWidth::kPairs);
  expect_rejected([&] { table.rotate(fixture_.view(0)); }, "rotate", "same device");
  expect_rejected(
      [&] { TableRope({fixture_.rows(5), rows}, fixture_.rope.layout(), TableWidth::kPairs); },
      "TableRope", "");
}

TEST_F(CudaRejects, WrongWorkspace) {
  const auto gradient = [&](const ParameterGradients& parameters) {
    return [&, parameters] {
      fixture_.rope.gradient({{fixture_.view(0), fixture_.view(2), fixture_.view(2)}},
                             fixture_.at_ids(), parameters);
    };
  };
  ASSERT_GT(fixture_.workspace.size(), 0u);
  ParameterGradients wrong = fixture_.gradients();
  wrong.workspace = {};
  expect_rejected(gradient(wrong), "gradient", "workspace", "got 0");
  wrong.workspace = {fixture_.workspace.data(), fixture_.workspace.size() - 1};
  expect_rejected(gradient(wrong), "gradient", "workspace");
  wrong.workspace = {fixture_.workspace.data(16), fixture_.workspace.size()};
  expect_rejected(gradient(wrong), "gradient", "workspace", "aligned to 256");
  wrong = fixture_.gradients();
  wrong.positions.device = {};
  expect_rejected(gradient(wrong), "gradient", "device");
  wrong = fixture_.gradients();
  wrong.scale = wrong.frequencies.data();
  expect_rejected(gradient(wrong), "gradient", "share memory");
}

TEST_F(CudaRejects, UnsupportedFloat8) {
  TensorView q8 = fixture_.view(4);
  expect_all_reject(q8, Positions::range(), "float8");
  expect_all_reject(Operand(q8, fixture_.view(0)), Positions::range(), "float8");
  expect_all_reject(Operand(fixture_.view(0), fixture_.view(2), fixture_.scale.data()),
                    Positions::range(), "out_scale");
  PlacedTensor host8(Layout::kContiguous, DType::kFloat8E4M3, kSizes, 2);
  expect_all_reject(Operand(host_.view(), host8.view()), Positions::range(), "");
  TensorView wide = fixture_.view(8);  // any memory: it is not read
  wide.dtype = DType::kFloat64;
  wide.shape = q8.shape;
  wide.strides = q8.strides;
  expect_all_reject(Operand(wide, q8), Positions::range(), "float8");
}

// Ranges have no device memory, so they are checked against the table on the host.
TEST_F(CudaRejects, RangesBeyondATable) {
  const TableRope table({fixture_.rows(5), fixture_.rows(6)}, fixture_.rope.layout(),
                        TableWidth::kPairs);
  expect_rejected([&] { table.rotate(fixture_.view(0), Positions::range(1)); }, "rotate", "row");
  expect_rejected([&] { table.rotate(fixture_.view(0), Positions::at(-1)); }, "rotate", "row");
}

// The checks of shapes and memory are those of the CPU.
TEST_F(CudaRejects, WrongShapesAndSharedMemory) {
  expect_all_reject(fixture_.view(8), Positions::range(), "head_dim 64");
  TensorView wrong = fixture_.view(0);
  wrong.strides[1] = 0;
  expect_all_reject(wrong, Positions::range(), "share memory");
  expect_all_reject({fixture_.view(0), fixture_.view(0)}, Positions::range(), "share");
  const std::vector<Operand> many(kMaxOperands + 1, Operand(fixture_.view(0)));
  expect_all_reject(std::span<const Operand>(many), Positions::range(), "at most 16");
}

// A stream whose capture has failed accepts no kernels: CudaError.
TEST_F(CudaRejects, StreamWithFailedCapture) {
  for (const NamedCall& call : every_call()) {
    const DeviceStream stream;
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    EXPECT_NE(cudaStreamSynchronize(stream.get()),
              cudaSuccess);  // synchronising invalidates the capture
    try {
      call.run(fixture_, stream.handle());
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

TEST(CudaEngine, IsPresent) {
  EXPECT_TRUE(has_cuda());
  EXPECT_GE(cuda_device_count(), 1);
}

// Empty tensors are neither a launch nor an error, whatever the memory.
TEST(CudaEngine, EmptyTensors) {
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
