// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ropes of this process, by their text.
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

/// A rope as operators use it, on as many threads of PyTorch's pool as it was looked up for.
class SharedRope {
 public:
  SharedRope(std::string_view text, int threads);

  const std::string& text() const noexcept { return text_; }
  int threads() const noexcept { return threads_; }
  OneAxisPositions one_axis() const noexcept { return one_axis_; }

  const Rope& rope() const noexcept { return rope_; }
  /// z / |z|^2: its rotation is the transpose of unrotate.
  const Rope& reciprocal() const noexcept { return reciprocal_; }
  /// Turns nothing, but has as many pairs and axes: gradients of frequencies that are elsewhere.
  const Rope& still() const noexcept { return still_; }
  /// The rope from position 0 on, without scale, for heads in one pairing: gradients of positions.
  const Rope& from_origin(Pairing pairing) const noexcept {
    return pairing == Pairing::kHalf ? half_from_origin_ : interleaved_from_origin_;
  }

  const Frequencies& frequencies() const noexcept { return rope_.frequencies(); }
  const HeadLayout& layout() const noexcept { return rope_.layout(); }
  bool grows() const noexcept { return !frequencies().growth.empty(); }

  /// [pairs, axes], float64. Copied to a device once; later calls neither copy nor wait.
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
  Rope still_;
  Rope half_from_origin_;
  Rope interleaved_from_origin_;
  mutable std::mutex mutex_;
  mutable ByDevice frequencies_{};
  mutable ByDevice growth_{};
};

/// Parsed and made at the first call with a text. Throws c10::ValueError for a text that is not a
/// rope.
std::shared_ptr<const SharedRope> find_rope(std::string_view text);

}  // namespace rotary::torch
