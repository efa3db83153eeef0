// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Dispatch to the engine of the tensors' device.
#pragma once

#include <string_view>

#include "engine/kernel.h"
#include "engine/norm_kernel.h"
#include "support/message.h"

namespace rotary::internal {

inline bool is_on_cuda(const RotateParams& params) noexcept {
  return params.operands.front().in.device.type == DeviceType::kCuda;
}

/// Throws if the engine does not support the parameters.
inline void check_engine(std::string_view function, const RotateParams& params) {
  if (is_on_cuda(params)) check_on_cuda(function, params);
}

/// `params` has been checked and is not empty.
inline void rotate(std::string_view function, const RotateParams& params, const Threads& threads,
                   const Stream& stream) {
  check_engine(function, params);
  if (!is_on_cuda(params)) return rotate_on_cpu(params, threads);
  rotate_on_cuda(function, params, stream);
}

inline void norm_rotate(std::string_view function, const NormParams& params, const Threads& threads,
                        const Stream& stream) {
  if (!is_on_cuda(params.rotation)) return norm_rotate_on_cpu(params, threads);
  check_on_cuda(function, params.rotation);
  check_fused_on_cuda(function, params.rotation);
  norm_rotate_on_cuda(function, params, stream);
}

inline void gradient(std::string_view function, const GradientParams& params,
                     const Threads& threads, const Stream& stream) {
  if (!is_on_cuda(params.forward)) return gradient_on_cpu(params, threads);
  gradient_on_cuda(function, params, stream);
}

}  // namespace rotary::internal
