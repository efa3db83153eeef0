// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Starting the tuned rotation.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/rotate_packs.cuh"
#include "cuda/device/rotate_tokens.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/pack_params.h"

namespace rotary::internal::cuda {

/// A block of `shape` is whole warps, as lanes that exchange packs need it.
inline bool has_whole_warps(const PackParams& packs, const PackShape& shape) noexcept {
  return packs.units * shape.rows * shape.depth % 32 == 0;
}

/// A thread of `kernel` reads `bytes`; the first blocks prefetch `first_bytes` in all.
inline cudaError_t launch_shape(void (*kernel)(PackParams), int bytes, int first_bytes,
                                const SimpleParams& p, const PackShape& shape, PackParams& packs,
                                cudaStream_t stream) noexcept {
  const int block_bytes = packs.units * shape.rows * shape.depth * bytes;
  packs.first_blocks = static_cast<std::uint32_t>(first_bytes / block_bytes);
  const dim3 grid(static_cast<unsigned>(shape.tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.shares));
  const dim3 block(static_cast<unsigned>(packs.units), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.depth));
  const std::size_t shared = static_cast<std::size_t>(shape.depth) * 2 *
                             static_cast<std::size_t>(packs.row_size) * sizeof(float);
  return launch_kernel(kernel, packs, grid, block, shared, p.overlaps, stream);
}

template <class Unit, class Build>
inline constexpr int kThreadBytes = 16 * Unit::kPacks * Build::kHeads;

/// `tokens` of a block, of the operand with more heads.
template <class Unit, class Build>
cudaError_t launch_packs(const SimpleParams& p, int tokens, PackParams& packs, cudaStream_t stream,
                         int first_bytes = 0) noexcept {
  const PackShape shape = shape_packs(p, Build::kHeads, Build::kThreads, tokens, packs);
  return launch_shape(rotate_packs<Unit, Build>, kThreadBytes<Unit, Build>, first_bytes, p, shape,
                      packs, stream);
}

/// At most `most_packs` in a block, of one token.
template <class Unit, Prefetch kPrefetch>
cudaError_t launch_tokens(const SimpleParams& p, int most_packs, int first_bytes, PackParams& packs,
                          cudaStream_t stream) noexcept {
  const PackShape shape = shape_tokens(p, Unit::kPacks, most_packs, packs);
  return launch_shape(rotate_tokens<Unit, kPrefetch>, 16 * Unit::kPacks, first_bytes, p, shape,
                      packs, stream);
}

/// Halves exchanged between lanes. False, and `packs` as it was, where they cannot be.
template <class Unit, class Build>
bool launch_exchanged(const SimpleParams& p, PackParams& packs, cudaStream_t stream,
                      cudaError_t& error) noexcept {
  if (!make_exchanged(p, packs)) return false;
  const PackShape shape = shape_packs(p, Build::kHeads, Build::kThreads, 1, packs);
  if (has_whole_warps(packs, shape)) {
    error = launch_shape(rotate_packs<Unit, Build>, kThreadBytes<Unit, Build>, 0, p, shape, packs,
                         stream);
    return true;
  }
  packs.units /= 2;
  return false;
}

}  // namespace rotary::internal::cuda
