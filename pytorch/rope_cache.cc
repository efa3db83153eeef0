// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/rope_cache.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <functional>
#include <stdexcept>

namespace rotary::torch {
namespace {

/// Runs on PyTorch's threads: a second pool would compete with them.
Threads torch_threads(int count) {
  return {.count = count, .run = [](int tasks, const std::function<void(int)>& task) {
            at::parallel_for(0, tasks, 1, [&task](std::int64_t begin, std::int64_t end) {
              for (std::int64_t i = begin; i < end; ++i) task(static_cast<int>(i));
            });
          }};
}

}  // namespace

SharedRope::SharedRope(std::string_view text, int threads)
    : RopeSet(text, torch_threads(threads)) {}

at::Tensor SharedRope::copy_on(const at::Device& device, const std::vector<double>& values,
                               ByDevice& copies) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  at::Tensor& copy = copies[device.str()];
  if (!copy.defined()) {
    const Frequencies& f = frequencies();
    const at::Tensor host = at::from_blob(const_cast<double*>(values.data()), {f.pairs, f.axes},
                                          at::TensorOptions(at::kDouble));
    copy = host.to(device, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  }
  return copy;
}

at::Tensor SharedRope::frequencies_on(const at::Device& device) const {
  return copy_on(device, frequencies().values, frequencies_);
}

at::Tensor SharedRope::growth_on(const at::Device& device) const {
  return copy_on(device, frequencies().growth, growth_);
}

std::shared_ptr<const SharedRope> find_rope(std::string_view text) {
  try {
    return RopeCache<SharedRope>::find(text, at::get_num_threads());
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, error.what());
  }
}

}  // namespace rotary::torch
