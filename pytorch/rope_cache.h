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

#include "pytorch/shared/rope_set.h"

namespace rotary::torch {

/// The ropes of a text, on a number of threads of PyTorch's pool.
class SharedRope : public RopeSet {
 public:
  SharedRope(std::string_view text, int threads);

  /// [pairs, axes], float64. Copied to a device once; later calls neither copy nor synchronise.
  at::Tensor frequencies_on(const at::Device& device) const;
  at::Tensor growth_on(const at::Device& device) const;

 private:
  using ByDevice = std::map<std::string, at::Tensor>;
  at::Tensor copy_on(const at::Device& device, const std::vector<double>& values,
                     ByDevice& copies) const;

  mutable std::mutex mutex_;
  mutable ByDevice frequencies_{};
  mutable ByDevice growth_{};
};

/// Parsed and built at the first call with a text. Throws c10::ValueError for a malformed one.
std::shared_ptr<const SharedRope> find_rope(std::string_view text);

}  // namespace rotary::torch
