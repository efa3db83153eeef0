// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the tuned rotation kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/rotate_tokens.cuh"
#include "cuda/device/rotate_vectorized.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

/// Whether a block of `shape` consists of whole warps, as warp shuffles need it.
inline bool has_whole_warps(const VectorizedParams& vectorized,
                            const VectorizedShape& shape) noexcept {
  return vectorized.fragments * shape.rows * shape.depth % 32 == 0;
}

/// `thread_bytes`: read per thread of `kernel`. The first blocks prefetch `prefetch_bytes` in all.
inline cudaError_t launch_with_shape(void (*kernel)(VectorizedParams), int thread_bytes,
                                     int prefetch_bytes, const SimpleParams& p,
                                     const VectorizedShape& shape, VectorizedParams& vectorized,
                                     cudaStream_t stream) noexcept {
  const int block_bytes = vectorized.fragments * shape.rows * shape.depth * thread_bytes;
  vectorized.prefetch_blocks = static_cast<std::uint32_t>(prefetch_bytes / block_bytes);
  const dim3 grid(static_cast<unsigned>(shape.tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.head_splits));
  const dim3 block(static_cast<unsigned>(vectorized.fragments), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.depth));
  const std::size_t shared = static_cast<std::size_t>(shape.depth) * 2 *
                             static_cast<std::size_t>(vectorized.row_size) * sizeof(float);
  return launch_kernel(kernel, vectorized, grid, block, shared, p.overlaps, stream);
}

template <class Fragment, class Config>
inline constexpr int kThreadBytes = 16 * Fragment::kPacks * Config::kHeads;

/// `tokens` per block, of the operand with more heads.
template <class Fragment, class Config>
cudaError_t launch_vectorized(const SimpleParams& p, int tokens, VectorizedParams& vectorized,
                              cudaStream_t stream, int prefetch_bytes = 0) noexcept {
  const VectorizedShape shape =
      shape_vectorized(p, Config::kHeads, Config::kMaxThreads, tokens, vectorized);
  return launch_with_shape(rotate_vectorized<Fragment, Config>, kThreadBytes<Fragment, Config>,
                           prefetch_bytes, p, shape, vectorized, stream);
}

/// One token per block, at most `max_packs` packs of it.
template <class Fragment, Prefetch kPrefetch>
cudaError_t launch_tokens(const SimpleParams& p, int max_packs, int prefetch_bytes,
                          VectorizedParams& vectorized, cudaStream_t stream) noexcept {
  const VectorizedShape shape = shape_tokens(p, Fragment::kPacks, max_packs, vectorized);
  return launch_with_shape(rotate_tokens<Fragment, kPrefetch>, 16 * Fragment::kPacks,
                           prefetch_bytes, p, shape, vectorized, stream);
}

/// Half pairing by warp shuffles. Returns false, with `vectorized` unchanged, where the sizes do
/// not allow it; otherwise sets `error`.
template <class Fragment, class Config>
bool launch_shuffle(const SimpleParams& p, VectorizedParams& vectorized, cudaStream_t stream,
                    cudaError_t& error) noexcept {
  if (!use_warp_shuffle(p, vectorized)) return false;
  const VectorizedShape shape =
      shape_vectorized(p, Config::kHeads, Config::kMaxThreads, 1, vectorized);
  if (has_whole_warps(vectorized, shape)) {
    error = launch_with_shape(rotate_vectorized<Fragment, Config>, kThreadBytes<Fragment, Config>,
                              0, p, shape, vectorized, stream);
    return true;
  }
  vectorized.fragments /= 2;
  return false;
}

}  // namespace rotary::internal::cuda
