// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: columns of vectors, into which the fast kernels cut heads; their prefetches, loads,
// rotations and stores.

#if defined(ROTARY_CPU_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_COLUMNS_INL_H
#undef ROTARY_CPU_COLUMNS_INL_H
#else
#define ROTARY_CPU_COLUMNS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/pair_policies-inl.h"
#include "cpu/rotation_row_buffer.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

/// What inputs are prefetched for: not at all, for loads, for loads and stores (in place).
enum class Prefetch : std::uint8_t { kNone, kRead, kWrite };

/// Hardware prefetchers of x86 stop at the end of a page and follow the two halves of a head less
/// well than one stream. That of a Neoverse-N1 does not run far enough ahead of a single stream.
inline constexpr bool kHasPrefetch = kHasVectors;
/// In bytes, for the runs of a head: the best of 1 to 16 KiB on x86 and of 0.5 to 8 KiB on Arm.
template <int kRuns>
inline constexpr std::int64_t kPrefetchDistance = HWY_ARCH_X86 ? 5120
                                                  : kRuns == 1 ? 6144
                                                               : 1024;

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

/// Prefetches `bytes` at kPrefetchDistance.
template <Prefetch kPrefetch, int kRuns, typename Storage>
HWY_INLINE void prefetch_ahead(const Storage* in, std::int64_t bytes) {
  if constexpr (kPrefetch != Prefetch::kNone && kHasPrefetch) {
    constexpr std::int64_t kLineBytes = 64;
    const char* from = reinterpret_cast<const char*>(in) + kPrefetchDistance<kRuns>;
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
  prefetch_ahead<kPrefetch, Policy::kRuns>(in, kBytes);
  if constexpr (Policy::kRuns == 2) prefetch_ahead<kPrefetch, 2>(in + pairs, kBytes);
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

/// The elements of one head in kCount columns. Not std::array, whose functions the linker could
/// take from rotate_armv86.cc for the whole library.
template <class Data, std::size_t kCount>
struct ColumnData {
  Data at[kCount];
};

/// kColumns from `in` on, of one head.
template <class Policy, class D, std::size_t... kColumns>
HWY_INLINE auto load_columns(D d, const typename Policy::Storage* in, std::int64_t pairs,
                             std::index_sequence<kColumns...> /*columns*/) {
  using Data = typename Policy::template Data<hn::Vec<D>>;
  const std::int64_t width = column_width<Policy>(d);
  return ColumnData<Data, sizeof...(kColumns)>{
      {Policy::load(d, in + static_cast<std::int64_t>(kColumns) * width, pairs)...}};
}

template <class Policy, class Writer, class D, class Table, class Data, std::size_t... kColumns>
HWY_INLINE void rotate_and_store(Writer& writer, D d, const Table* z, const Data& data,
                                 typename Policy::Storage* out, std::int64_t pairs,
                                 std::index_sequence<kColumns...> columns) {
  const typename Policy::template Data<hn::Vec<D>> rotated[] = {
      Policy::rotate(d, z[kColumns], data.at[kColumns])...};
  store_columns<Policy>(writer, d, rotated, out, pairs, columns);
}

/// Whether the next head is loaded before the results of one are stored. A Neoverse-N1 then rotates
/// float32 in its first-level cache 3 % faster. Other types are bound by conversions, and a single
/// run needs as many registers for cos and sin alone.
template <class Policy, std::size_t kCount>
inline constexpr bool kLoadsAhead = !HWY_ARCH_X86 && kHasVectors && Policy::kRuns == 2 &&
                                    Policy::kElementsPerLane == 1 && kCount <= 4;

/// Columns from element i on, of all heads. Their cos and sin stay in registers.
template <class Policy, Prefetch kPrefetch, class Writer, class D, std::size_t... kColumns>
HWY_INLINE void rotate_columns(Writer& writer, D d, const HeadSlices<typename Policy::Storage> a,
                               const RotationRow<typename Policy::T>& row, std::int64_t i,
                               std::index_sequence<kColumns...> /*columns*/) {
  using V = hn::Vec<D>;
  const std::int64_t width = column_width<Policy>(d);
  const typename Policy::template Table<V> z[] = {
      Policy::table(d, row, i + static_cast<std::int64_t>(kColumns) * width)...};
  constexpr std::index_sequence<kColumns...> kAll;
  const auto* in = a.in + i;
  auto* out = a.out + i;
  if constexpr (kLoadsAhead<Policy, sizeof...(kColumns)>) {
    if (a.heads == 0) return;
    prefetch_columns<Policy, sizeof...(kColumns), kPrefetch>(d, in, a.pairs);
    auto data = load_columns<Policy>(d, in, a.pairs, kAll);
    for (std::int64_t h = 1; h < a.heads; ++h, out += a.out_stride) {
      in += a.in_stride;
      prefetch_columns<Policy, sizeof...(kColumns), kPrefetch>(d, in, a.pairs);
      const auto next = load_columns<Policy>(d, in, a.pairs, kAll);
      rotate_and_store<Policy>(writer, d, z, data, out, a.pairs, kAll);
      data = next;
    }
    rotate_and_store<Policy>(writer, d, z, data, out, a.pairs, kAll);
    return;
  }
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    prefetch_columns<Policy, sizeof...(kColumns), kPrefetch>(d, in, a.pairs);
    const typename Policy::template Data<V> data[] = {
        Policy::load(d, in + static_cast<std::int64_t>(kColumns) * width, a.pairs)...};
    const typename Policy::template Data<V> rotated[] = {
        Policy::rotate(d, z[kColumns], data[kColumns])...};
    store_columns<Policy>(writer, d, rotated, out, a.pairs, kAll);
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
  if constexpr (kMaxColumns >= 8) {
    for (; i + 8 * width <= end; i += 8 * width) {
      rotate_columns<Policy, 8, kPrefetch>(writer, d, a, row, i);
    }
  }
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

/// kColumns from element i on, of one head, rotated.
template <class Policy, class D, std::size_t... kColumns>
HWY_INLINE auto rotated_columns(D d, const typename Policy::Storage* in, std::int64_t pairs,
                                const RotationRow<typename Policy::T>& row, std::int64_t i,
                                std::index_sequence<kColumns...> /*columns*/) {
  using Data = typename Policy::template Data<hn::Vec<D>>;
  const std::int64_t width = column_width<Policy>(d);
  const auto column = [i, width](std::size_t index)
                          HWY_ATTR { return i + static_cast<std::int64_t>(index) * width; };
  const Data data[] = {Policy::load(d, in + column(kColumns), pairs)...};
  return ColumnData<Data, sizeof...(kColumns)>{
      {Policy::rotate(d, Policy::table(d, row, column(kColumns)), data[kColumns])...}};
}

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_COLUMNS_INL_H
