// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::gradient on the GPU: as close to the formula as the CPU, tensor gradients bit-identical to
// the CPU, and deterministic.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device_memory.h"
#include "rope/gradient_case.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

using namespace gradient_case;  // NOLINT: shared by two tests

/// The tensors of a call on the device.
class DeviceOperands {
 public:
  explicit DeviceOperands(const Tensors& host) {
    for (std::size_t i = 0; i < host.in.size(); ++i) {
      in.push_back(std::make_unique<DeviceTensor>(*host.in[i]));
      grad.push_back(std::make_unique<DeviceTensor>(*host.grad[i]));
      out.push_back(std::make_unique<DeviceTensor>(*host.out[i]));
    }
  }
  std::vector<GradientOperand> list(bool with_out) const {
    std::vector<GradientOperand> list;
    for (std::size_t i = 0; i < in.size(); ++i) {
      list.push_back({in[i]->view(), grad[i]->view(), with_out ? out[i]->view() : TensorView{}});
    }
    return list;
  }
  std::vector<std::unique_ptr<DeviceTensor>> in;
  std::vector<std::unique_ptr<DeviceTensor>> grad;
  std::vector<std::unique_ptr<DeviceTensor>> out;
};

/// Requested gradients.
struct Requested {
  bool frequencies = true;
  bool positions = true;
  bool scale = true;
  bool tensors = true;
};

/// Parameter gradients on the device, initialised to -1. Those of the positions have stride -2.
class DeviceGradients {
 public:
  DeviceGradients(const Rope& rope, const Setting& s)
      : setting_(s),
        frequencies_(std::vector<double>(s.f.values.size(), -1.0)),
        positions_(std::vector<double>(2 * s.positions.size(), -1.0)),
        scale_({-1.0}),
        workspace_(rope.gradient_workspace(kBatch, kTokens)) {
    workspace_.fill(0xff);  // NaN: shows reads of uninitialised workspace
  }

  ParameterGradients parameters(const Requested& requested) const {
    ParameterGradients p;
    if (requested.frequencies) p.frequencies = frequencies_.span();
    if (requested.positions) p.positions = view();
    if (requested.scale) p.scale = scale_.data();
    p.workspace = {workspace_.data(), workspace_.size()};
    return p;
  }
  Result result() const {
    Result result{frequencies_.values(), {}, scale_.values()[0]};
    const auto memory = positions_.values();
    for (std::size_t i = 0; i < setting_.positions.size(); ++i) {
      result.positions.push_back(memory[memory.size() - 1 - 2 * i]);
      EXPECT_EQ(memory[memory.size() - 2 - 2 * i], -1.0) << "between the elements";
    }
    return result;
  }

 private:
  TensorView view() const {
    const std::int64_t rows = setting_.rows();
    double* last = positions_.data() + 2 * setting_.positions.size() - 1;
    if (setting_.per_batch) {
      return {last,
              DType::kFloat64,
              3,
              {setting_.axes(), kBatch, kTokens},
              {-2 * rows * kTokens, -2 * kTokens, -2},
              kGpu};
    }
    return {last, DType::kFloat64, 2, {setting_.axes(), kTokens}, {-2 * kTokens, -2}, kGpu};
  }

  const Setting& setting_;
  DeviceList<double> frequencies_;
  DeviceList<double> positions_;
  DeviceList<double> scale_;
  DeviceMemory workspace_;
};

Result run(const Rope& rope, const Setting& s, const DeviceOperands& operands,
           const Requested& requested = {}) {
  const DeviceGradients gradients(rope, s);
  rope.gradient(operands.list(requested.tensors), DevicePositions(s.view()),
                gradients.parameters(requested));
  return gradients.result();
}

bool same(const Result& a, const Result& b) {
  return a.frequencies == b.frequencies && a.positions == b.positions && a.scale == b.scale;
}

TEST(CudaGradient, MatchesTheFormula) {
  for (const Setting& s : settings()) {
    const Rope rope(s.f, s.layout());
    for (const std::vector<DType>& types : operand_types()) {
      const Tensors tensors(types);
      const DeviceOperands operands(tensors);
      const Result got = run(rope, s, operands);
      expect_near(s, types, got, expected_of(s, tensors));
      EXPECT_TRUE(same(run(rope, s, operands), got)) << s.name << ": bits of another run";
      // Tensor gradients have the CPU's bits; inputs are unchanged.
      rope.gradient(tensors.operands(), s.view());
      for (std::size_t i = 0; i < tensors.in.size(); ++i) {
        EXPECT_TRUE(operands.in[i]->untouched() && operands.grad[i]->untouched()) << s.name;
        if (!s.f.growth.empty()) continue;
        EXPECT_TRUE(operands.out[i]->downloaded() == tensors.out[i]->memory()) << s.name;
      }
    }
  }
}

// A gradient has the same bits whatever else is requested, and nothing else is written.
TEST(CudaGradient, ComputesOnlyRequestedGradients) {
  for (const Setting& s : settings()) {
    const Rope rope(s.f, s.layout());
    const Tensors tensors({DType::kBFloat16, DType::kFloat32});
    const DeviceOperands operands(tensors);
    const Result all = run(rope, s, operands);
    for (unsigned set = 0; set < 16; ++set) {
      const Requested requested{(set & 1) != 0, (set & 2) != 0, (set & 4) != 0, (set & 8) != 0};
      for (const auto& out : operands.out) out->reset();
      const Result got = run(rope, s, operands, requested);
      const auto kept = [](const std::vector<double>& x) {
        return x == std::vector<double>(x.size(), -1.0);
      };
      EXPECT_TRUE(requested.frequencies ? got.frequencies == all.frequencies
                                        : kept(got.frequencies));
      EXPECT_TRUE(requested.positions ? got.positions == all.positions : kept(got.positions));
      EXPECT_TRUE(requested.scale ? got.scale == all.scale : got.scale == -1.0);
      for (const auto& out : operands.out) EXPECT_NE(out->untouched(), requested.tensors);
    }
    // Without parameters no workspace is needed.
    for (const auto& out : operands.out) out->reset();
    rope.gradient(operands.list(true), DevicePositions(s.view()));
    for (const auto& out : operands.out) EXPECT_FALSE(out->untouched());
  }
}

}  // namespace
}  // namespace rotary
