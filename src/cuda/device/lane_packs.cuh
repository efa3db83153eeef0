// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The packs of a head that one lane holds in the tuned fused kernels: their norm and rotation, half
// a pack at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/elements.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/norm_sums.cuh"
#include "cuda/device/packed.cuh"
#include "rotary/pairing.h"

namespace rotary::internal::cuda {

// A unit is half a pack: 8 bytes, kUnit elements. Rows in shared memory hold the first units of all
// packs, then the second ones, so that neighbouring lanes read neighbouring vectors.

template <class Element>
inline constexpr int kUnit = Element::kPerPack / 2;

template <class Element>
__device__ __forceinline__ void unpack_unit(const std::uint32_t (&words)[2],
                                            float (&v)[kUnit<Element>]) {
  if constexpr (std::is_same_v<Element, Float32>) {
    v[0] = __uint_as_float(words[0]);
    v[1] = __uint_as_float(words[1]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 two = device::unpack_two<typename Element::Type>(words[i]);
      v[2 * i] = two.x;
      v[2 * i + 1] = two.y;
    }
  }
}

template <class Element>
__device__ __forceinline__ void pack_unit(const float (&v)[kUnit<Element>],
                                          std::uint32_t (&words)[2]) {
  if constexpr (std::is_same_v<Element, Float32>) {
    words[0] = __float_as_uint(v[0]);
    words[1] = __float_as_uint(v[1]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words[i] = device::pack_two<typename Element::Type>(v[2 * i], v[2 * i + 1]);
    }
  }
}

/// Vector `at` of a row in shared memory.
template <class Element>
__device__ __forceinline__ void load_row_unit(const float* row, std::int32_t at,
                                              float (&v)[kUnit<Element>]) {
  struct alignas(kUnit<Element> * sizeof(float)) Vector {
    float values[kUnit<Element>];
  };
  const Vector vector = reinterpret_cast<const Vector*>(row)[at];
#pragma unroll
  for (int i = 0; i < kUnit<Element>; ++i) v[i] = vector.values[i];
}

/// The norm of one head, with its factors and biases as rows of units.
template <class Element>
struct UnitNorm {
  const float* factors;
  const float* biases;
  std::int32_t packs;  // of a head
  float mean;
  float scale;
  bool has_mean;
  bool rounds;

  /// Unit u of pack k.
  __device__ __forceinline__ void apply(float (&v)[kUnit<Element>], std::int32_t k, int u) const {
    constexpr int kCount = kUnit<Element>;
    float w[kCount];
    load_row_unit<Element>(factors, u * packs + k, w);
    if (has_mean) {
      float b[kCount];
      load_row_unit<Element>(biases, u * packs + k, b);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float scaled = mul_rounded(mul_rounded(add_rounded(v[i], -mean), scale), w[i]);
        v[i] = add_rounded(scaled, b[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) v[i] = mul_rounded(mul_rounded(v[i], scale), w[i]);
    }
  }
  /// The same, rounded to the element type if the norm says so.
  __device__ __forceinline__ void apply_rounded(float (&v)[kUnit<Element>], std::int32_t k,
                                                int u) const {
    apply(v, k, u);
    if constexpr (!std::is_same_v<Element, Float32>) {
      if (!rounds) return;
      std::uint32_t words[2];
      pack_unit<Element>(v, words);
      unpack_unit<Element>(words, v);
    }
  }
};

/// What a lane does with the packs of its head.
template <class Element, Pairing kPairing, bool kNorms>
struct LanePacks {
  static constexpr int kCount = kUnit<Element>;
  static constexpr bool kHalf = kPairing == Pairing::kHalf;

  UnitNorm<Element> norm;
  const float* cos;  // rows of units
  const float* sin;
  std::int32_t first;   // pack of the rotary slice that the lane begins with
  std::int32_t stride;  // packs from it to the second one
  std::int32_t lane;
  bool normalizes;

  /// Rotates half of the lane's pairs: unit kChunk of both packs, or both units of pack kChunk.
  template <int kChunk>
  __device__ __forceinline__ void rotate_chunk(Packed<16>& a, Packed<16>& b) const {
    Packed<16>& one = kHalf || kChunk == 0 ? a : b;
    Packed<16>& two = kHalf || kChunk == 1 ? b : a;
    constexpr int kOne = kHalf ? kChunk : 0;  // units
    constexpr int kTwo = kHalf ? kChunk : 1;
    std::uint32_t words_one[2] = {one.words[2 * kOne], one.words[2 * kOne + 1]};
    std::uint32_t words_two[2] = {two.words[2 * kTwo], two.words[2 * kTwo + 1]};
    float u[kCount];
    float v[kCount];
    unpack_unit<Element>(words_one, u);
    unpack_unit<Element>(words_two, v);
    if constexpr (kNorms) {
      if (normalizes) {
        norm.apply_rounded(u, first + (kHalf || kChunk == 0 ? 0 : stride), kOne);
        norm.apply_rounded(v, first + (kHalf || kChunk == 1 ? stride : 0), kTwo);
      }
    }
    float c[kCount];
    float s[kCount];
    load_row_unit<Element>(cos, kChunk * stride + lane, c);
    load_row_unit<Element>(sin, kChunk * stride + lane, s);
    if constexpr (kHalf) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) rotate_pair(u[i], v[i], c[i], s[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        rotate_pair(u[2 * i], u[2 * i + 1], c[i], s[i]);
        rotate_pair(v[2 * i], v[2 * i + 1], c[kCount / 2 + i], s[kCount / 2 + i]);
      }
    }
    pack_unit<Element>(u, words_one);
    pack_unit<Element>(v, words_two);
    one.words[2 * kOne] = words_one[0];
    one.words[2 * kOne + 1] = words_one[1];
    two.words[2 * kTwo] = words_two[0];
    two.words[2 * kTwo + 1] = words_two[1];
  }

  /// A pack outside of the rotary slice, as it is written.
  __device__ __forceinline__ Packed<16> finish_pass(const Packed<16>& pack, std::int32_t k) const {
    Packed<16> result = pack;
    if constexpr (kNorms) {
      if (!normalizes) return result;
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        std::uint32_t words[2] = {pack.words[2 * u], pack.words[2 * u + 1]};
        float v[kCount];
        unpack_unit<Element>(words, v);
        norm.apply(v, k, u);
        pack_unit<Element>(v, words);
        result.words[2 * u] = words[0];
        result.words[2 * u + 1] = words[1];
      }
    }
    return result;
  }
};

}  // namespace rotary::internal::cuda
