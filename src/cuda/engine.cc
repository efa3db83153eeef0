// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The CUDA engine behind engine/kernel.h: limits, and errors of the device as exceptions.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "cuda/angle_params.h"
#include "cuda/fused_params.h"
#include "cuda/gradient.h"
#include "cuda/launch_fused.h"
#include "cuda/launch_rotation.h"
#include "cuda/launch_split.h"
#include "cuda/norm_gradient.h"
#include "cuda/rotate.h"
#include "engine/kernel.h"
#include "engine/norm_kernel.h"
#include "engine/store_kernel.h"
#include "rotary/cuda.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary {

bool has_cuda() noexcept { return true; }

int cuda_device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // clears the error, so that no later call reports it
  return 0;
}

}  // namespace rotary

namespace rotary::internal {
namespace {

cudaStream_t stream_of(const Stream& stream) noexcept {
  return static_cast<cudaStream_t>(stream.handle);
}

void throw_on_error(std::string_view function, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears it, so that no later call reports it
  throw CudaError(function, error, cudaGetErrorString(error));
}

cudaError_t fill_cos_sin(const AngleSource& source, const Positions& positions,
                         const TensorView& cos, const TensorView& sin,
                         const cuda::TokenRange& range, const Stream& stream) noexcept {
  cuda::CosSinParams p{};
  cuda::fill_positions(positions, range, p.positions);
  cuda::fill_magnitude(source, Direction::kForward, p);
  p.tokens = range.tokens;
  p.batch = static_cast<std::int32_t>(range.batch);
  p.type = cos.dtype;
  p.overlaps = stream.overlap;
  const auto fill = [&](const TensorView& view, std::int64_t(&strides)[3]) {
    for (std::size_t i = 0; i < 3; ++i) strides[i] = view.strides[i];
    const std::int64_t at = range.first_batch * strides[0] + range.first_token * strides[1];
    return static_cast<char*>(view.data) + at * static_cast<std::int64_t>(size_of(view.dtype));
  };
  p.cos = fill(cos, p.cos_strides);
  p.sin = fill(sin, p.sin_strides);
  const std::int64_t all = source.phases->pairs;
  const std::int64_t step = cuda::max_pairs(source, positions);
  for (cuda::PairRange pairs{}; pairs.first < all; pairs.first += step) {
    pairs.count = step < all - pairs.first ? step : all - pairs.first;
    p.first_pair = static_cast<std::int32_t>(pairs.first);
    p.pair_count = static_cast<std::int32_t>(pairs.count);
    cuda::fill_words(source, positions, pairs, p);
    const cudaError_t error = cuda::cos_sin(p, stream_of(stream));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

void rotate_on_cuda(std::string_view function, const RotateParams& params, const Stream& stream) {
  throw_on_error(function, cuda::launch_rotation(params, stream.overlap, stream_of(stream)));
}

void gradient_on_cuda(std::string_view function, const GradientParams& params,
                      const Stream& stream) {
  throw_on_error(function, cuda::launch_gradient(params, stream.overlap, stream_of(stream)));
}

void cos_sin_on_cuda(std::string_view function, const AngleSource& source,
                     const Positions& positions, const TensorView& cos, const TensorView& sin,
                     const Stream& stream) {
  throw_on_error(function, cuda::for_each_token_range(cos.shape[0], cos.shape[1], false,
                                                      [&](const cuda::TokenRange& range) {
                                                        return fill_cos_sin(source, positions, cos,
                                                                            sin, range, stream);
                                                      }));
}

void check_on_cuda(std::string_view function, const RotateParams& params) {
  constexpr std::int64_t kMaxHeadDim = std::int64_t{1} << 28;  // byte offsets fit 32 bits
  constexpr std::int64_t kMaxSequences = std::numeric_limits<std::int32_t>::max() - 1;
  for (const Operand& x : params.operands) {
    if (x.in.shape[3] >= kMaxHeadDim) {
      reject("[", function, "] head_dim on CUDA must be less than ", kMaxHeadDim, ", got ",
             x.in.shape[3]);
    }
  }
  if (params.positions.kind() == Positions::Kind::kPacked &&
      params.positions.boundaries().shape[0] > kMaxSequences) {
    reject("[", function, "] packed sequences on CUDA must be at most ", kMaxSequences - 1,
           ", got ", params.positions.boundaries().shape[0] - 1);
  }
}

void norm_rotate_on_cuda(std::string_view function, const NormParams& params,
                         const Stream& stream) {
  throw_on_error(function, cuda::launch_norm(params, stream.overlap, stream_of(stream)));
}

void norm_gradient_on_cuda(std::string_view function, const NormParams& params,
                           std::span<const NormGradientTensors> tensors,
                           std::span<std::byte> workspace, const Stream& stream) {
  for (const NormGradientTensors& x : tensors) {
    const std::int64_t size = (params.norm.across_heads ? x.in.shape[2] : 1) * x.in.shape[3];
    const std::int64_t floats = cuda::norm_gradient_floats(size, params.norm.has_mean);
    constexpr std::int64_t kMaxFloats = cuda::kMaxNormGradientShared / 4 - 2 * 1024;  // and angles
    if (floats > kMaxFloats) {
      reject("[", function, "] norms on CUDA must have at most ",
             kMaxFloats / cuda::norm_gradient_floats(1, params.norm.has_mean), " elements, got ",
             size);
    }
  }
  throw_on_error(function, cuda::launch_norm_gradient(params, tensors, workspace, stream.overlap,
                                                      stream_of(stream)));
}

void append_on_cuda(std::string_view function, const AppendParams& params, const Stream& stream) {
  throw_on_error(function, cuda::launch_append(params, stream.overlap, stream_of(stream)));
}

void check_fused_on_cuda(std::string_view function, const RotateParams& params) {
  const std::int64_t max = params.source.table != nullptr
                               ? cuda::kMaxGeneralPairs
                               : cuda::max_pairs(params.source, params.positions);
  if (params.pairs > max) {
    reject("[", function, "] rotary_dim on CUDA must be at most ", 2 * max,
           " for this rope and these positions, got ", 2 * params.pairs);
  }
  for (const Operand& x : params.operands) {
    if (x.in.shape[2] > cuda::kHeadsPerOperand) {
      reject("[", function, "] heads on CUDA must be at most ", cuda::kHeadsPerOperand, ", got ",
             x.in.shape[2]);
    }
  }
}

}  // namespace rotary::internal
