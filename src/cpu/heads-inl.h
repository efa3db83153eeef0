// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the heads of one token, where both pairings are the same and the elements of a head
// are next to each other: as fast as memory allows.

#if defined(ROTARY_CPU_HEADS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_HEADS_INL_H
#undef ROTARY_CPU_HEADS_INL_H
#else
#define ROTARY_CPU_HEADS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/elements-inl.h"
#include "cpu/plan.h"
#include "cpu/shift-inl.h"
#include "cpu/turns-inl.h"
#include "cpu/vectors-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// What is asked for ahead of time: nothing, memory to read, memory to read and write.
enum class Ahead : std::uint8_t { kNothing, kReads, kWrites };

/// Asking for a line to write spares asking again when it is written. Every machine with AVX-512
/// knows how; Highway has no name for it.
template <Ahead kAhead>
HWY_INLINE void prefetch_line(const char* line) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && !HWY_COMPILER_MSVC
  if constexpr (kAhead == Ahead::kWrites) {
    asm volatile("prefetchw %0" : : "m"(*line));
    return;
  }
#endif
  hwy::Prefetch(line);
}

/// Asks for memory that comes soon. Prefetchers of x86 stop at the end of a page and follow the two
/// halves of a head less well than one stream; 5 KiB ahead was the best of 1 to 16.
template <Ahead kAhead, typename Storage>
HWY_INLINE void prefetch(const Storage* in, std::int64_t bytes) {
  if constexpr (kAhead != Ahead::kNothing && HWY_ARCH_X86) {
    constexpr std::int64_t kDistance = 5120;
    constexpr std::int64_t kLine = 64;
    const char* from = reinterpret_cast<const char*>(in) + kDistance;
    for (std::int64_t at = 0; at < bytes; at += kLine) prefetch_line<kAhead>(from + at);
  }
}

/// Of kCount columns.
template <class Turn, std::size_t kCount, Ahead kAhead, class D>
HWY_INLINE void prefetch_columns(D /*d*/, const typename Turn::Storage* in, std::int64_t pairs) {
  constexpr std::size_t kElements = kCount * kMaxLanes<D> * Turn::kColumn;
  constexpr auto kBytes = static_cast<std::int64_t>(kElements * sizeof(*in));
  prefetch<kAhead>(in, kBytes);
  if constexpr (Turn::kParts == 2) prefetch<kAhead>(in + pairs, kBytes);
}

/// Part after part, since stores that straddle lines are fast only where they follow each other.
template <class Turn, class Way, class D, class Data, std::size_t... kColumns>
HWY_INLINE void store_columns(Way& way, D d, const Data* data, typename Turn::Storage* out,
                              std::int64_t pairs, std::index_sequence<kColumns...> /*columns*/) {
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  (Turn::template store<0>(way, d, data[kColumns],
                           out + static_cast<std::int64_t>(kColumns) * width, pairs),
   ...);
  if constexpr (Turn::kParts == 2) {
    (Turn::template store<1>(way, d, data[kColumns],
                             out + static_cast<std::int64_t>(kColumns) * width, pairs),
     ...);
  }
}

/// Columns of the table from element i on, held in registers for all heads.
template <class Turn, Ahead kAhead, class Way, class D, std::size_t... kColumns>
HWY_INLINE void turn_columns(Way& way, D d, const Slices<typename Turn::Storage> a,
                             const Row<typename Turn::T>& row, std::int64_t i,
                             std::index_sequence<kColumns...> /*columns*/) {
  using V = hn::Vec<D>;
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const typename Turn::template Table<V> z[] = {
      Turn::table(d, row, i + static_cast<std::int64_t>(kColumns) * width)...};
  const auto* in = a.in + i;
  auto* out = a.out + i;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    prefetch_columns<Turn, sizeof...(kColumns), kAhead>(d, in, a.pairs);
    const typename Turn::template Data<V> data[] = {
        Turn::load(d, in + static_cast<std::int64_t>(kColumns) * width, a.pairs)...};
    const typename Turn::template Data<V> turned[] = {
        Turn::turn(d, z[kColumns], data[kColumns])...};
    store_columns<Turn>(way, d, turned, out, a.pairs, std::index_sequence<kColumns...>());
  }
}

template <class Turn, std::size_t kCount, Ahead kAhead, class Way, class D>
void turn_columns(Way& way, D d, const Slices<typename Turn::Storage>& a,
                  const Row<typename Turn::T>& row, std::int64_t i) {
  turn_columns<Turn, kAhead>(way, d, a, row, i, std::make_index_sequence<kCount>());
}

