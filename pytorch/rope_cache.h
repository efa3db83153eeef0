// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Cache of ropes by their text, one per process.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "rotary/rope.h"
#include "rotary/torch_rope.h"

namespace rotary::torch {

/// A rope for the operators, on a number of threads of PyTorch's pool.
class SharedRope {
 public:
  SharedRope(std::string_view text, int threads);

  const std::string& text() const noexcept { return text_; }
  int threads() const noexcept { return threads_; }
  OneAxisPositions one_axis() const noexcept { return one_axis_; }

  const Rope& rope() const noexcept { return rope_; }
  /// Multiplies by z / |z|^2: the transpose of unrotate.
  const Rope& reciprocal() const noexcept { return reciprocal_; }
  /// All frequencies 0, with the same pairs and axes: for gradients of frequencies on a device.
  const Rope& zero_frequency() const noexcept { return zero_frequency_; }
  /// Growth from position 0, no scale, one pairing throughout: for gradients of positions.
  const Rope& at_origin(Pairing pairing) const noexcept {
    return pairing == Pairing::kHalf ? half_at_origin_ : interleaved_at_origin_;
  }

  const Frequencies& frequencies() const noexcept { return rope_.frequencies(); }
  const HeadLayout& layout() const noexcept { return rope_.layout(); }
  bool grows() const noexcept { return !frequencies().growth.empty(); }

  /// [pairs, axes], float64. Copied to a device once; later calls neither copy nor synchronise.
  at::Tensor frequencies_on(const at::Device& device) const;
  at::Tensor growth_on(const at::Device& device) const;

 private:
  using ByDevice = std::map<std::string, at::Tensor>;
  at::Tensor copy_on(const at::Device& device, const std::vector<double>& values,
                     ByDevice& copies) const;

  std::string text_;
  int threads_ = 1;
  OneAxisPositions one_axis_ = OneAxisPositions::kRefused;
  Rope rope_;
  Rope reciprocal_;
  Rope zero_frequency_;
  Rope half_at_origin_;
  Rope interleaved_at_origin_;
  mutable std::mutex mutex_;
  mutable ByDevice frequencies_{};
  mutable ByDevice growth_{};
};

/// Parsed and built at the first call with a text. Throws c10::ValueError for a malformed one.
std::shared_ptr<const SharedRope> find_rope(std::string_view text);

}  // namespace rotary::torch
