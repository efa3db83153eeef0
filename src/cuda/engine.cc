// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The CUDA engine behind the door of rope/kernel.h: what it refuses, and what goes wrong.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "cuda/angles.h"
#include "cuda/gradient.h"
#include "cuda/part.h"
#include "cuda/rotate.h"
#include "cuda/rotate_job.h"
#include "rope/kernel.h"
#include "rotary/cuda.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary {

bool has_cuda() noexcept { return true; }

int cuda_device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // or a later call would be told
  return 0;
}

}  // namespace rotary

namespace rotary::internal {
namespace {

cudaStream_t stream_of(const Stream& stream) noexcept {
  return static_cast<cudaStream_t>(stream.handle);
}

void check(std::string_view function, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // told here, not by a later call
  throw CudaError(function, error, cudaGetErrorString(error));
}

cudaError_t fill_cos_sin(const Source& source, const Positions& positions, const TensorView& cos,
                         const TensorView& sin, const cuda::Rows& rows,
                         const Stream& stream) noexcept {
  cuda::CosSinParams p{};
  cuda::fill_positions(positions, rows, p.positions);
  cuda::fill_size(source, Direction::kForward, p);
  p.tokens = rows.tokens;
  p.batch = static_cast<std::int32_t>(rows.batch);
  p.type = cos.dtype;
  p.overlaps = stream.overlap;
  const auto fill = [&](const TensorView& view, std::int64_t(&strides)[3]) {
    for (std::size_t i = 0; i < 3; ++i) strides[i] = view.strides[i];
    const std::int64_t at = rows.first_batch * strides[0] + rows.first_token * strides[1];
    return static_cast<char*>(view.data) + at * static_cast<std::int64_t>(size_of(view.dtype));
  };
  p.cos = fill(cos, p.cos_strides);
  p.sin = fill(sin, p.sin_strides);
  const std::int64_t all = source.phases->pairs;
  const std::int64_t step = cuda::most_pairs(source, positions);
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

void rotate_on_cuda(std::string_view function, const Job& job, const Stream& stream) {
  check(function, cuda::rotate_job(job, stream.overlap, stream_of(stream)));
}

void gradient_on_cuda(std::string_view function, const GradientJob& job, const Stream& stream) {
  check(function, cuda::gradient_job(job, stream.overlap, stream_of(stream)));
}

void cos_sin_on_cuda(std::string_view function, const Source& source, const Positions& positions,
                     const TensorView& cos, const TensorView& sin, const Stream& stream) {
  check(function,
        cuda::for_each_rows(cos.shape[0], cos.shape[1], false, [&](const cuda::Rows& rows) {
          return fill_cos_sin(source, positions, cos, sin, rows, stream);
        }));
}

void check_on_cuda(std::string_view function, const Job& job) {
  constexpr std::int64_t kMostDim = std::int64_t{1} << 28;  // elements count in 32 bits, times 8
  constexpr std::int64_t kMostSequences = std::numeric_limits<std::int32_t>::max() - 1;
  for (const Operand& x : job.operands) {
    if (x.in.shape[3] >= kMostDim) {
      reject("[", function, "] head_dim on CUDA must be less than ", kMostDim, ", got ",
             x.in.shape[3]);
    }
  }
  if (job.positions.kind() == Positions::Kind::kPacked &&
      job.positions.boundaries().shape[0] > kMostSequences) {
    reject("[", function, "] packed sequences on CUDA must be at most ", kMostSequences - 1,
           ", got ", job.positions.boundaries().shape[0] - 1);
  }
}

}  // namespace rotary::internal
