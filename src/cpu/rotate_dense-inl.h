// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the fast kernels, for heads with contiguous elements and equal input and output
// pairing. A head is cut into columns of vectors. The heads of a token are rotated column by column
// (all heads of some columns, then the next columns) or head by head.

#if defined(ROTARY_CPU_ROTATE_DENSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROTATE_DENSE_INL_H
#undef ROTARY_CPU_ROTATE_DENSE_INL_H
#else
#define ROTARY_CPU_ROTATE_DENSE_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/pair_policies-inl.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

/// What inputs are prefetched for: not at all, for loads, for loads and stores (in place).
enum class Prefetch : std::uint8_t { kNone, kRead, kWrite };

/// Hardware prefetchers of x86 stop at the end of a page and follow the two halves of a head less
/// well than one stream. On other targets, kRead only selects the order of large calls, by head.
inline constexpr bool kHasPrefetch = HWY_ARCH_X86 && kHasVectors;

/// prefetchw requests a line with ownership, which saves a second request when it is stored to.
/// Every CPU with AVX-512 has it; Highway does not wrap it.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && !HWY_COMPILER_MSVC
inline constexpr Prefetch kPrefetchInPlace = Prefetch::kWrite;
#else
inline constexpr Prefetch kPrefetchInPlace = Prefetch::kRead;
#endif

template <Prefetch kPrefetch>
HWY_INLINE void prefetch_line(const char* line) {
#if HWY_ARCH_X86
  if constexpr (kPrefetch == Prefetch::kWrite) {
    asm volatile("prefetchw %0" : : "m"(*line));
    return;
  }
#endif
  hwy::Prefetch(line);
}

/// Prefetches `bytes` at a fixed distance; 5 KiB was the best of 1 to 16 KiB.
template <Prefetch kPrefetch, typename Storage>
HWY_INLINE void prefetch_ahead(const Storage* in, std::int64_t bytes) {
  if constexpr (kPrefetch != Prefetch::kNone && kHasPrefetch) {
    constexpr std::int64_t kDistance = 5120;
    constexpr std::int64_t kLineBytes = 64;
    const char* from = reinterpret_cast<const char*>(in) + kDistance;
    for (std::int64_t at = 0; at < bytes; at += kLineBytes) prefetch_line<kPrefetch>(from + at);
  }
}

/// Elements of a run in one column.
template <class Policy, class D>
HWY_INLINE std::int64_t column_width(D d) {
  return Policy::kElementsPerLane * static_cast<std::int64_t>(hn::Lanes(d));
}

template <class Policy, std::size_t kCount, Prefetch kPrefetch, class D>
HWY_INLINE void prefetch_columns(D /*d*/, const typename Policy::Storage* in, std::int64_t pairs) {
  constexpr std::size_t kElements = kCount * kMaxLanes<D> * Policy::kElementsPerLane;
  constexpr auto kBytes = static_cast<std::int64_t>(kElements * sizeof(*in));
  prefetch_ahead<kPrefetch>(in, kBytes);
  if constexpr (Policy::kRuns == 2) prefetch_ahead<kPrefetch>(in + pairs, kBytes);
}

/// Run after run: stores that cross cache lines are fast only where they are consecutive.
template <class Policy, class Writer, class D, class Data, std::size_t... kColumns>
HWY_INLINE void store_columns(Writer& writer, D d, const Data* data, typename Policy::Storage* out,
                              std::int64_t pairs, std::index_sequence<kColumns...> /*columns*/) {
  const std::int64_t width = column_width<Policy>(d);
  (Policy::template store<0>(writer, d, data[kColumns],
                             out + static_cast<std::int64_t>(kColumns) * width, pairs),
   ...);
  if constexpr (Policy::kRuns == 2) {
    (Policy::template store<1>(writer, d, data[kColumns],
                               out + static_cast<std::int64_t>(kColumns) * width, pairs),
     ...);
  }
}

