// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: results that begin anywhere, sent past the caches straight from registers. Streaming
// stores want aligned vectors, so each vector of results is cut in two: its first part fills up
// what the one before left over, its second waits for the next.
//   results   |  v0  |  v1  |  v2  |        begin `offset` bytes past a vector
//   memory   |  |  v0  |  v1  |  v2  |

#if defined(ROTARY_CPU_SHIFT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_SHIFT_INL_H
#undef ROTARY_CPU_SHIFT_INL_H
#else
#define ROTARY_CPU_SHIFT_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/vectors-inl.h"

// One instruction picks any lanes of two vectors.
#undef ROTARY_CPU_HAS_SHIFTS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define ROTARY_CPU_HAS_SHIFTS 1
#else
#define ROTARY_CPU_HAS_SHIFTS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Between the heads of one token and those of the next.
struct Shift {
  static constexpr std::int64_t kMostBytes = 64;

  /// The results up to `to` have been written by ordinary stores, a vector of `bytes` at least.
  void begin(char* to, std::int64_t bytes) {
    next = to;
    offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to)) & (bytes - 1);
    size = bytes;
    std::memcpy(carry, to - bytes, static_cast<std::size_t>(bytes));
    const auto lanes = static_cast<std::uint32_t>(bytes / 4);
    for (std::uint32_t i = 0; i < lanes; ++i) {
      indices[i] = lanes - static_cast<std::uint32_t>(offset / 4) + i;
    }
  }
  /// By ordinary stores: others may own what follows.
  void finish() {
    if (next == nullptr) return;
    const char* const end = reinterpret_cast<const char*>(carry) + size;
    std::copy(end - offset, end, next - offset);
    next = nullptr;
  }

  char* next;           // where results go on; null: nothing waits
  std::int64_t offset;  // of `next` in its vector
  std::int64_t size;    // of a vector
  alignas(kMostBytes) std::uint32_t carry[kMostBytes / 4];    // the vector written last
  alignas(kMostBytes) std::uint32_t indices[kMostBytes / 4];  // of an aligned vector, in two
};

#if ROTARY_CPU_HAS_SHIFTS
/// Lanes of `a` followed by `b`; Highway has no name for it.
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

/// The way to memory of vectors of kBytes that follow each other, from Shift::next on.
template <std::size_t kBytes>
class Shifted {
 public:
  static constexpr bool kCarries = true;

  HWY_INLINE void begin(const Shift& shift) {
    carry_ = hn::Load(Words(), shift.carry);
    indices_ = hn::Load(Words(), shift.indices);
    offset_ = shift.offset;
  }
  HWY_INLINE void end(Shift& shift) const { hn::Store(carry_, Words(), shift.carry); }

  template <class D>
  HWY_INLINE void operator()(D /*d*/, hn::Vec<D> v, hn::TFromD<D>* to) {
    const Words d;
    const auto now = hn::BitCast(d, v);
    char* const place = reinterpret_cast<char*>(to) - offset_;
    hn::Stream(lanes_of_two(carry_, now, indices_), d, reinterpret_cast<std::uint32_t*>(place));
    carry_ = now;
  }

 private:
  using Words = hn::CappedTag<std::uint32_t, kBytes / 4>;

  hn::Vec<Words> carry_;
  hn::Vec<Words> indices_;
  std::int64_t offset_;
};

#endif  // ROTARY_CPU_HAS_SHIFTS

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_SHIFT_INL_H
