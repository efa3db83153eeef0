// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One call on the GPU and on the CPU: all memory of its tensors must become the same.
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
/// Makes the call on views of the tensors, wherever they are.
using Call = std::function<void(const Views&, const Positions&)>;

inline Views views_of(const Tensors& tensors) {
  Views views;
  for (const auto& tensor : tensors) views.push_back(tensor->view());
  return views;
}

/// Whether two memories hold numbers that differ by no more than `units` of the type; 0: its bits.
inline testing::AssertionResult equal(const reference::Elements& got,
                                      const reference::Elements& wanted, double units) {
  if (got == wanted) return testing::AssertionSuccess();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got.bits(i) == wanted.bits(i)) continue;
    const double allowed =
        units * epsilon_of(got.dtype()) * std::fmax(1.0, std::fabs(wanted.get(i)));
    if (units > 0.0 && std::fabs(got.get(i) - wanted.get(i)) <= allowed) continue;
    return testing::AssertionFailure() << name_of(got.dtype()) << " element " << i << " is "
                                       << got.get(i) << " on the GPU, " << wanted.get(i);
  }
  return testing::AssertionSuccess();
}

/// The tensors hold what the CPU makes of them afterwards. Positions are copied to the device.
inline testing::AssertionResult same_on_both(const Tensors& tensors, const Positions& positions,
                                             const Call& call, double units = 0.0) {
  std::vector<std::unique_ptr<DeviceTensor>> mirrors;
  Views views;
  for (const auto& tensor : tensors) {
    mirrors.push_back(std::make_unique<DeviceTensor>(*tensor));
    views.push_back(mirrors.back()->view());
  }
  call(views, DevicePositions(positions));
  call(views_of(tensors), positions);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto result = equal(mirrors[i]->downloaded(), tensors[i]->memory(), units);
    if (!result) return testing::AssertionFailure() << "tensor " << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

}  // namespace rotary
