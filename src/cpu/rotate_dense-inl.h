// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the fast kernels, for heads with contiguous elements and equal input and output
// pairing. A head is cut into columns of vectors. A HeadOrder says in which order the columns of
// the heads of a token are rotated and stored.

#if defined(ROTARY_CPU_ROTATE_DENSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROTATE_DENSE_INL_H
#undef ROTARY_CPU_ROTATE_DENSE_INL_H
#else
#define ROTARY_CPU_ROTATE_DENSE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/columns-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/rotation_row_buffer.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"
#include "rotary/pairing.h"
#include "rotary/write_order.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

/// Columns that are rotated at a time. Four vectors of NEON are a cache line; two lines of a single
/// run hide more of the latency of loads.
template <class Policy>
inline constexpr std::size_t kLineColumns =
    !HWY_ARCH_X86 && Policy::kRuns == 1 && Policy::kElementsPerLane == 1 ? 8 : 4;

/// HeadOrder::kLines: head by head, kLineColumns at a time, so that a cache line is used up before
/// the next is loaded, and filled before the next is written. Returns the first element that is
/// left; with kWhole, heads are a multiple of kLineColumns.
///
/// With kWhole, this and the next function are inlined into kernels that store nothing else from
/// token to token, not even registers on the stack: on a Neoverse-N1, one such store per token
/// doubles the time of results out of cache.
template <class Policy, bool kWhole, Prefetch kPrefetch, class Writer, class D>
HWY_INLINE std::int64_t rotate_by_line(Writer writer, D d,
                                       const HeadSlices<typename Policy::Storage> a,
                                       const RotationRow<typename Policy::T> row) {
  const std::int64_t width = column_width<Policy>(d);
  constexpr auto kStep = static_cast<std::int64_t>(kLineColumns<Policy>);
  const std::int64_t end = Policy::end(a.pairs);
  const std::int64_t stop = kWhole ? end : end / width * width;
  const auto* in = a.in;
  auto* out = a.out;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    if constexpr (HWY_ARCH_X86) {
      prefetch_ahead<kPrefetch, Policy::kRuns>(
          in, 2 * a.pairs * static_cast<std::int64_t>(sizeof(*in)));
    }
    std::int64_t i = 0;
    for (; kWhole ? i < stop : i + kStep * width <= stop; i += kStep * width) {
      constexpr std::make_index_sequence<kLineColumns<Policy>> kColumns;
      if constexpr (!HWY_ARCH_X86) {
        prefetch_columns<Policy, kLineColumns<Policy>, kPrefetch>(d, in + i, a.pairs);
      }
      const auto rotated = rotated_columns<Policy>(d, in, a.pairs, row, i, kColumns);
      store_columns<Policy>(writer, d, rotated.at, out + i, a.pairs, kColumns);
    }
    for (; !kWhole && i < stop; i += width) {
      constexpr std::make_index_sequence<1> kOne;
      const auto rotated = rotated_columns<Policy>(d, in, a.pairs, row, i, kOne);
      store_columns<Policy>(writer, d, rotated.at, out + i, a.pairs, kOne);
    }
  }
  return stop;
}

/// Columns of one run from `to` on.
template <class Policy, int kRun, class D, class Data, std::size_t... kColumns>
HWY_INLINE void store_run(D d, const Data* data, typename Policy::Storage* to,
                          std::index_sequence<kColumns...> /*columns*/) {
  CachedWriter writer;
  const std::int64_t width = column_width<Policy>(d);
  (Policy::template store<kRun>(writer, d, data[kColumns],
                                to + static_cast<std::int64_t>(kColumns) * width, 0),
   ...);
}

/// Copies kCount vectors.
template <class D, typename Storage, std::size_t... kVectors>
HWY_INLINE void copy_vectors(D d, const Storage* from, Storage* to,
                             std::index_sequence<kVectors...> /*vectors*/) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const hn::Vec<D> v[] = {hn::LoadU(d, from + static_cast<std::int64_t>(kVectors) * lanes)...};
  (hn::StoreU(v[kVectors], d, to + static_cast<std::int64_t>(kVectors) * lanes), ...);
}