/// The elements from i to `end` that fill columns of this tag, up to kMost of them at a time;
/// returns where it stopped.
template <class Turn, std::size_t kMost, Ahead kAhead, class Way, class D>
std::int64_t turn_near(Way way, D d, const Slices<typename Turn::Storage>& a,
                       const Row<typename Turn::T>& row, std::int64_t i, std::int64_t end) {
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  if constexpr (kMost >= 4) {
    for (; i + 4 * width <= end; i += 4 * width) turn_columns<Turn, 4, kAhead>(way, d, a, row, i);
    for (; i + 2 * width <= end; i += 2 * width) turn_columns<Turn, 2, kAhead>(way, d, a, row, i);
  }
  for (; i + width <= end; i += width) turn_columns<Turn, 1, kAhead>(way, d, a, row, i);
  return i;
}

/// kCount columns of some heads from element i on, kPlaces of them in all; the table comes from
/// memory, once for all these heads.
template <class Turn, std::size_t kCount, class Way, class D, std::size_t... kPlaces>
HWY_INLINE void turn_heads(Way& way, D d, const Slices<typename Turn::Storage>& a,
                           const Row<typename Turn::T>& row, std::int64_t i,
                           const typename Turn::Storage* in, typename Turn::Storage* out,
                           std::index_sequence<kPlaces...> /*places*/) {
  using V = hn::Vec<D>;
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const auto column = [i, width](std::size_t place) HWY_ATTR {
    return i + static_cast<std::int64_t>(place % kCount) * width;
  };
  const auto head = [](std::size_t place) { return static_cast<std::int64_t>(place / kCount); };
  const typename Turn::template Data<V> data[] = {
      Turn::load(d, in + head(kPlaces) * a.in_stride + column(kPlaces), a.pairs)...};
  const typename Turn::template Data<V> turned[] = {
      Turn::turn(d, Turn::table(d, row, column(kPlaces)), data[kPlaces])...};
  for (std::size_t first = 0; first < sizeof...(kPlaces); first += kCount) {
    store_columns<Turn>(way, d, turned + first, out + head(first) * a.out_stride + i, a.pairs,
                        std::make_index_sequence<kCount>());
  }
}

/// The same as turn_near, kHeads heads after the other: whole lines of memory are used before the
/// next.
template <class Turn, std::size_t kHeads, Ahead kAhead, class Way, class D>
std::int64_t turn_far(Way way, D d, const Slices<typename Turn::Storage>& a,
                      const Row<typename Turn::T>& row, std::int64_t begin, std::int64_t end) {
  constexpr auto kStep = static_cast<std::int64_t>(kHeads);
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t stop = begin + (end - begin) / width * width;
  const auto* in = a.in;
  auto* out = a.out;
  std::int64_t h = 0;
  for (; h + kStep <= a.heads; h += kStep, in += kStep * a.in_stride, out += kStep * a.out_stride) {
    prefetch<kAhead>(in, 2 * a.pairs * static_cast<std::int64_t>(sizeof(*in)));
    std::int64_t i = begin;
    for (; i + 4 * width <= stop; i += 4 * width) {
      turn_heads<Turn, 4>(way, d, a, row, i, in, out, std::make_index_sequence<4 * kHeads>());
    }
    for (; i < stop; i += width) {
      turn_heads<Turn, 1>(way, d, a, row, i, in, out, std::make_index_sequence<kHeads>());
    }
  }
  if constexpr (kHeads > 1) {
    Slices<typename Turn::Storage> rest = a;
    rest.in = in;
    rest.out = out;
    rest.heads = a.heads - h;
    turn_far<Turn, 1, kAhead>(way, d, rest, row, begin, end);
  }
  return stop;
}

/// Heads that share loads of the table: these limit what NEON's small vectors do, unless elements
/// are converted.
template <class Turn>
inline constexpr std::size_t kHeadsTogether = HWY_ARCH_X86 || Turn::kColumn > 1 ? 1 : 2;

/// What is left from element i on, one pair after the other; pairs lie `distance` apart.
template <class E, Pairing kPairing>
void turn_rest(const Slices<typename E::Storage>& a, const Row<typename E::Compute>& row,
               std::int64_t i) {
  using Turn = HalfTurn<E>;
  Cached way;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  const OneTag<typename E::Compute> one;
  const std::int64_t distance = kHalf ? a.pairs : 1;
  for (std::int64_t pair = kHalf ? i : i / 2; pair < a.pairs; ++pair) {
    const auto z = Turn::table(one, row, pair);
    const std::int64_t at = kHalf ? pair : 2 * pair;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      auto* out = a.out + h * a.out_stride + at;
      const auto v = Turn::turn(one, z, Turn::load(one, a.in + h * a.in_stride + at, distance));
      Turn::template store<0>(way, one, v, out, distance);
      Turn::template store<1>(way, one, v, out, distance);
    }
  }
}

