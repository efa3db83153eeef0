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

/// How a result goes to memory. kStream goes past the caches, whole vectors to aligned addresses.
enum class StoreMode : std::uint8_t { kCached, kStream };

/// What a streaming store is here. Only x86 has them; see plan.cc.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
inline constexpr StoreMode kStreams = StoreMode::kStream;
#else
inline constexpr StoreMode kStreams = StoreMode::kCached;
#endif

template <typename T>
struct PlainElement {
  using Storage = T;
  using Compute = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <StoreMode kMode, class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    if constexpr (kMode == StoreMode::kStream) {
      hn::Stream(v, d, to);
    } else {
      hn::StoreU(v, d, to);
    }
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
  template <StoreMode kMode, class D>
  static HWY_INLINE void store(D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
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
    const auto narrow = hn::DemoteTo(d16, hn::BitCast(di, upper));
    if constexpr (kMode == StoreMode::kStream) {
      hn::Stream(narrow, d16, to);
    } else {
      hn::StoreU(narrow, d16, to);
    }
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
  template <StoreMode kMode, class D>
  static HWY_INLINE void store(D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<std::uint16_t, D> du16;
    const auto narrow = hn::BitCast(du16, hn::DemoteTo(d16, v));
    if constexpr (kMode == StoreMode::kStream) {
      hn::Stream(narrow, du16, to);
    } else {
      hn::StoreU(narrow, du16, to);
    }
  }
#else  // no instruction for it that rounds to nearest even
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    HWY_ALIGN float values[kMaxLanes<D>];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = from_float16(from[i]);
    return hn::LoadU(d, values);
  }
  template <StoreMode kMode, class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint16_t* to) {
    HWY_ALIGN float values[kMaxLanes<D>];
    hn::StoreU(v, d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = to_float16(values[i]);
  }
#endif
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ELEMENTS_INL_H
