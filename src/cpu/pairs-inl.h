// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: pairs wherever they lie, for heads that are read in one pairing and written in the
// other, for elements apart, and for gradients.

#if defined(ROTARY_CPU_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_PAIRS_INL_H
#undef ROTARY_CPU_PAIRS_INL_H
#else
#define ROTARY_CPU_PAIRS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/turns-inl.h"
#include "cpu/vectors-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// x and y of the pairs from i on, as many as the tag has lanes; elements next to each other. For
/// kInterleaved the tag is a block or one lane.
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE void load_pairs(D d, Pairing pairing, const typename E::Storage* in, std::int64_t pairs,
                           std::int64_t i, V& x, V& y) {
  if (pairing == Pairing::kHalf) {
    x = E::load(d, in + i);
    y = E::load(d, in + pairs + i);
    return;
  }
  if constexpr (kMaxLanes<D> == 1) {
    x = E::load(d, in + 2 * i);
    y = E::load(d, in + 2 * i + 1);
  } else {
    const V low = E::load(d, in + 2 * i);
    const V high = E::load(d, in + 2 * i + static_cast<std::int64_t>(hn::Lanes(d)));
#if HWY_TARGET != HWY_SCALAR
    x = hn::ConcatEven(d, high, low);
    y = hn::ConcatOdd(d, high, low);
#endif
  }
}

template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE void store_pairs(D d, Pairing pairing, typename E::Storage* out, std::int64_t pairs,
                            std::int64_t i, V x, V y) {
  Cached way;
  if (pairing == Pairing::kHalf) {
    E::store(way, d, x, out + i);
    E::store(way, d, y, out + pairs + i);
    return;
  }
  if constexpr (kMaxLanes<D> == 1) {
    E::store(way, d, x, out + 2 * i);
    E::store(way, d, y, out + 2 * i + 1);
  } else {
#if HWY_TARGET != HWY_SCALAR
    E::store(way, d, hn::InterleaveLower(d, x, y), out + 2 * i);
    E::store(way, d, hn::InterleaveUpper(d, x, y),
             out + 2 * i + static_cast<std::int64_t>(hn::Lanes(d)));
#endif
  }
}

template <class E, class D>
std::int64_t turn_pairs(D d, const Slices<typename E::Storage>& a, Pairing read, Pairing write,
                        const Row<typename E::Compute>& row, std::int64_t i, std::int64_t h) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= a.pairs; i += lanes) {
    const V c = hn::LoadU(d, row.c + i);
    const V s = hn::LoadU(d, row.s + i);
    V x = c;
    V y = c;
    load_pairs<E>(d, read, a.in + h * a.in_stride, a.pairs, i, x, y);
    store_pairs<E>(d, write, a.out + h * a.out_stride, a.pairs, i,
                   fused_negative(d, y, s, hn::Mul(x, c)), fused(d, x, s, hn::Mul(y, c)));
  }
  return i;
}

template <class E>
void turn_one_by_one(const Slices<typename E::Storage>& a, Pairing read, Pairing write,
                     const Row<typename E::Compute>& row, std::int64_t h) {
  using T = typename E::Compute;
  const OneTag<T> d;
  using V = hn::Vec<decltype(d)>;
  Cached way;
  for (std::int64_t i = 0; i < a.pairs; ++i) {
    const auto at = [i, &a](Pairing pairing, std::int64_t member) {
      return pairing == Pairing::kHalf ? i + member * a.pairs : 2 * i + member;
    };
    const auto* in = a.in + h * a.in_stride;
    auto* out = a.out + h * a.out_stride;
    const V c = hn::LoadU(d, row.c + i);
    const V s = hn::LoadU(d, row.s + i);
    const V x = E::load(d, in + at(read, 0) * a.in_step);
    const V y = E::load(d, in + at(read, 1) * a.in_step);
    E::store(way, d, fused_negative(d, y, s, hn::Mul(x, c)), out + at(write, 0) * a.out_step);
    E::store(way, d, fused(d, x, s, hn::Mul(y, c)), out + at(write, 1) * a.out_step);
  }
}

/// Two pairings, or elements apart. In place with two pairings a pair's targets are another pair's
/// sources, so a head is written elsewhere first.
template <class E>
void turn_any(const Heads& heads, const Row<typename E::Compute>& row) {
  using Storage = typename E::Storage;
  const Slices<Storage> a = heads.as<Storage>();
  const Pairing read = heads.read;
  const Pairing write = heads.write;
  auto* slice = static_cast<Storage*>(heads.room);
  const bool through_slice = read != write && a.in == a.out;
  const std::int64_t size = 2 * a.pairs;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    Slices<Storage> one = a;
    one.in += h * a.in_stride;
    one.out = through_slice ? slice : a.out + h * a.out_stride;
    if (through_slice) one.out_step = 1;
    if (one.in_step == 1 && one.out_step == 1) {
      std::int64_t i = 0;
      if constexpr (kHasBlocks) {
        i = turn_pairs<E>(BlockTag<typename E::Compute>(), one, read, write, row, i, 0);
      }
      turn_pairs<E>(OneTag<typename E::Compute>(), one, read, write, row, i, 0);
    } else {
      turn_one_by_one<E>(one, read, write, row, 0);
    }
    if (!through_slice) continue;
    Storage* out = a.out + h * a.out_stride;
    if (a.out_step == 1) {
      std::copy_n(slice, size, out);
    } else {
      for (std::int64_t i = 0; i < size; ++i) out[i * a.out_step] = slice[i];
    }
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_PAIRS_INL_H
