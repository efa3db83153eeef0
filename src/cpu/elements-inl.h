// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the element types. Each loads into its arithmetic type and stores with one rounding,
// as support/half.h defines it.

#if defined(ROTARY_CPU_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ELEMENTS_INL_H
#undef ROTARY_CPU_ELEMENTS_INL_H
#else
#define ROTARY_CPU_ELEMENTS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cpu/vectors-inl.h"
#include "support/half.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

// The ways of a vector of results to memory: each a function of the tag, the vector and where to.
// One that carries (shift-inl.h) holds something from one vector to the next.

/// By ordinary stores, anywhere.
struct Cached {
  static constexpr bool kCarries = false;
  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, hn::TFromD<D>* to) const {
    hn::StoreU(v, d, to);
  }
};

/// Past the caches, whole vectors to aligned addresses.
struct Streamed {
  static constexpr bool kCarries = false;
  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, hn::TFromD<D>* to) const {
    hn::Stream(v, d, to);
  }
};

/// Only x86 has such stores; see plan.cc.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
inline constexpr bool kHasStreams = true;
using StreamedIfAny = Streamed;
#else
inline constexpr bool kHasStreams = false;
using StreamedIfAny = Cached;
#endif

template <typename T>
struct PlainElement {
  using Storage = T;
  using Compute = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class Way, class D>
  static HWY_INLINE void store(Way& way, D d, hn::Vec<D> v, T* to) {
    way(d, v, to);
  }
};
using Float32 = PlainElement<float>;
using Float64 = PlainElement<double>;

struct BFloat16 {
  using Storage = std::uint16_t;
  using Compute = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  }
  template <class Way, class D>
  static HWY_INLINE void store(Way& way, D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    // NaN keeps its upper bits and becomes quiet; rounding could carry it away.
    const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
    const auto number = hn::RebindMask(du, hn::Eq(v, v));
    const auto upper = hn::ShiftRight<16>(hn::IfThenElse(number, rounded, quiet));
    way(d16, hn::DemoteTo(d16, hn::BitCast(di, upper)), to);
  }
};

struct Float16 {
  using Storage = std::uint16_t;
  using Compute = float;
#if ROTARY_CPU_HAS_FMA
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<std::uint16_t, D> du16;
    return hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(du16, from)));
  }
  template <class Way, class D>
  static HWY_INLINE void store(Way& way, D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<std::uint16_t, D> du16;
    way(du16, hn::BitCast(du16, hn::DemoteTo(d16, v)), to);
  }
#else  // no instruction for it that rounds to nearest even
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    HWY_ALIGN float values[kMaxLanes<D>];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = from_float16(from[i]);
    return hn::LoadU(d, values);
  }
  template <class Way, class D>
  static HWY_INLINE void store(Way& /*way*/, D d, hn::Vec<D> v, std::uint16_t* to) {
    HWY_ALIGN float values[kMaxLanes<D>];
    hn::StoreU(v, d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = to_float16(values[i]);
  }
#endif
};

#if HWY_TARGET == HWY_NEON
// NEON's narrow types again, as many as fill a register: they become two vectors of floats, and two
// become one. Each instruction that converts takes one half.

/// What the results of two instructions are held in.
template <class V>
struct Two {
  V low, high;
};

struct WideFloat16 : Float16 {
  using Narrow = Float16;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Two<V> load_two(D /*d*/, const std::uint16_t* from) {
    const float16x8_t both = vreinterpretq_f16_u16(vld1q_u16(from));
    return {V(vcvt_f32_f16(vget_low_f16(both))), V(vcvt_high_f32_f16(both))};
  }
  template <class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store_two(Way& way, D /*d*/, V low, V high, std::uint16_t* to) {
    const hn::Repartition<std::uint16_t, D> d16;
    const float16x8_t both = vcvt_high_f16_f32(vcvt_f16_f32(low.raw), high.raw);
    way(d16, hn::Vec<decltype(d16)>(vreinterpretq_u16_f16(both)), to);
  }
};

// By the instructions of newer machines.

struct NewerWideFloat16 : WideFloat16 {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Two<V> load_two(D /*d*/, const std::uint16_t* from) {
    const uint16x8_t both = vld1q_u16(from);
    return {V(widen_low(both)), V(widen_high(both))};
  }
};

struct WideBFloat16 : BFloat16 {
  using Narrow = BFloat16;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Two<V> load_two(D d, const std::uint16_t* from) {
    const hn::Repartition<std::uint16_t, D> d16;
    const auto both = hn::LoadU(d16, from);
    return {hn::BitCast(d, hn::InterleaveLower(d16, hn::Zero(d16), both)),
            hn::BitCast(d, hn::InterleaveUpper(d16, hn::Zero(d16), both))};
  }
  template <class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store_two(Way& way, D /*d*/, V low, V high, std::uint16_t* to) {
    const hn::Repartition<std::uint16_t, D> d16;
    uint16x8_t both = round_to_bfloat16(low.raw);
    asm(ROTARY_CPU_NEWER_ARM "bfcvtn2 %0.8h, %1.4s" : "+w"(both) : "w"(high.raw));
    way(d16, hn::Vec<decltype(d16)>(both), to);
  }
};
#endif

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ELEMENTS_INL_H
