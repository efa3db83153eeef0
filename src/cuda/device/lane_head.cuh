// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the tuned kernels of norms share. kLanes lanes of a warp share a head: each holds two packs
// of it, of 16 bytes or of four elements, half a head apart, so that a pair stays in one thread for
// either pairing, and a norm takes a few shuffles. cos, sin and the weights of the norm are in
// shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/packed.cuh"
#include "cuda/device/rotate_vectorized.cuh"
#include "cuda/device/warp_norm.cuh"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

/// A head's part of one lane as floats, and what is done to it.
template <class Element, Pairing kPairing, int kLanesOfHead, int kElements = Element::kPerPack>
struct LaneHead {
  using ElementType = Element;
  static constexpr int kLanes = kLanesOfHead;
  static constexpr int kCount = kElements;  // of a pack
  static constexpr bool kHalf = kPairing == Pairing::kHalf;
  using Pack = Packed<kCount* static_cast<int>(sizeof(typename Element::Storage))>;

  float a[kCount];  // pack `lane`
  float b[kCount];  // pack `lane + lanes`

  __device__ __forceinline__ void unpack(const Pack& first, const Pack& second) {
    Element::unpack(first, a);
    Element::unpack(second, b);
  }

  /// 1 / sqrt(mean square + eps).
  __device__ __forceinline__ float scale(float eps) const {
    constexpr int kFours = kCount / 4;
    LaneSquares<kFours> squares;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      squares.first[i] = sum_of_four(a, 4 * i);
      squares.second[i] = sum_of_four(b, 4 * i);
    }
    constexpr float kReciprocalSize = 1.0f / (2 * kCount * kLanes);
    return rsqrtf(__fadd_rn(__fmul_rn(sum_of_lanes<kLanes>(squares), kReciprocalSize), eps));
  }

  __device__ __forceinline__ void multiply(float scale) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      a[i] = __fmul_rn(a[i], scale);
      b[i] = __fmul_rn(b[i], scale);
    }
  }
  /// `weights`: as WarpWeights orders them.
  __device__ __forceinline__ void multiply(const float* weights, std::int32_t lane) {
    float w[kCount];
    read_row(weights, lane, w);
#pragma unroll
    for (int i = 0; i < kCount; ++i) a[i] = __fmul_rn(a[i], w[i]);
    read_row(weights + kCount * kLanes, lane, w);
#pragma unroll
    for (int i = 0; i < kCount; ++i) b[i] = __fmul_rn(b[i], w[i]);
  }

  /// To the tensor's type.
  __device__ __forceinline__ void round() {
    if constexpr (!std::is_same_v<Element, Float32>) unpack(Element::pack(a), Element::pack(b));
  }

  // Rows of cos and sin: of a lane's pairs in two vectors of kCount / 2, the first vectors of all
  // lanes before the second ones. Those of interleaved pairs are then in their own order.

  /// `packs`: of half a head, kLanes at most.
  static __device__ __forceinline__ std::uint32_t row_offset(std::uint32_t pair,
                                                             std::uint32_t packs = kLanes) {
    constexpr std::uint32_t kVector = kCount / 2;
    if constexpr (kHalf) {
      const std::uint32_t in_lane = pair % kCount;
      return (in_lane / kVector * kLanes + pair / kCount) * kVector + in_lane % kVector;
    } else {
      return pair + (pair / kVector >= packs ? (kLanes - packs) * kVector : 0u);
    }
  }
  static __device__ __forceinline__ void read_row(const float* row, std::int32_t lane,
                                                  float (&v)[kCount]) {
    constexpr int kVector = kCount / 2;
    struct alignas(kVector * sizeof(float)) Vector {
      float values[kVector];
    };
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const Vector vector = reinterpret_cast<const Vector*>(row)[k * kLanes + lane];
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[k * kVector + i] = vector.values[i];
    }
  }

  __device__ __forceinline__ void rotate(const float* row, std::int32_t lane) {
    float c[kCount];
    float s[kCount];
    read_row(row, lane, c);
    read_row(row + kCount * kLanes, lane, s);
    if constexpr (kHalf) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) rotate_pair(a[i], b[i], c[i], s[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        rotate_pair(a[2 * i], a[2 * i + 1], c[i], s[i]);
        rotate_pair(b[2 * i], b[2 * i + 1], c[kCount / 2 + i], s[kCount / 2 + i]);
      }
    }
  }
};

/// Weights of a norm as floats, 1 where there are none, in shared memory by one warp: in the order
/// of rows of cos and sin, the first halves of all first packs, their second halves, then those of
/// the second packs. Fetched before other loads, and stored when these are in flight.
template <class Head>
class WarpWeights {
 public:
  /// `is_float`: weights of float32, otherwise of the elements' type. `packs`: of half a head.
  __device__ __forceinline__ WarpWeights(const void* weight, bool is_float, std::int32_t packs)
      : weight_(static_cast<const char*>(weight)), is_float_(kIsFloat || is_float), packs_(packs) {}