/// HeadOrder::kAddress: as kLines, but the second run of a head waits in a buffer until the first
/// is written. At most kMaxStackPairs.
template <class Policy, bool kWhole, Prefetch kPrefetch, class D>
HWY_INLINE std::int64_t rotate_by_address(D d, const HeadSlices<typename Policy::Storage> a,
                                          const RotationRow<typename Policy::T> row) {
  static_assert(Policy::kRuns == 2);
  constexpr std::make_index_sequence<4> kFour;
  constexpr std::make_index_sequence<1> kOne;
  constexpr auto kElements = static_cast<std::size_t>(Policy::kElementsPerLane);
  const hn::CappedTag<typename Policy::Storage, kMaxLanes<D> * kElements> ds;  // of a column
  const std::int64_t width = column_width<Policy>(d);
  const std::int64_t stop = kWhole ? a.pairs : a.pairs / width * width;
  alignas(64) typename Policy::Storage waiting[kMaxStackPairs];
  const auto* in = a.in;
  auto* out = a.out;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    std::int64_t i = 0;
    for (; kWhole ? i < stop : i + 4 * width <= stop; i += 4 * width) {
      prefetch_columns<Policy, 4, kPrefetch>(d, in + i, a.pairs);
      const auto rotated = rotated_columns<Policy>(d, in, a.pairs, row, i, kFour);
      store_run<Policy, 0>(d, rotated.at, out + i, kFour);
      store_run<Policy, 1>(d, rotated.at, waiting + i, kFour);
    }
    for (; !kWhole && i < stop; i += width) {
      const auto rotated = rotated_columns<Policy>(d, in, a.pairs, row, i, kOne);
      store_run<Policy, 0>(d, rotated.at, out + i, kOne);
      store_run<Policy, 1>(d, rotated.at, waiting + i, kOne);
    }
    auto* const second = out + a.pairs;
    for (i = 0; kWhole ? i < stop : i + 4 * width <= stop; i += 4 * width) {
      copy_vectors(ds, waiting + i, second + i, kFour);
    }
    for (; !kWhole && i < stop; i += width) copy_vectors(ds, waiting + i, second + i, kOne);
  }
  return stop;
}

/// The pairs from element i on, one at a time.
template <class E, Pairing kPairing>
HWY_NOINLINE void rotate_tail(const TokenHeads& heads, const char* in, char* out,
                              const RotationRow<typename E::Compute>& row, std::int64_t i) {
  using Policy = HalfPairs<E>;
  const HeadSlices<typename E::Storage> a = heads.as<typename E::Storage>(in, out);
  CachedWriter writer;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  const OneTag<typename E::Compute> one;
  const std::int64_t distance = kHalf ? a.pairs : 1;  // from x to y
  for (std::int64_t pair = kHalf ? i : i / 2; pair < a.pairs; ++pair) {
    const auto z = Policy::table(one, row, pair);
    const std::int64_t at = kHalf ? pair : 2 * pair;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      auto* to = a.out + h * a.out_stride + at;
      const auto v =
          Policy::rotate(one, z, Policy::load(one, a.in + h * a.in_stride + at, distance));
      Policy::template store<0>(writer, one, v, to, distance);
      Policy::template store<1>(writer, one, v, to, distance);
    }
  }
}

/// What full vectors leave from element i on: 16-byte blocks, then single pairs.
template <class Policy, Pairing kPairing>
HWY_INLINE void rotate_rest(const TokenHeads& heads, const char* in, char* out,
                            const RotationRow<typename Policy::T>& row, std::int64_t i) {
  using T = typename Policy::T;
  const std::int64_t end = Policy::end(heads.pairs);
  if constexpr (kMaxLanes<FullTag<T>> > kMaxLanes<BlockTag<T>>) {
    i = rotate_by_column<Policy, 1, Prefetch::kNone>(
        CachedWriter(), BlockTag<T>(), heads.as<typename Policy::Storage>(in, out), row, i, end);
  }
  if (i < end) rotate_tail<typename Policy::Tail, kPairing>(heads, in, out, row, i);
}

