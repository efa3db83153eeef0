// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the general kernel, for heads whose output pairing differs from the input pairing or
// whose elements are strided; and the loads of pairs that gradients share with it.

#if defined(ROTARY_CPU_ROTATE_STRIDED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROTATE_STRIDED_INL_H
#undef ROTARY_CPU_ROTATE_STRIDED_INL_H
#else
#define ROTARY_CPU_ROTATE_STRIDED_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Pairs i, i + 1, ..., one per lane, of contiguous elements. For kInterleaved the tag is a block
/// or one lane.
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE Pairs<V> load_pairs(D d, Pairing pairing, const typename E::Storage* in,
                               std::int64_t pairs, std::int64_t i) {
  if (pairing == Pairing::kHalf) return {E::load(d, in + i), E::load(d, in + pairs + i)};
  const V v0 = E::load(d, in + 2 * i);
  const V v1 = E::load(d, in + 2 * i + static_cast<std::int64_t>(hn::Lanes(d)));
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kMaxLanes<D> > 1) return {hn::ConcatEven(d, v1, v0), hn::ConcatOdd(d, v1, v0)};
#endif
  return {v0, v1};
}

template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE void store_pairs(D d, Pairing pairing, const Pairs<V>& v, typename E::Storage* out,
                            std::int64_t pairs, std::int64_t i) {
  CachedWriter writer;
  if (pairing == Pairing::kHalf) {
    E::store(writer, d, v.x, out + i);
    E::store(writer, d, v.y, out + pairs + i);
    return;
  }
  Vec2<V> interleaved{v.x, v.y};
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kMaxLanes<D> > 1) {
    interleaved = {hn::InterleaveLower(d, v.x, v.y), hn::InterleaveUpper(d, v.x, v.y)};
  }
#endif
  E::store(writer, d, interleaved.v0, out + 2 * i);
  E::store(writer, d, interleaved.v1, out + 2 * i + static_cast<std::int64_t>(hn::Lanes(d)));
}

/// One pair of elements that lie `step` apart.
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE Pairs<V> load_strided_pair(D d, Pairing pairing, const typename E::Storage* in,
                                      std::int64_t step, std::int64_t pairs, std::int64_t i) {
  const bool half = pairing == Pairing::kHalf;
  return {E::load(d, in + (half ? i : 2 * i) * step),
          E::load(d, in + (half ? i + pairs : 2 * i + 1) * step)};
}

/// cos and sin of the pairs i, i + 1, ..., one per lane.
template <class D, typename T, class V = hn::Vec<D>>
HWY_INLINE Rotation<V> load_rotation(D d, const RotationRow<T>& row, std::int64_t i) {
  return {hn::LoadU(d, row.c + i), hn::LoadU(d, row.s + i)};
}

/// The pairs of one head from i on that fill vectors of this tag; contiguous elements. Returns the
/// first pair that is left.
template <class E, class D>
std::int64_t rotate_head(D d, const HeadSlices<typename E::Storage>& a, Pairing read, Pairing write,
                         const RotationRow<typename E::Compute>& row, std::int64_t i) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= a.pairs; i += lanes) {
    const auto v = load_pairs<E>(d, read, a.in, a.pairs, i);
    const auto rotated = rotate_pairs(d, load_rotation(d, row, i), v);
    store_pairs<E>(d, write, rotated, a.out, a.pairs, i);
  }
  return i;
}

/// One head of strided elements.
template <class E>
void rotate_strided_head(const HeadSlices<typename E::Storage>& a, Pairing read, Pairing write,
                         const RotationRow<typename E::Compute>& row) {
  const OneTag<typename E::Compute> d;
  CachedWriter writer;
  const bool half = write == Pairing::kHalf;
  for (std::int64_t i = 0; i < a.pairs; ++i) {
    const auto v = load_strided_pair<E>(d, read, a.in, a.in_step, a.pairs, i);
    const auto rotated = rotate_pairs(d, load_rotation(d, row, i), v);
    E::store(writer, d, rotated.x, a.out + (half ? i : 2 * i) * a.out_step);
    E::store(writer, d, rotated.y, a.out + (half ? i + a.pairs : 2 * i + 1) * a.out_step);
  }
}

/// Any pairings and strides. In place, with different pairings, the outputs of a pair overwrite
/// inputs of another, so that a head is written to scratch memory first.
template <class E>
void rotate_strided_token(const TokenHeads& heads, const char* in, char* out,
                          const RotationRow<typename E::Compute>& row) {
  using Storage = typename E::Storage;
  const HeadSlices<Storage> a = heads.as<Storage>(in, out);
  const Pairing read = heads.read;
  const Pairing write = heads.write;
  auto* scratch = static_cast<Storage*>(heads.scratch);
  const bool uses_scratch = read != write && a.in == a.out;
  const std::int64_t size = 2 * a.pairs;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    Storage* const to = a.out + h * a.out_stride;
    HeadSlices<Storage> head = a;
    head.in += h * a.in_stride;
    head.out = uses_scratch ? scratch : to;
    if (uses_scratch) head.out_step = 1;
    if (head.in_step == 1 && head.out_step == 1) {
      std::int64_t i = 0;
      if constexpr (kHasBlocks) {
        i = rotate_head<E>(BlockTag<typename E::Compute>(), head, read, write, row, i);
      }
      rotate_head<E>(OneTag<typename E::Compute>(), head, read, write, row, i);
    } else {
      rotate_strided_head<E>(head, read, write, row);
    }
    if (!uses_scratch) continue;
    if (a.out_step == 1) {
      std::copy_n(scratch, size, to);
    } else {
      for (std::int64_t i = 0; i < size; ++i) to[i * a.out_step] = scratch[i];
    }
  }
}

template <class E>
void rotate_strided(const TokenHeads& heads, const char* in, char* out,
                    const RotationRow<typename E::Compute>* rows, std::int64_t count) {
  for (const auto* const stop = rows + count; rows != stop; ++rows) {
    rotate_strided_token<E>(heads, in, out, *rows);
    in += heads.in_token_bytes;
    out += heads.out_token_bytes;
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROTATE_STRIDED_INL_H
