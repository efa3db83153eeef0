// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The general fused kernel: a norm and a rotation in either order, for heads of any strides and
// pairings, any source of angles, norms of a head or of all heads of a token, and stores into a
// cache. A block handles the elements of one norm, element by element; a head passes through shared
// memory before it is written, so `out` may be `in` for any pairings.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/norm_sums.cuh"
#include "cuda/device/quantize.cuh"
#include "cuda/device/rotation_row.cuh"
#include "cuda/device/store_slots.cuh"
#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

/// An element of a weight or bias.
__device__ __forceinline__ float load_weight(const void* from, DType type, std::int32_t i) {
  switch (type) {
    case DType::kBFloat16:
      return BFloat16::load(static_cast<const std::uint16_t*>(from)[i]);
    case DType::kFloat16:
      return Float16::load(static_cast<const std::uint16_t*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}

/// Rounds to the element type and converts back.
template <class Element>
__device__ __forceinline__ float rounded(float x) {
  return Element::load(Element::store(x));
}

/// Offsets in a head of the elements of a pair.
__device__ __forceinline__ PairOffsets offsets_of(Pairing pairing, std::int32_t rotary_offset,
                                                  std::int32_t pairs, std::int32_t pair) {
  if (pairing == Pairing::kHalf) return {rotary_offset + pair, rotary_offset + pairs + pair};
  return {rotary_offset + 2 * pair, rotary_offset + 2 * pair + 1};
}

/// The heads that share a norm, and what becomes of their elements.
template <class Element, class Params>
class FusedHeads {
 public:
  using Storage = typename Element::Storage;

  __device__ FusedHeads(const Params& p, int operand, const char* in, const float* cos,
                        const float* sin)
      : p_(p),
        o_(p.operands[operand]),
        f_(p.fused[operand]),
        in_(in),
        cos_(cos),
        sin_(sin),
        pairs_(f_.rotates ? p.pairs : 0) {}

  std::int32_t __device__ head_dim() const { return f_.head_dim; }
  std::int32_t __device__ pairs() const { return pairs_; }

  /// Element i of head h, counted from the first of the norm.
  __device__ float input(std::int32_t h, std::int32_t i) const {
    return Element::load(
        *reinterpret_cast<const Storage*>(in_ + h * o_.in_head + i * o_.in_element));
  }

  /// Element i of the norm's input.
  __device__ float norm_input(std::int32_t i) const {
    const std::int32_t h = i / f_.head_dim;
    const std::int32_t e = i - h * f_.head_dim;
    return p_.norm.after_rotation ? rotated(h, e) : input(h, e);
  }

  __device__ void set_moments(const Moments& moments) { moments_ = moments; }

  /// Both elements of a pair as they are written.
  __device__ void finish_pair(std::int32_t h, std::int32_t pair, float& x, float& y) const {
    const PairOffsets from = offsets_of(p_.read, p_.rotary_offset, p_.pairs, pair);
    x = input(h, from.first);
    y = input(h, from.second);
    if (f_.normalizes && !p_.norm.after_rotation) {
      x = between(normalized(x, h, from.first));
      y = between(normalized(y, h, from.second));
    }
    rotate_pair(x, y, cos_[pair], sin_[pair]);
    if (f_.normalizes && p_.norm.after_rotation) {
      const PairOffsets to = offsets_of(p_.write, p_.rotary_offset, p_.pairs, pair);
      x = normalized(between(x), h, to.first);
      y = normalized(between(y), h, to.second);
    }
  }
  /// An element outside of the rotary slice.
  __device__ float finish_element(std::int32_t h, std::int32_t i) const {
    const float x = input(h, i);
    return f_.normalizes ? normalized(x, h, i) : x;
  }

 private:
  __device__ float between(float x) const {
    return p_.norm.rounds_between ? rounded<Element>(x) : x;
  }

  /// Element i, in the output pairing, of the rotated head.
  __device__ float rotated(std::int32_t h, std::int32_t i) const {
    const std::int32_t at = i - p_.rotary_offset;
    if (at < 0 || at >= 2 * pairs_) return input(h, i);
    const bool half = p_.write == Pairing::kHalf;
    const std::int32_t pair = half ? at % pairs_ : at / 2;
    const bool second = half ? at >= pairs_ : at % 2 == 1;
    const PairOffsets from = offsets_of(p_.read, p_.rotary_offset, p_.pairs, pair);
    float x = input(h, from.first);
    float y = input(h, from.second);
    rotate_pair(x, y, cos_[pair], sin_[pair]);
    return between(second ? y : x);
  }

  __device__ float normalized(float x, std::int32_t h, std::int32_t i) const {
    if (p_.norm.has_mean) x = add_rounded(x, -moments_.mean);
    float v = mul_rounded(x, moments_.scale);
    if (p_.norm.rounds_before_weight) v = rounded<Element>(v);
    const std::int32_t at = p_.norm.across_heads ? h * f_.head_dim + i : i;
    if (f_.weight != nullptr) {
      const float w = load_weight(f_.weight, f_.weight_type, at);
      v = mul_rounded(v, p_.norm.adds_one ? add_rounded(1.0f, w) : w);
    }
    if (f_.bias != nullptr) v = add_rounded(v, load_weight(f_.bias, f_.bias_type, at));
    return v;
  }

  const Params& p_;
  const OperandParams& o_;
  const FusedOperand& f_;
  const char* in_;
  const float* cos_;
  const float* sin_;
  std::int32_t pairs_;
  Moments moments_{0.0f, 1.0f};
};

/// Stores a head of `head_dim` elements of the type Element, given as floats. Called by a block of
/// whole warps; a warp handles a group of elements with a common scale.
template <class Element>
__device__ void store_head(const StoreParams& store, const StoredToken& token, std::int32_t head,
                           std::int32_t head_dim, const float* elements) {
  char* const to = token.data + head * store.head_stride;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  if (!is_quantized(store.type)) {
    for (std::int32_t i = thread; i < head_dim; i += threads) {
      reinterpret_cast<typename Element::Storage*>(to)[i] = Element::store(elements[i]);
    }
    return;
  }
  auto* const codes = reinterpret_cast<std::uint8_t*>(to);
  if (token.computed == nullptr) {
    const Quantizer quantize = given_quantizer(store, head);
    for (std::int32_t i = thread; i < head_dim; i += threads) {
      codes[i] = static_cast<std::uint8_t>(quantize(elements[i]));
    }
    return;
  }
  float* const scales = token.computed + head * store.computed_head;
  const std::int32_t n = head_dim / store.groups;
  const std::int32_t lane = thread % 32;
  for (std::int32_t g = thread / 32; g < store.groups; g += threads / 32) {
    const float* const group = elements + g * n;
    float max = 0.0f;
    for (std::int32_t i = lane; i < n; i += 32) max = max_magnitude(max, group[i]);
    for (int step = 16; step > 0; step /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
    const Quantizer quantize = computed_quantizer(store, max);
    if (lane == 0) scales[g * store.computed_group] = quantize.scale;
    for (std::int32_t i = lane; i < n; i += 32) {
      codes[g * n + i] = static_cast<std::uint8_t>(quantize(group[i]));
    }
  }
}

/// Upper bound of a block's threads; at least 64, and whole warps.
inline constexpr int kMaxFusedThreads = 256;

/// Block: threads that share the elements of a norm. Grid: [heads of all operands, or operands for
/// norms across heads][batch][tokens].
template <class Element, class Params>
__global__ void __launch_bounds__(kMaxFusedThreads) fused_heads(const __grid_constant__ Params p) {
  // [cos, sin][pairs], [kBlockSumFloats], then [maximum head_dim]
  extern __shared__ __align__(16) float memory[];
  if (p.overlaps) launch_dependent_grids();
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int64_t token = blockIdx.x;
  const std::int64_t batch = blockIdx.y;
  const auto group = static_cast<std::int32_t>(blockIdx.z);
  int k = 0;
  std::int32_t first = 0;  // head of the operand
  std::int32_t heads = 1;
  if (p.norm.across_heads) {
    k = group;
    heads = (k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads) - p.first_head[k];
  } else {
    while (k + 1 < p.num_operands && group >= p.first_head[k + 1]) ++k;
    first = group - p.first_head[k];
  }
  const OperandParams& o = p.operands[k];
  const FusedOperand& f = p.fused[k];
  const auto row_size = static_cast<std::int32_t>(padded_pairs(p.pair_count));
  float* const cos = memory;
  float* const sin = cos + row_size;
  float* const scratch = sin + row_size;
  float* const staged = scratch + kBlockSumFloats;
  wait_on_dependent_grids();

  const std::int64_t slot = f.store == kNoStore ? 0 : slot_of(p.slots, batch, token);
  if (slot < 0) return;  // the same for all threads
  if (f.rotates) {
    for (std::int32_t i = thread; i < p.pair_count; i += threads) {
      const CosSin<float> z = cos_sin_of<float>(p, batch, token, i);
      cos[i] = z.cos;
      sin[i] = z.sin;
    }
  }
  __syncthreads();

  const char* const in =
      static_cast<const char*>(o.in) + batch * o.in_batch + token * o.in_token + first * o.in_head;
  FusedHeads<Element, Params> norm_heads(p, k, in, cos, sin);
  if (f.normalizes) {
    const std::int32_t size = heads * f.head_dim;
    norm_heads.set_moments(
        moments_of(p.norm.has_mean, p.norm.eps, size, p.norm.sum_lanes, [&](const auto& add) {
          return block_sum(
              size, p.norm.sum_lanes, [&](std::int32_t i) { return norm_heads.norm_input(i); }, add,
              scratch);
        }));
  }
  const std::int32_t pairs = norm_heads.pairs();
  for (std::int32_t h = 0; h < heads; ++h) {
    for (std::int32_t i = thread; i < pairs; i += threads) {
      const PairOffsets to = offsets_of(p.write, p.rotary_offset, p.pairs, i);
      float x;
      float y;
      norm_heads.finish_pair(h, i, x, y);
      staged[to.first] = rounded<Element>(x);
      staged[to.second] = rounded<Element>(y);
    }
    for (std::int32_t i = thread; i < f.head_dim - 2 * pairs; i += threads) {
      const std::int32_t at = pairs == 0 || i < p.rotary_offset ? i : i + 2 * pairs;
      staged[at] = rounded<Element>(norm_heads.finish_element(h, at));
    }
    __syncthreads();
    if (f.store != kNoStore) {
      const StoreParams& store = p.stores[f.store];
      store_head<Element>(store, StoredToken(store, slot), first + h, f.head_dim, staged);
    } else {
      char* const out = static_cast<char*>(o.out) + batch * o.out_batch + token * o.out_token +
                        (first + h) * o.out_head;
      for (std::int32_t i = thread; i < f.head_dim; i += threads) {
        *reinterpret_cast<typename Element::Storage*>(out + i * o.out_element) =
            Element::store(staged[i]);
      }
    }
    __syncthreads();
  }
}

}  // namespace rotary::internal::cuda
