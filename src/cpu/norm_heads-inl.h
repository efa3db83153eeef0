// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: norms without rotation, for heads of any strides and norms of any scope. What
// norm_fused-inl.h does not take is normalised by these, and rotated by the engine of rotate().

#if defined(ROTARY_CPU_NORM_HEADS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_NORM_HEADS_INL_H
#undef ROTARY_CPU_NORM_HEADS_INL_H
#else
#define ROTARY_CPU_NORM_HEADS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/norm_sums-inl.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The elements of a head as floats.
template <class E>
HWY_INLINE void widen_head(const typename E::Storage* in, std::int64_t step, std::int64_t n,
                           float* to) {
  using W = typename WholeRegister<E>::Type;
  std::int64_t i = 0;
  if (kHasBlocks && step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + W::kVectors * lanes <= n; i += W::kVectors * lanes) {
      const auto v = W::load(d, in + i);
      if constexpr (W::kVectors == 2) {
        hn::StoreU(v.v0, d, to + i);
        hn::StoreU(v.v1, d, to + i + lanes);
      } else {
        hn::StoreU(v, d, to + i);
      }
    }
  }
  const OneTag<float> one;
  for (; i < n; ++i) hn::StoreU(E::load(one, in + i * step), one, to + i);
}

/// Rounds to the element type and converts back.
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE V rounded(D d, V v) {
  if constexpr (std::is_same_v<E, BFloat16>) {
    // To nearest even, as BFloat16EvenOdd does it: a NaN has a lower half of zeros.
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
#if HWY_ARCH_X86
    // Plus 0x7fff, or 0x8000 if odd: minus its negative, which AVX-512 forms from the shifted bits
    // in one instruction.
    const auto even = hn::AndNot(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto sum = hn::Sub(bits, hn::Or(even, hn::Set(du, 0xffff8000u)));
#else
    const auto odd = hn::VecFromMask(du, hn::TestBit(bits, hn::Set(du, 0x10000u)));  // -1 or 0
    const auto sum = hn::Sub(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
#endif
    return hn::BitCast(d, hn::And(sum, hn::Set(du, 0xffff0000u)));
  } else if constexpr (std::is_same_v<E, Float16>) {
    HWY_ALIGN std::uint16_t memory[kMaxLanes<D>];
#if ROTARY_CPU_HAS_FMA
    (void)memory;
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::DemoteTo(d16, v));
#else
    CachedWriter writer;
    Float16::store(writer, d, v, memory);
    return Float16::load(d, memory);
#endif
  } else {
    (void)d;
    return v;
  }
}

/// (x - mean) * scale * factor + bias, from left to right. Null: no factor, no bias. Scaled: the
/// type that it is rounded to before the factor; Float32 for none.
template <class Scaled>
struct ScaleElements {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x, std::int64_t i) const {
    if (has_mean) x = hn::Sub(x, hn::Set(d, mean));
    V v = rounded<Scaled>(d, hn::Mul(x, hn::Set(d, scale)));
    if (table.factors != nullptr) v = hn::Mul(v, hn::LoadU(d, table.factors + i));
    if (table.biases != nullptr) v = hn::Add(v, hn::LoadU(d, table.biases + i));
    return v;
  }
  bool has_mean;
  float mean, scale;
  NormTable table;
};

/// Scales and rounds the elements of a head.
template <class E, class Scaled = Float32>
HWY_INLINE void scale_head(const float* x, const ScaleElements<Scaled>& scaled, std::int64_t n,
                           typename E::Storage* out, std::int64_t step) {
  using W = typename WholeRegister<E>::Type;
  CachedWriter writer;
  std::int64_t i = 0;
  if (kHasBlocks && step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + W::kVectors * lanes <= n; i += W::kVectors * lanes) {
      const auto first = scaled(d, hn::LoadU(d, x + i), i);
      if constexpr (W::kVectors == 2) {
        const auto second = scaled(d, hn::LoadU(d, x + i + lanes), i + lanes);
        W::store(writer, d, Vec2<hn::Vec<decltype(d)>>{first, second}, out + i);
      } else {
        W::store(writer, d, first, out + i);
      }
    }
  }
  const OneTag<float> one;
  for (; i < n; ++i) {
    E::store(writer, one, scaled(one, hn::LoadU(one, x + i), i), out + i * step);
  }
}

/// The heads of a token, in groups that share a norm: one head, or all. `memory` holds a group.
template <class In, class Out, class Scaled>
void norm_token(const NormBlock& a, const typename In::Storage* in, typename Out::Storage* out,
                float* memory) {
  const std::int64_t together = a.norm.across_heads ? a.heads : 1;
  const std::int64_t size = together * a.head_dim;
  HeadMoments moments;
  for (std::int64_t first = 0; first < a.heads; first += together) {
    for (std::int64_t h = 0; h < together; ++h) {
      widen_head<In>(in + (first + h) * a.in_head_stride, a.in_step, a.head_dim,
                     memory + h * a.head_dim);
    }
    find_moments(memory, size, a.norm, moments);
    for (std::int64_t h = 0; h < together; ++h) {
      NormTable table = a.table;
      if (table.factors != nullptr) table.factors += h * a.head_dim;
      if (table.biases != nullptr) table.biases += h * a.head_dim;
      const ScaleElements<Scaled> scaled{a.norm.has_mean, moments.means[0], moments.scales[0],
                                         table};
      scale_head<Out>(memory + h * a.head_dim, scaled, a.head_dim,
                      out + (first + h) * a.out_head_stride, a.out_step);
    }
  }
}

template <class In, class Out, class Scaled = Float32>
void norm_heads(const NormBlock& a, float* memory) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    norm_token<In, Out, Scaled>(
        a, static_cast<const typename In::Storage*>(a.in) + t * a.in_token_stride,
        static_cast<typename Out::Storage*>(a.out) + t * a.out_token_stride, memory);
  }
}

/// The same elements in another type: to float32, or rounded from it.
template <class In, class Out>
void convert_heads(const NormBlock& a, float* memory) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const auto* in = static_cast<const typename In::Storage*>(a.in) + t * a.in_token_stride;
    auto* out = static_cast<typename Out::Storage*>(a.out) + t * a.out_token_stride;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      widen_head<In>(in + h * a.in_head_stride, a.in_step, a.head_dim, memory);
      scale_head<Out>(memory, {false, 0.0f, 1.0f, {}}, a.head_dim, out + h * a.out_head_stride,
                      a.out_step);
    }
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_NORM_HEADS_INL_H
