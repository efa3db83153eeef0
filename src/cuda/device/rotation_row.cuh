// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation row: cos and sin of a token's pairs in shared memory, computed once per token and read
// by the threads of all its heads.
#pragma once

#include <cstdint>

namespace rotary::internal::cuda {

/// Elements reserved for the cosines (and again for the sines) of a token: a multiple of 16 bytes.
inline __host__ __device__ std::uint32_t padded_pairs(std::uint32_t pairs) {
  return (pairs + 3u) & ~3u;
}

/// Layout without bank conflicts: the first 16 bytes of all fragments, then the next 16 bytes of
/// all fragments. Neighbouring threads read neighbouring 16-byte vectors.
template <class Fragment>
struct RotationRow {
  using T = typename Fragment::T;
  static constexpr int kPer16Bytes = 16 / static_cast<int>(sizeof(T));
  static constexpr int kStep = Fragment::kPairs < kPer16Bytes ? Fragment::kPairs : kPer16Bytes;

  /// Offset of pair i in a row of `fragments` fragments.
  static __device__ __forceinline__ std::uint32_t offset(std::uint32_t i, std::uint32_t fragments) {
    const std::uint32_t fragment = i / Fragment::kPairs;
    const std::uint32_t pair = i % Fragment::kPairs;
    return (pair / kStep * fragments + fragment) * kStep + pair % kStep;
  }
  /// The pairs of one fragment.
  static __device__ __forceinline__ void read(const T* row, std::uint32_t fragment,
                                              std::uint32_t fragments, T (&to)[Fragment::kPairs]) {
    struct alignas(kStep * sizeof(T)) Vector {
      T values[kStep];
    };
#pragma unroll
    for (int k = 0; k < Fragment::kPairs / kStep; ++k) {
      const Vector vector = reinterpret_cast<const Vector*>(row)[k * fragments + fragment];
#pragma unroll
      for (int i = 0; i < kStep; ++i) to[k * kStep + i] = vector.values[i];
    }
  }
};

}  // namespace rotary::internal::cuda
