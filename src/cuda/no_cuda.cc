// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Stub of the CUDA engine in a build without CUDA. Rope rejects CUDA tensors before it calls these.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/kernel.h"
#include "engine/norm_kernel.h"
#include "engine/store_kernel.h"
#include "rotary/cuda.h"
#include "support/message.h"

namespace rotary {

bool has_cuda() noexcept { return false; }

int cuda_device_count() noexcept { return 0; }

}  // namespace rotary

namespace rotary::internal {
namespace {

[[noreturn]] void reject_call(std::string_view function) {
  reject("[", function, "] this build rotates on the CPU only, got a CUDA tensor");
}

}  // namespace

void rotate_on_cuda(std::string_view function, const RotateParams& /*params*/,
                    const Stream& /*stream*/) {
  reject_call(function);
}

void gradient_on_cuda(std::string_view function, const GradientParams& /*params*/,
                      const Stream& /*stream*/) {
  reject_call(function);
}

void cos_sin_on_cuda(std::string_view function, const AngleSource& /*source*/,
                     const Positions& /*positions*/, const TensorView& /*cos*/,
                     const TensorView& /*sin*/, const Stream& /*stream*/) {
  reject_call(function);
}

std::size_t gradient_workspace_on_cuda(std::int64_t /*pairs*/, std::int64_t /*axes*/,
                                       std::int64_t /*batch*/, std::int64_t /*tokens*/) noexcept {
  return 0;
}

void check_on_cuda(std::string_view function, const RotateParams& /*params*/) {
  reject_call(function);
}

void norm_rotate_on_cuda(std::string_view function, const NormParams& /*params*/,
                         const Stream& /*stream*/) {
  reject_call(function);
}

void norm_gradient_on_cuda(std::string_view function, const NormParams& /*params*/,
                           std::span<const NormGradientTensors> /*tensors*/,
                           std::span<std::byte> /*workspace*/, const Stream& /*stream*/) {
  reject_call(function);
}

std::size_t norm_gradient_workspace_on_cuda(std::int64_t /*batch*/, std::int64_t /*tokens*/,
                                            std::int64_t /*weights*/) noexcept {
  return 0;
}

void append_on_cuda(std::string_view function, const AppendParams& /*params*/,
                    const Stream& /*stream*/) {
  reject_call(function);
}

void check_fused_on_cuda(std::string_view function, const RotateParams& /*params*/) {
  reject_call(function);
}

}  // namespace rotary::internal
