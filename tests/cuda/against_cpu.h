// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Runs one call on the GPU and on the CPU, and compares all memory of its tensors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/device_memory.h"
#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"

namespace rotary {

using Tensors = std::vector<std::unique_ptr<PlacedTensor>>;
using Views = std::vector<TensorView>;
/// A call on views of the tensors, on either device.
using Call = std::function<void(const Views&, const Positions&)>;

inline Views views_of(const Tensors& tensors) {
  Views views;
  for (const auto& tensor : tensors) views.push_back(tensor->view());
  return views;
}

/// Whether elements differ by at most `ulps` epsilons of the type; 0: bit-identical.
inline testing::AssertionResult equal(const reference::Elements& got,
                                      const reference::Elements& wanted, double ulps) {
  if (got == wanted) return testing::AssertionSuccess();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got.bits(i) == wanted.bits(i)) continue;
    const double allowed =
        ulps * epsilon_of(got.dtype()) * std::fmax(1.0, std::fabs(wanted.get(i)));
    if (ulps > 0.0 && std::fabs(got.get(i) - wanted.get(i)) <= allowed) continue;
    return testing::AssertionFailure() << name_of(got.dtype()) << " element " << i << " is "
                                       << got.get(i) << " on the GPU, " << wanted.get(i);
  }
  return testing::AssertionSuccess();
}

/// Whether `call` has the same results on both. Afterwards the tensors hold those of the CPU.
inline testing::AssertionResult matches_cpu(const Tensors& tensors, const Positions& positions,
                                            const Call& call, double ulps = 0.0) {
  std::vector<std::unique_ptr<DeviceTensor>> copies;
  Views views;
  for (const auto& tensor : tensors) {
    copies.push_back(std::make_unique<DeviceTensor>(*tensor));
    views.push_back(copies.back()->view());
  }
  call(views, DevicePositions(positions));
  call(views_of(tensors), positions);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto result = equal(copies[i]->downloaded(), tensors[i]->memory(), ulps);
    if (!result) return testing::AssertionFailure() << "tensor " << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

}  // namespace rotary