/// Columns from element i on, of all heads. Their cos and sin stay in registers.
template <class Policy, Prefetch kPrefetch, class Writer, class D, std::size_t... kColumns>
HWY_INLINE void rotate_columns(Writer& writer, D d, const HeadSlices<typename Policy::Storage> a,
                               const RotationRow<typename Policy::T>& row, std::int64_t i,
                               std::index_sequence<kColumns...> /*columns*/) {
  using V = hn::Vec<D>;
  const std::int64_t width = column_width<Policy>(d);
  const typename Policy::template Table<V> z[] = {
      Policy::table(d, row, i + static_cast<std::int64_t>(kColumns) * width)...};
  const auto* in = a.in + i;
  auto* out = a.out + i;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    prefetch_columns<Policy, sizeof...(kColumns), kPrefetch>(d, in, a.pairs);
    const typename Policy::template Data<V> data[] = {
        Policy::load(d, in + static_cast<std::int64_t>(kColumns) * width, a.pairs)...};
    const typename Policy::template Data<V> rotated[] = {
        Policy::rotate(d, z[kColumns], data[kColumns])...};
    store_columns<Policy>(writer, d, rotated, out, a.pairs, std::index_sequence<kColumns...>());
  }
}

template <class Policy, std::size_t kCount, Prefetch kPrefetch, class Writer, class D>
void rotate_columns(Writer& writer, D d, const HeadSlices<typename Policy::Storage>& a,
                    const RotationRow<typename Policy::T>& row, std::int64_t i) {
  rotate_columns<Policy, kPrefetch>(writer, d, a, row, i, std::make_index_sequence<kCount>());
}

/// Column by column: the elements from i to `end` that fill columns of this tag, up to kMaxColumns
/// at a time. Returns the first element that is left.
template <class Policy, std::size_t kMaxColumns, Prefetch kPrefetch, class Writer, class D>
std::int64_t rotate_by_column(Writer writer, D d, const HeadSlices<typename Policy::Storage>& a,
                              const RotationRow<typename Policy::T>& row, std::int64_t i,
                              std::int64_t end) {
  const std::int64_t width = column_width<Policy>(d);
  if constexpr (kMaxColumns >= 4) {
    for (; i + 4 * width <= end; i += 4 * width) {
      rotate_columns<Policy, 4, kPrefetch>(writer, d, a, row, i);
    }
    for (; i + 2 * width <= end; i += 2 * width) {
      rotate_columns<Policy, 2, kPrefetch>(writer, d, a, row, i);
    }
  }
  for (; i + width <= end; i += width) rotate_columns<Policy, 1, kPrefetch>(writer, d, a, row, i);
  return i;
}

/// A tile of kCount columns from element i on, of sizeof...(kTile) / kCount heads. cos and sin are
/// loaded once for these heads.
template <class Policy, std::size_t kCount, class Writer, class D, std::size_t... kTile>
HWY_INLINE void rotate_tile(Writer& writer, D d, const HeadSlices<typename Policy::Storage>& a,
                            const RotationRow<typename Policy::T>& row, std::int64_t i,
                            const typename Policy::Storage* in, typename Policy::Storage* out,
                            std::index_sequence<kTile...> /*tile*/) {
  using V = hn::Vec<D>;
  const std::int64_t width = column_width<Policy>(d);
  const auto column = [i, width](std::size_t index) HWY_ATTR {
    return i + static_cast<std::int64_t>(index % kCount) * width;
  };
  const auto head = [](std::size_t index) { return static_cast<std::int64_t>(index / kCount); };
  const typename Policy::template Data<V> data[] = {
      Policy::load(d, in + head(kTile) * a.in_stride + column(kTile), a.pairs)...};
  const typename Policy::template Data<V> rotated[] = {
      Policy::rotate(d, Policy::table(d, row, column(kTile)), data[kTile])...};
  for (std::size_t first = 0; first < sizeof...(kTile); first += kCount) {
    store_columns<Policy>(writer, d, rotated + first, out + head(first) * a.out_stride + i, a.pairs,
                          std::make_index_sequence<kCount>());
  }
}

