// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The one place that chooses the engine: that of the device where the tensors are.
#pragma once

#include <string_view>

#include "rope/kernel.h"

namespace rotary::internal {

inline bool is_on_cuda(const Job& job) noexcept {
  return job.operands.front().in.device.type == DeviceType::kCuda;
}

/// Throws if the engine has no way to do it.
inline void check_engine(std::string_view function, const Job& job) {
  if (is_on_cuda(job)) check_on_cuda(function, job);
}

/// `job` has been checked and is not empty.
inline void rotate(std::string_view function, const Job& job, const Threads& threads,
                   const Stream& stream) {
  check_engine(function, job);
  if (!is_on_cuda(job)) return rotate_on_cpu(job, threads);
  rotate_on_cuda(function, job, stream);
}

inline void gradient(std::string_view function, const GradientJob& job, const Threads& threads,
                     const Stream& stream) {
  if (!is_on_cuda(job.forward)) return gradient_on_cpu(job, threads);
  gradient_on_cuda(function, job, stream);
}

}  // namespace rotary::internal