  __device__ __forceinline__ void fetch() {
    if (weight_ == nullptr) return;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if (first(i) >= size()) continue;
      if (is_float_) {  // the same for all threads
        floats_[i] = load_packed(weight_ + 4 * first(i));
      } else {
        const Packed<8> two = load_packed8(weight_ + 2 * first(i));
        floats_[i].words[0] = two.words[0];
        floats_[i].words[1] = two.words[1];
      }
    }
  }

  __device__ __forceinline__ void store(bool adds_one, float* to) const {
    constexpr int kVector = Head::kCount / 2;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if (first(i) >= size()) continue;
      float w[4] = {1.0f, 1.0f, 1.0f, 1.0f};
      if (weight_ != nullptr) unpack(floats_[i], w);
      const std::int32_t pack = first(i) / Head::kCount;
      const std::int32_t half = pack < packs_ ? 0 : 1;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int32_t in_pack = first(i) % Head::kCount + e;
        const std::int32_t vector =
            (2 * half + in_pack / kVector) * Head::kLanes + pack - half * packs_;
        to[vector * kVector + in_pack % kVector] =
            adds_one && weight_ != nullptr ? __fadd_rn(1.0f, w[e]) : w[e];
      }
    }
  }

 private:
  using Element = typename Head::ElementType;
  static constexpr bool kIsFloat = std::is_same_v<Element, Float32>;
  static constexpr int kFours = (Head::kCount * Head::kLanes / 2 + 31) / 32;  // of a thread

  /// The first of the four elements i of this thread.
  static __device__ __forceinline__ std::int32_t first(int i) {
    return 4 * (static_cast<std::int32_t>(threadIdx.x) + 32 * i);
  }
  __device__ __forceinline__ std::int32_t size() const { return 2 * packs_ * Head::kCount; }
  __device__ __forceinline__ void unpack(const Packed<16>& four, float (&w)[4]) const {
    if constexpr (!kIsFloat) {
      if (!is_float_) {
        Element::unpack(Packed<8>{four.words[0], four.words[1]}, w);
        return;
      }
    }
    Float32::unpack(four, w);
  }

  const char* weight_;
  bool is_float_;
  std::int32_t packs_;
  Packed<16> floats_[kFours];
};

/// Where the kernels of norms have cos and sin from.
enum class Angles : std::uint8_t {
  kFrequencies,
  kTable,
};

/// cos and sin of a token's pairs by one warp, of which each lane has those 32 apart. `p`: a
/// kernel's parameters, with `angles` and, for kTable, `table`.
template <class Head, Angles kAngles = Angles::kFrequencies>
struct WarpRow {
  static constexpr int kPairs = (Head::kCount * Head::kLanes + 31) / 32;  // of a lane
  PhaseInputs inputs[kPairs];

  static __device__ __forceinline__ std::uint32_t pair(int i) { return threadIdx.x + 32 * i; }

  template <class Params>
  __device__ __forceinline__ void fetch_frequencies(const Params& p, std::uint32_t pairs) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      inputs[i] = PhaseInputs{};
      if (pair(i) < pairs) inputs[i].fetch_frequency(p.angles, pair(i));
    }
  }
  template <class Params>
  __device__ __forceinline__ void fetch_positions(const Params& p, std::int32_t batch,
                                                  std::int32_t token, std::uint32_t /*pairs*/) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) inputs[i].fetch_position(p.angles.positions, token, batch);
  }
  /// Into a row of the warp's own; `packs`: of half a head. The caller synchronises the warp.
  template <class Params>
  __device__ __forceinline__ void compute(const Params& p, std::int32_t token, std::uint32_t pairs,
                                          std::uint32_t packs, float* row) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const CosSin<float> z = cos_sin_on_device<float>(inputs[i].phase(p.angles.positions, token));
      if (pair(i) >= pairs) continue;
      const std::uint32_t at = Head::row_offset(pair(i), packs);
      row[at] = mul_rn(z.cos, p.angles.cos_magnitude);
      row[Head::kCount * Head::kLanes + at] = mul_rn(z.sin, p.angles.sin_magnitude);
    }
  }
};

/// Loaded as soon as positions are to be fetched.
template <class Head>
struct WarpRow<Head, Angles::kTable> {
  static constexpr int kPairs = WarpRow<Head>::kPairs;
  CosSin<float> values[kPairs];

  template <class Params>
  __device__ __forceinline__ void fetch_frequencies(const Params& /*p*/, std::uint32_t /*pairs*/) {}

  template <class Params>
  __device__ __forceinline__ void fetch_positions(const Params& p, std::int32_t batch,
                                                  std::int32_t token, std::uint32_t pairs) {
    PhaseInputs inputs{};
    inputs.fetch_position(p.angles.positions, token, batch);
    const std::int64_t row = inputs.position(p.angles.positions, token);
    const VectorizedTable& table = p.table;
    const bool has_row = row >= 0 && row < table.rows;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::uint32_t pair = WarpRow<Head>::pair(i);
      const auto entry = [&](const void* from, const std::int64_t(&strides)[3]) {
        if (!has_row || pair >= pairs) return __int_as_float(0x7fffffff);
        return table_entry<float>(from, table.table_type,
                                  batch * strides[0] + row * strides[1] + pair * strides[2]);
      };
      values[i] = {entry(table.cos, table.cos_strides), entry(table.sin, table.sin_strides)};
    }
  }

  template <class Params>
  __device__ __forceinline__ void compute(const Params& p, std::int32_t /*token*/,
                                          std::uint32_t pairs, std::uint32_t packs,
                                          float* row) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::uint32_t pair = WarpRow<Head>::pair(i);
      if (pair >= pairs) continue;
      const std::uint32_t at = Head::row_offset(pair, packs);
      row[at] = values[i].cos;
      row[Head::kCount * Head::kLanes + at] = p.table.conjugates ? -values[i].sin : values[i].sin;
    }
  }
};

}  // namespace rotary::internal::cuda
