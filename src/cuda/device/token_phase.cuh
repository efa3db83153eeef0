// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The phase of a pair in kernels whose blocks handle one token: blockIdx.x, in batch row
// blockIdx.y.
#pragma once

#include <cstdint>

#include "cuda/device/packed.cuh"
#include "cuda/device/rotate_vectorized.cuh"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

/// Phase of one pair at the block's token. PhaseInputs in three steps: address, load, phase.
class TokenPhase {
 public:
  /// Reads parameters only, so it may precede wait_on_dependent_grids().
  __device__ __forceinline__ void prepare(const VectorizedParams& p, std::uint32_t i) {
    const VectorizedPositions& at = p.positions;
    fraction_ = as_generic_memory(p.fractions)[i];
    if (at.ids == nullptr) return;
    const std::int32_t axis = p.axes > 1 ? as_generic_memory(p.axis_of)[i] : 0;
    const std::int32_t offset = axis * at.axis_stride +
                                static_cast<std::int32_t>(blockIdx.y) * at.batch_stride +
                                static_cast<std::int32_t>(blockIdx.x) * at.token_stride;
    id_ = at.ids + static_cast<std::int64_t>(offset) * (at.is_int32 ? 4 : 8);
  }
  __device__ __forceinline__ void materialize_address() { materialize(id_); }

  __device__ __forceinline__ void fetch(const VectorizedPositions& at) {
    if (id_ == nullptr) return;
    low_ = load_u32(id_);
    if (!at.is_int32) high_ = load_u32(id_ + 4);
  }
  __device__ __forceinline__ std::uint64_t get(const VectorizedPositions& at) const {
    const auto token = static_cast<std::int64_t>(blockIdx.x);
    if (__builtin_expect(at.boundaries != nullptr, 0)) {
      return static_cast<std::uint64_t>(packed_position(at, token)) * fraction_;
    }
    // The part that does not depend on the id, computed while its load is in flight.
    std::uint64_t sum = static_cast<std::uint64_t>(at.start + at.step * token) * fraction_;
    materialize(sum);
    if (id_ == nullptr) return sum;
    const std::uint32_t upper = at.is_int32 ? (low_ >> 31) * 0xffffffffu : high_;
    return sum + (static_cast<std::uint64_t>(upper) << 32 | low_) * fraction_;
  }

 private:
  std::uint64_t fraction_ = 0;
  const char* id_ = nullptr;  // ids[axis, batch, token]
  std::uint32_t low_ = 0;
  std::uint32_t high_ = 0;
};

}  // namespace rotary::internal::cuda