/// Head by head, kHeads at a time, so that a cache line is used up before the next is loaded.
/// Otherwise as rotate_by_column().
template <class Policy, std::size_t kHeads, Prefetch kPrefetch, class Writer, class D>
std::int64_t rotate_by_head(Writer writer, D d, const HeadSlices<typename Policy::Storage>& a,
                            const RotationRow<typename Policy::T>& row, std::int64_t begin,
                            std::int64_t end) {
  constexpr auto kStep = static_cast<std::int64_t>(kHeads);
  const std::int64_t width = column_width<Policy>(d);
  const std::int64_t stop = begin + (end - begin) / width * width;
  const auto* in = a.in;
  auto* out = a.out;
  std::int64_t h = 0;
  for (; h + kStep <= a.heads; h += kStep, in += kStep * a.in_stride, out += kStep * a.out_stride) {
    prefetch_ahead<kPrefetch>(in, 2 * a.pairs * static_cast<std::int64_t>(sizeof(*in)));
    std::int64_t i = begin;
    for (; i + 4 * width <= stop; i += 4 * width) {
      rotate_tile<Policy, 4>(writer, d, a, row, i, in, out, std::make_index_sequence<4 * kHeads>());
    }
    for (; i < stop; i += width) {
      rotate_tile<Policy, 1>(writer, d, a, row, i, in, out, std::make_index_sequence<kHeads>());
    }
  }
  if constexpr (kHeads > 1) {
    HeadSlices<typename Policy::Storage> rest = a;
    rest.in = in;
    rest.out = out;
    rest.heads = a.heads - h;
    rotate_by_head<Policy, 1, kPrefetch>(writer, d, rest, row, begin, end);
  }
  return stop;
}

/// Heads per tile. NEON's short vectors are limited by loads of cos and sin, which two heads share,
/// except where elements are converted.
template <class Policy>
inline constexpr std::size_t kHeadsPerTile = HWY_ARCH_X86 || Policy::kElementsPerLane > 1 ? 1 : 2;

/// The pairs from element i on, one at a time.
template <class E, Pairing kPairing>
void rotate_tail(const HeadSlices<typename E::Storage>& a,
                 const RotationRow<typename E::Compute>& row, std::int64_t i) {
  using Policy = HalfPairs<E>;
  CachedWriter writer;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  const OneTag<typename E::Compute> one;
  const std::int64_t distance = kHalf ? a.pairs : 1;  // from x to y
  for (std::int64_t pair = kHalf ? i : i / 2; pair < a.pairs; ++pair) {
    const auto z = Policy::table(one, row, pair);
    const std::int64_t at = kHalf ? pair : 2 * pair;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      auto* out = a.out + h * a.out_stride + at;
      const auto v =
          Policy::rotate(one, z, Policy::load(one, a.in + h * a.in_stride + at, distance));
      Policy::template store<0>(writer, one, v, out, distance);
      Policy::template store<1>(writer, one, v, out, distance);
    }
  }
}

/// Heads of any size: full vectors first, then 16-byte blocks, then single pairs.
template <class Policy, class Writer, Pairing kPairing, Prefetch kPrefetch>
void rotate_dense(const TokenHeads& heads, const RotationRow<typename Policy::T>& row) {
  using T = typename Policy::T;
  const HeadSlices<typename Policy::Storage> a = heads.as<typename Policy::Storage>();
  std::int64_t i = 0;
  if constexpr (kHasBlocks) {
    const FullTag<T> full;
    const std::int64_t end = Policy::end(a.pairs);
    if constexpr (!kHasVectors) {
      i = rotate_by_column<Policy, 1, Prefetch::kNone>(CachedWriter(), full, a, row, i, end);
    } else if (kPrefetch == Prefetch::kNone || end <= 4 * column_width<Policy>(full)) {
      i = rotate_by_column<Policy, 4, kPrefetch>(Writer(), full, a, row, i, end);
    } else {
      i = rotate_by_head<Policy, kHeadsPerTile<Policy>, kPrefetch>(Writer(), full, a, row, i, end);
    }
    if constexpr (kMaxLanes<FullTag<T>> > kMaxLanes<BlockTag<T>>) {
      const BlockTag<T> block;
      i = rotate_by_column<Policy, 1, Prefetch::kNone>(CachedWriter(), block, a, row, i, end);
    }
  }
  rotate_tail<typename Policy::Tail, kPairing>(a, row, i);
}

