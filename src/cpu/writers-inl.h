// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: writers, the store policies of results. A writer is called with a tag, a vector and
// its address.
//   CachedWriter            ordinary stores, any address
//   StreamWriter            non-temporal stores, aligned addresses
//   RealignedStreamWriter   non-temporal stores of consecutive vectors from any address on
// The last one carries part of a vector from one call to the next (kHasState).

#if defined(ROTARY_CPU_WRITERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_WRITERS_INL_H
#undef ROTARY_CPU_WRITERS_INL_H
#else
#define ROTARY_CPU_WRITERS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cpu/realign_state.h"
#include "cpu/vectors-inl.h"

// AVX-512 selects any lanes of two vectors in one instruction.
#undef ROTARY_CPU_HAS_REALIGN
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define ROTARY_CPU_HAS_REALIGN 1
#else
#define ROTARY_CPU_HAS_REALIGN 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

struct CachedWriter {
  static constexpr bool kHasState = false;
  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, hn::TFromD<D>* to) const {
    hn::StoreU(v, d, to);
  }
};

struct StreamWriter {
  static constexpr bool kHasState = false;
  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, hn::TFromD<D>* to) const {
    hn::Stream(v, d, to);
  }
};

/// Only x86 has non-temporal stores that pay off; see plan.cc.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
inline constexpr bool kHasStreamStores = true;
using StreamWriterIfAny = StreamWriter;
#else
inline constexpr bool kHasStreamStores = false;
using StreamWriterIfAny = CachedWriter;
#endif

#if ROTARY_CPU_HAS_REALIGN
/// Lanes of [a, b] by index; Highway does not wrap this permutation.
HWY_INLINE hn::Vec512<std::uint32_t> lanes_of_two(hn::Vec512<std::uint32_t> a,
                                                  hn::Vec512<std::uint32_t> b,
                                                  hn::Vec512<std::uint32_t> indices) {
  return hn::Vec512<std::uint32_t>{_mm512_permutex2var_epi32(a.raw, indices.raw, b.raw)};
}
HWY_INLINE hn::Vec256<std::uint32_t> lanes_of_two(hn::Vec256<std::uint32_t> a,
                                                  hn::Vec256<std::uint32_t> b,
                                                  hn::Vec256<std::uint32_t> indices) {
  return hn::Vec256<std::uint32_t>{_mm256_permutex2var_epi32(a.raw, indices.raw, b.raw)};
}

/// Vectors of kBytes, consecutive from RealignState::next on.
template <std::size_t kBytes>
class RealignedStreamWriter {
 public:
  static constexpr bool kHasState = true;

  HWY_INLINE void load(const RealignState& state) {
    carry_ = hn::Load(Words(), state.carry);
    indices_ = hn::Load(Words(), state.indices);
    offset_ = state.offset;
  }
  HWY_INLINE void save(RealignState& state) const { hn::Store(carry_, Words(), state.carry); }

  template <class D>
  HWY_INLINE void operator()(D /*d*/, hn::Vec<D> v, hn::TFromD<D>* to) {
    const Words d;
    const auto now = hn::BitCast(d, v);
    char* const aligned = reinterpret_cast<char*>(to) - offset_;
    hn::Stream(lanes_of_two(carry_, now, indices_), d, reinterpret_cast<std::uint32_t*>(aligned));
    carry_ = now;
  }

 private:
  using Words = hn::CappedTag<std::uint32_t, kBytes / 4>;

  hn::Vec<Words> carry_;
  hn::Vec<Words> indices_;
  std::int64_t offset_;
};
#endif  // ROTARY_CPU_HAS_REALIGN

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_WRITERS_INL_H
