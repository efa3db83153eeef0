// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/device/reorder.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {
namespace {

template <typename Storage>
cudaError_t launch(const KernelParams& p, cudaStream_t stream) noexcept {
  constexpr unsigned kThreads = 256;
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(p.num_heads));
  const std::size_t shared =
      2 * static_cast<std::size_t>(std::min(p.pairs, kChunkPairs<Storage>)) * sizeof(Storage);
  return launch_kernel(reorder_heads<Storage>, p, grid, dim3(kThreads), shared, p.overlaps, stream);
}

}  // namespace

cudaError_t reorder(const KernelParams& params, cudaStream_t stream) noexcept {
  if (params.batch == 0 || params.tokens == 0 || params.num_heads == 0) return cudaSuccess;
  switch (size_of(params.type)) {
    case 2:
      return launch<std::uint16_t>(params, stream);
    case 4:
      return launch<std::uint32_t>(params, stream);
    default:
      return launch<std::uint64_t>(params, stream);
  }
}

}  // namespace rotary::internal::cuda