/// Heads of exactly kCount columns, as most are.
template <class Policy, class Writer, std::size_t kCount, Prefetch kPrefetch>
void rotate_whole_columns(const TokenHeads& heads, const RotationRow<typename Policy::T>& row) {
  Writer writer;
  if constexpr (Writer::kHasState) writer.load(*heads.realign);
  rotate_columns<Policy, kPrefetch>(writer, FullTag<typename Policy::T>(),
                                    heads.as<typename Policy::Storage>(), row, 0,
                                    std::make_index_sequence<kCount>());
  if constexpr (Writer::kHasState) writer.save(*heads.realign);
}

/// Null if no kernel for whole columns fits heads of `pairs`.
template <class Policy, class Writer, Pairing kPairing, Prefetch kPrefetch>
RotateHeads<typename Policy::T> choose_whole_columns(std::int64_t pairs) {
  using Full = FullTag<typename Policy::T>;
  if constexpr (kHasVectors) {
    const std::int64_t width = column_width<Policy>(Full());
    const std::int64_t end = Policy::end(pairs);
    if (end == width) return rotate_whole_columns<Policy, Writer, 1, kPrefetch>;
    if (end == 2 * width) return rotate_whole_columns<Policy, Writer, 2, kPrefetch>;
    if (end == 4 * width) return rotate_whole_columns<Policy, Writer, 4, kPrefetch>;
    constexpr bool kHas32Registers = sizeof(typename Policy::T) * kMaxLanes<Full> == 64;
    if constexpr (kPairing == Pairing::kInterleaved && kHas32Registers) {
      // 16 of the 32 registers hold the cos and sin of all columns.
      if (end == 8 * width) return rotate_whole_columns<Policy, Writer, 8, kPrefetch>;
    }
  }
  return nullptr;
}

/// The kernel for heads of `pairs` of an element type, or null, as above.
template <class E, class Writer, Prefetch kPrefetch>
RotateHeads<typename E::Compute> choose_whole_columns(Pairing pairing, std::int64_t pairs) {
  using Half = typename PoliciesOf<E>::Half;
  using Interleaved = typename PoliciesOf<E>::Interleaved;
  return pairing == Pairing::kHalf
             ? choose_whole_columns<Half, Writer, Pairing::kHalf, kPrefetch>(pairs)
             : choose_whole_columns<Interleaved, Writer, Pairing::kInterleaved, kPrefetch>(pairs);
}

/// The kernel for heads of `pairs`.
template <class Policy, class Writer, Pairing kPairing, Prefetch kPrefetch>
RotateHeads<typename Policy::T> choose_dense(std::int64_t pairs) {
  // Whole columns of all heads are rotated in the same order with and without prefetch.
  constexpr Prefetch kColumnPrefetch = kHasPrefetch ? kPrefetch : Prefetch::kNone;
  if (const auto whole = choose_whole_columns<Policy, Writer, kPairing, kColumnPrefetch>(pairs)) {
    return whole;
  }
  return rotate_dense<Policy, Writer, kPairing, kPrefetch>;
}

template <class E, class Writer, Prefetch kPrefetch>
RotateHeads<typename E::Compute> choose_dense(Pairing pairing, std::int64_t pairs) {
  using Half = typename PoliciesOf<E>::Half;
  using Interleaved = typename PoliciesOf<E>::Interleaved;
  return pairing == Pairing::kHalf
             ? choose_dense<Half, Writer, Pairing::kHalf, kPrefetch>(pairs)
             : choose_dense<Interleaved, Writer, Pairing::kInterleaved, kPrefetch>(pairs);
}

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROTATE_DENSE_INL_H