/// Heads of any size in kOrder.
template <class Policy, class Writer, Pairing kPairing, HeadOrder kOrder, Prefetch kPrefetch>
void rotate_dense(const TokenHeads& heads, const char* in, char* out,
                  const RotationRow<typename Policy::T>* rows, std::int64_t count) {
  for (const auto* const stop = rows + count; rows != stop; ++rows) {
    std::int64_t i = 0;
    if constexpr (kHasBlocks) {
      const FullTag<typename Policy::T> full;
      const auto a = heads.as<typename Policy::Storage>(in, out);
      if constexpr (kOrder == HeadOrder::kAddress) {
        i = rotate_by_address<Policy, false, kPrefetch>(full, a, *rows);
      } else if constexpr (kOrder == HeadOrder::kLines) {
        i = rotate_by_line<Policy, false, kPrefetch>(Writer(), full, a, *rows);
      } else {
        constexpr std::size_t kMaxColumns = kHasVectors ? kLineColumns<Policy> : 1;
        const std::int64_t end = Policy::end(a.pairs);
        i = rotate_by_column<Policy, kMaxColumns, kPrefetch>(Writer(), full, a, *rows, i, end);
      }
    }
    rotate_rest<Policy, kPairing>(heads, in, out, *rows, i);
    in += heads.in_token_bytes;
    out += heads.out_token_bytes;
  }
}

/// Heads of a multiple of kLineColumns, as most long ones are; kLines or kAddress.
template <class Policy, class Writer, HeadOrder kOrder, Prefetch kPrefetch>
void rotate_whole_lines(const TokenHeads& heads, const char* in, char* out,
                        const RotationRow<typename Policy::T>* rows, std::int64_t count) {
  for (const auto* const stop = rows + count; rows != stop; ++rows) {
    const FullTag<typename Policy::T> full;
    const auto a = heads.as<typename Policy::Storage>(in, out);
    if constexpr (kOrder == HeadOrder::kAddress) {
      rotate_by_address<Policy, true, kPrefetch>(full, a, *rows);
    } else {
      rotate_by_line<Policy, true, kPrefetch>(Writer(), full, a, *rows);
    }
    in += heads.in_token_bytes;
    out += heads.out_token_bytes;
  }
}

/// Heads of exactly kCount columns, as most are.
template <class Policy, class Writer, std::size_t kCount, Prefetch kPrefetch>
void rotate_whole_columns(const TokenHeads& heads, const char* in, char* out,
                          const RotationRow<typename Policy::T>* rows, std::int64_t count) {
  Writer writer;
  if constexpr (Writer::kHasState) writer.load(*heads.realign);
  for (const auto* const stop = rows + count; rows != stop; ++rows) {
    rotate_columns<Policy, kPrefetch>(writer, FullTag<typename Policy::T>(),
                                      heads.as<typename Policy::Storage>(in, out), *rows, 0,
                                      std::make_index_sequence<kCount>());
    in += heads.in_token_bytes;
    out += heads.out_token_bytes;
  }
  if constexpr (Writer::kHasState) writer.save(*heads.realign);
}

/// So many columns at most are rotated with cos and sin in registers where heads have no more. On
/// NEON, float16 has two vectors of each in a column, and while elements are converted there are
/// not enough registers for four: to read cos and sin for each head is faster.
template <class Policy>
inline constexpr std::size_t kMaxHeldColumns = 4;
#if ROTARY_CPU_IS_NEON
template <>
inline constexpr std::size_t kMaxHeldColumns<HalfPairs<Float16LowerUpper>> = 2;
template <>
inline constexpr std::size_t kMaxHeldColumns<UnzippedPairs<Float16LowerUpper>> = 2;
#endif