/// One pairing, elements next to each other. Whole vectors first, then blocks, then the rest.
template <class Turn, class Way, Pairing kPairing, Ahead kAhead>
void turn_same(const Heads& heads, const Row<typename Turn::T>& row) {
  using T = typename Turn::T;
  const Slices<typename Turn::Storage> a = heads.as<typename Turn::Storage>();
  std::int64_t i = 0;
  if constexpr (kHasBlocks) {
    const FullTag<T> full;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(full));
    const std::int64_t width = Turn::kColumn * lanes;
    const std::int64_t end = Turn::end(a.pairs);
    if constexpr (!kHasVectors) {
      i = turn_near<Turn, 1, Ahead::kNothing>(Cached(), full, a, row, i, end);
    } else if (kAhead == Ahead::kNothing || end <= 4 * width) {
      i = turn_near<Turn, 4, kAhead>(Way(), full, a, row, i, end);
    } else {
      i = turn_far<Turn, kHeadsTogether<Turn>, kAhead>(Way(), full, a, row, i, end);
    }
    if constexpr (kMaxLanes<FullTag<T>> > kMaxLanes<BlockTag<T>>) {
      i = turn_near<Turn, 1, Ahead::kNothing>(Cached(), BlockTag<T>(), a, row, i, end);
    }
  }
  turn_rest<typename Turn::Element, kPairing>(a, row, i);
}

/// The same for heads of exactly kCount columns, which most are.
template <class Turn, class Way, std::size_t kCount, Ahead kAhead>
void turn_whole(const Heads& heads, const Row<typename Turn::T>& row) {
  Way way;
  if constexpr (Way::kCarries) way.begin(*heads.shift);
  turn_columns<Turn, kAhead>(way, FullTag<typename Turn::T>(), heads.as<typename Turn::Storage>(),
                             row, 0, std::make_index_sequence<kCount>());
  if constexpr (Way::kCarries) way.end(*heads.shift);
}

/// Null where heads are not such ones.
template <class Turn, class Way, Pairing kPairing, Ahead kAhead>
TurnHeads<typename Turn::T> choose_whole(std::int64_t pairs) {
  using Full = FullTag<typename Turn::T>;
  if constexpr (kHasVectors) {
    const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(Full()));
    const std::int64_t end = Turn::end(pairs);
    if (end == width) return turn_whole<Turn, Way, 1, kAhead>;
    if (end == 2 * width) return turn_whole<Turn, Way, 2, kAhead>;
    if (end == 4 * width) return turn_whole<Turn, Way, 4, kAhead>;
    constexpr bool kManyRegisters = sizeof(typename Turn::T) * kMaxLanes<Full> == 64;
    if constexpr (kPairing == Pairing::kInterleaved && kManyRegisters) {
      if (end == 8 * width) return turn_whole<Turn, Way, 8, kAhead>;  // 32 hold the whole row
    }
  }
  return nullptr;
}

/// What turns heads of E whose pairs lie as the policy says.
template <class E>
struct TurnsOf {
  using Half = HalfTurn<E>;
  using Neighbour = NeighbourTurn<E>;
};
template <>
struct TurnsOf<BFloat16> {
  using Half = HalfWordTurn;
  using Neighbour = NeighbourWordTurn;
};
#if HWY_TARGET == HWY_NEON
template <>
struct TurnsOf<Float16> {
  using Half = WideHalfTurn<WideFloat16>;
  using Neighbour = WideNeighbourTurn<WideFloat16>;
};
/// E on machines with has_armv86().
template <class E>
struct Newer : E {};
template <>
struct TurnsOf<Newer<Float32>> {
  using Half = HalfTurn<Float32>;
  using Neighbour = ComplexTurn;
};
template <>
struct TurnsOf<Newer<Float16>> {
  using Half = WideHalfTurn<NewerWideFloat16>;
  using Neighbour = WideComplexTurn<NewerWideFloat16>;
};
template <>
struct TurnsOf<Newer<BFloat16>> {
  using Half = WideHalfTurn<WideBFloat16>;
  using Neighbour = WideComplexTurn<WideBFloat16>;
};
#endif
template <class E>
using HalfTurnOf = typename TurnsOf<E>::Half;
template <class E>
using NeighbourTurnOf = typename TurnsOf<E>::Neighbour;

template <class E, class Way, Ahead kAhead>
TurnHeads<typename E::Compute> choose_whole(Pairing pairing, std::int64_t pairs) {
  return pairing == Pairing::kHalf
             ? choose_whole<HalfTurnOf<E>, Way, Pairing::kHalf, kAhead>(pairs)
             : choose_whole<NeighbourTurnOf<E>, Way, Pairing::kInterleaved, kAhead>(pairs);
}

template <class E, class Way, Ahead kAhead>
TurnHeads<typename E::Compute> choose_dense(Pairing pairing, std::int64_t pairs) {
  if (const auto whole = choose_whole<E, Way, kAhead>(pairing, pairs)) return whole;
  return pairing == Pairing::kHalf
             ? turn_same<HalfTurnOf<E>, Way, Pairing::kHalf, kAhead>
             : turn_same<NeighbourTurnOf<E>, Way, Pairing::kInterleaved, kAhead>;
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_HEADS_INL_H
