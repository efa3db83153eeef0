// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Writes cos and sin, with the bits that the rotation uses.

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {
namespace {

/// Block: [tokens][pairs]; grid: [tiles of pairs][batch][tiles of tokens].
template <class Element>
__global__ void __launch_bounds__(256) fill_cos_sin(const __grid_constant__ CosSinParams p) {
  using T = typename Element::Compute;
  using Storage = typename Element::Storage;
  const auto i = static_cast<std::int32_t>(blockIdx.z * blockDim.x + threadIdx.x);
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (p.overlaps) launch_dependent_grids();
  wait_on_dependent_grids();
  if (i >= p.pair_count || token >= p.tokens) return;
  const CosSin<T> z = cos_sin_of<T>(p, blockIdx.y, token, i);
  const auto at = [&](const std::int64_t(&strides)[3]) {
    return blockIdx.y * strides[0] + token * strides[1] + (p.first_pair + i) * strides[2];
  };
  static_cast<Storage*>(p.cos)[at(p.cos_strides)] = Element::store(z.cos);
  static_cast<Storage*>(p.sin)[at(p.sin_strides)] = Element::store(z.sin);
}

template <class Element>
cudaError_t launch(const CosSinParams& p, cudaStream_t stream) noexcept {
  constexpr unsigned kThreads = 128;
  const auto pairs = static_cast<unsigned>(p.pair_count);
  const dim3 block(pairs < kThreads ? pairs : kThreads, pairs < kThreads ? kThreads / pairs : 1);
  const auto tiles = (p.tokens + block.y - 1) / block.y;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(p.batch),
                  (pairs + block.x - 1) / block.x);
  return launch_kernel(fill_cos_sin<Element>, p, grid, block, 0, p.overlaps, stream);
}

}  // namespace

cudaError_t cos_sin(const CosSinParams& params, cudaStream_t stream) noexcept {
  if (params.batch == 0 || params.tokens == 0) return cudaSuccess;
  return dispatch_element(params.type,
                          [&](auto element) { return launch<decltype(element)>(params, stream); });
}

}  // namespace rotary::internal::cuda