/// Null if no kernel for whole columns fits heads of `pairs`.
template <class Policy, class Writer, Pairing kPairing, Prefetch kPrefetch>
RotateTokens<typename Policy::T> choose_whole_columns(std::int64_t pairs) {
  using Full = FullTag<typename Policy::T>;
  if constexpr (kHasVectors) {
    const std::int64_t width = column_width<Policy>(Full());
    const std::int64_t end = Policy::end(pairs);
    if (end == width) return rotate_whole_columns<Policy, Writer, 1, kPrefetch>;
    if (end == 2 * width) return rotate_whole_columns<Policy, Writer, 2, kPrefetch>;
    if constexpr (kMaxHeldColumns<Policy> >= 4) {
      if (end == 4 * width) return rotate_whole_columns<Policy, Writer, 4, kPrefetch>;
    }
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
RotateTokens<typename E::Compute> choose_whole_columns(Pairing pairing, std::int64_t pairs) {
  using Half = typename PoliciesOf<E>::Half;
  using Interleaved = typename PoliciesOf<E>::Interleaved;
  return pairing == Pairing::kHalf
             ? choose_whole_columns<Half, Writer, Pairing::kHalf, kPrefetch>(pairs)
             : choose_whole_columns<Interleaved, Writer, Pairing::kInterleaved, kPrefetch>(pairs);
}

/// The kernel for heads of `pairs`. Heads of few columns are rotated one after the other in every
/// order.
template <class Policy, class Writer, Pairing kPairing, Prefetch kPrefetch>
RotateTokens<typename Policy::T> choose_dense(std::int64_t pairs, HeadOrder order) {
  if constexpr (!kHasVectors) {
    return rotate_dense<Policy, CachedWriter, kPairing, HeadOrder::kColumns, Prefetch::kNone>;
  } else {
    // What lies in cache needs no prefetch.
    constexpr Prefetch kMemoryPrefetch = kHasPrefetch ? kPrefetch : Prefetch::kNone;
    if (order == HeadOrder::kColumns) {
      constexpr auto kOrder = HeadOrder::kColumns;
      const auto whole = choose_whole_columns<Policy, Writer, kPairing, Prefetch::kNone>(pairs);
      return whole != nullptr ? whole
                              : rotate_dense<Policy, Writer, kPairing, kOrder, Prefetch::kNone>;
    }
    const auto whole = choose_whole_columns<Policy, Writer, kPairing, kMemoryPrefetch>(pairs);
    if (whole != nullptr) return whole;
    const std::int64_t width = column_width<Policy>(FullTag<typename Policy::T>());
    const std::int64_t end = Policy::end(pairs);
    const bool whole_lines = end % (static_cast<std::int64_t>(kLineColumns<Policy>) * width) == 0;
    if (end < 4 * width) {
      return rotate_dense<Policy, Writer, kPairing, HeadOrder::kColumns, kMemoryPrefetch>;
    }
    if constexpr (Policy::kRuns == 2) {
      if (order == HeadOrder::kAddress && pairs <= kMaxStackPairs) {
        constexpr auto kOrder = HeadOrder::kAddress;
        return whole_lines ? rotate_whole_lines<Policy, CachedWriter, kOrder, kMemoryPrefetch>
                           : rotate_dense<Policy, CachedWriter, kPairing, kOrder, kMemoryPrefetch>;
      }
    }
    constexpr auto kOrder = HeadOrder::kLines;
    return whole_lines ? rotate_whole_lines<Policy, Writer, kOrder, kMemoryPrefetch>
                       : rotate_dense<Policy, Writer, kPairing, kOrder, kMemoryPrefetch>;
  }
}

template <class E, class Writer, Prefetch kPrefetch>
RotateTokens<typename E::Compute> choose_dense(Pairing pairing, std::int64_t pairs,
                                               HeadOrder order) {
  using Half = typename PoliciesOf<E>::Half;
  using Interleaved = typename PoliciesOf<E>::Interleaved;
  return pairing == Pairing::kHalf
             ? choose_dense<Half, Writer, Pairing::kHalf, kPrefetch>(pairs, order)
             : choose_dense<Interleaved, Writer, Pairing::kInterleaved, kPrefetch>(pairs, order);
}

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROTATE_DENSE_INL_H
