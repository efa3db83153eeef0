// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the rotation of the heads of one token. Written once for all element types:
//   first = x c - y s        second = y c + x s
// each as the product with c, then one fused multiply-add, so that the bits depend on neither the
// width of a vector nor the path taken.

#if defined(ROTARY_CPU_HEADS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_HEADS_INL_H
#undef ROTARY_CPU_HEADS_INL_H
#else
#define ROTARY_CPU_HEADS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/elements-inl.h"
#include "cpu/plan.h"
#include "cpu/vectors-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The rotary slices of the heads of one token, before and after. Elements of a slice are `step`
/// apart, slices `stride`.
template <typename Storage>
struct Slices {
  const Storage* in;
  Storage* out;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t in_step;
  std::int64_t out_step;
  std::int64_t heads;
  std::int64_t pairs;
};

/// cos and sin of the pairs, [c0 c1 ...] and [s0 s1 ...]; and, where a policy below wants it, the
/// same rearranged.
template <typename T>
struct Row {
  const T* c;
  const T* s;
  const T* other_c = nullptr;
  const T* other_s = nullptr;
  std::int64_t odd = 0;  // where odd pairs begin in sorted rows
};

// How a column of vectors turns, one policy for each way in which pairs lie in memory:
//   kColumn   elements per lane of the tag
//   Table     cos and sin of a column, held in registers for all heads
//   Data      what a head holds in that column

/// Pairs (i, i + pairs).
template <class E, StoreMode kMode>
struct HalfTurn {
  using Element = E;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 1;
  template <class V>
  struct Table {
    V c, s;
  };
  template <class V>
  struct Data {
    V x, y;
  };
  static std::int64_t end(std::int64_t pairs) { return pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    return {hn::LoadU(d, row.c + i), hn::LoadU(d, row.s + i)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t pairs) {
    return {E::load(d, in), E::load(d, in + pairs)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(D d, const Table<V>& z, const Data<V>& v, Storage* out,
                               std::int64_t pairs) {
    E::template store<kMode>(d, fused_negative(d, v.y, z.s, hn::Mul(v.x, z.c)), out);
    E::template store<kMode>(d, fused(d, v.x, z.s, hn::Mul(v.y, z.c)), out + pairs);
  }
};

/// The neighbours of each lane's pair: [y0 x0 y1 x1 ...].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V swap_pairs(D d, V v) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  return v;  // never called: there are no pairs in one lane
#else
  return hn::Reverse2(d, v);
#endif
}

/// Pairs (2i, 2i + 1), by rows that are spread: [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...].
template <class E, StoreMode kMode>
struct NeighbourTurn {
  using Element = E;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 1;
  template <class V>
  struct Table {
    V c, s;
  };
  template <class V>
  struct Data {
    V v;
  };
  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    return {hn::LoadU(d, row.other_c + i), hn::LoadU(d, row.other_s + i)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t /*pairs*/) {
    return {E::load(d, in)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(D d, const Table<V>& z, const Data<V>& data, Storage* out,
                               std::int64_t /*pairs*/) {
    const V v = data.v;
    E::template store<kMode>(d, fused(d, swap_pairs(d, v), z.s, hn::Mul(v, z.c)), out);
  }
};

/// bfloat16 is the upper half of a float, so two of them in a 32-bit word become two floats by a
/// shift and a mask, without moving lanes: those at even places and those at odd ones.
template <StoreMode kMode>
struct Words {
  template <class D>
  using Bits = hn::Vec<hn::RebindToUnsigned<D>>;
  template <class D>
  static HWY_INLINE Bits<D> load(D /*d*/, const std::uint16_t* in) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(du, hn::LoadU(hn::Repartition<std::uint16_t, decltype(du)>(), in));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> even(D d, Bits<D> words) {
    return hn::BitCast(d, hn::ShiftLeft<16>(words));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> odd(D d, Bits<D> words) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::And(words, hn::Set(du, 0xffff0000u)));
  }
  /// Rounds to nearest even. A NaN that comes from bfloat16 numbers, or that hardware makes, has
  /// only zeros in its lower half, so that rounding leaves it as it is.
  template <class D>
  static HWY_INLINE void store(D /*d*/, hn::Vec<D> at_even, hn::Vec<D> at_odd, std::uint16_t* out) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, decltype(du)> d16;
#if HWY_TARGET == HWY_NEON
    // Shifts that add and that insert: fewer instructions for the same bits.
    const auto rounded = [du](auto v) HWY_ATTR {
      const uint32x4_t bits = hn::BitCast(du, v).raw;
      return vaddq_u32(vsraq_n_u32(bits, vshlq_n_u32(bits, 15), 31), vdupq_n_u32(0x7fffu));
    };
    const auto words =
        hn::BitCast(d16, hn::Vec<decltype(du)>(vsriq_n_u32(rounded(at_odd), rounded(at_even), 16)));
#else
    const auto rounded = [du](auto v) HWY_ATTR {
      const auto bits = hn::BitCast(du, v);
      const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
      return hn::Add(bits, hn::Add(last, hn::Set(du, 0x7fffu)));
    };
    const auto low = hn::ShiftRight<16>(rounded(at_even));
    const auto words = hn::BitCast(d16, hn::OrAnd(low, rounded(at_odd), hn::Set(du, 0xffff0000u)));
#endif
    if constexpr (kMode == StoreMode::kStream) {
      hn::Stream(words, d16, out);
    } else {
      hn::StoreU(words, d16, out);
    }
  }
};

/// bfloat16, pairs (2i, 2i + 1): x is at even places, y at odd ones.
template <StoreMode kMode>
struct NeighbourWordTurn {
  using Element = BFloat16;
  using T = float;
  using Storage = std::uint16_t;
  using W = Words<kMode>;
  static constexpr std::int64_t kColumn = 2;
  template <class V>
  struct Table {
    V c, s;
  };
  template <class V>
  struct Data {
    V x, y;
  };
  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    return {hn::LoadU(d, row.c + i / 2), hn::LoadU(d, row.s + i / 2)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t /*pairs*/) {
    const auto words = W::load(d, in);
    return {W::even(d, words), W::odd(d, words)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(D d, const Table<V>& z, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    W::store(d, fused_negative(d, v.y, z.s, hn::Mul(v.x, z.c)),
             fused(d, v.x, z.s, hn::Mul(v.y, z.c)), out);
  }
};

/// bfloat16, pairs (i, i + pairs), by rows that are sorted: even pairs, then odd ones.
template <StoreMode kMode>
struct HalfWordTurn {
  using Element = BFloat16;
  using T = float;
  using Storage = std::uint16_t;
  using W = Words<kMode>;
  static constexpr std::int64_t kColumn = 2;
  template <class V>
  struct Table {
    V even_c, even_s, odd_c, odd_s;
  };
  template <class V>
  struct Data {
    V even_x, odd_x, even_y, odd_y;
  };
  static std::int64_t end(std::int64_t pairs) { return pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    const std::int64_t odd = row.odd + i / 2;
    return {hn::LoadU(d, row.other_c + i / 2), hn::LoadU(d, row.other_s + i / 2),
            hn::LoadU(d, row.other_c + odd), hn::LoadU(d, row.other_s + odd)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t pairs) {
    const auto x = W::load(d, in);
    const auto y = W::load(d, in + pairs);
    return {W::even(d, x), W::odd(d, x), W::even(d, y), W::odd(d, y)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(D d, const Table<V>& z, const Data<V>& v, Storage* out,
                               std::int64_t pairs) {
    W::store(d, fused_negative(d, v.even_y, z.even_s, hn::Mul(v.even_x, z.even_c)),
             fused_negative(d, v.odd_y, z.odd_s, hn::Mul(v.odd_x, z.odd_c)), out);
    W::store(d, fused(d, v.even_x, z.even_s, hn::Mul(v.even_y, z.even_c)),
             fused(d, v.odd_x, z.odd_s, hn::Mul(v.odd_y, z.odd_c)), out + pairs);
  }
};

/// Asks for the memory of a head that comes soon. Prefetchers of x86 follow two halves of a head
/// less well than one stream; 2 KiB ahead was the best of 1, 2 and 4.
template <Locality kLocality, typename Storage>
HWY_INLINE void prefetch(const Storage* in, std::int64_t pairs) {
  if constexpr (kLocality == Locality::kFar && HWY_ARCH_X86) {
    constexpr std::int64_t kAhead = 2048;
    constexpr std::int64_t kLine = 64;
    const char* from = reinterpret_cast<const char*>(in) + kAhead;
    const std::int64_t bytes = 2 * pairs * static_cast<std::int64_t>(sizeof(Storage));
    for (std::int64_t at = 0; at < bytes; at += kLine) hwy::Prefetch(from + at);
  }
}

/// Columns of the table from element i on, held in registers for all heads.
template <class Turn, Locality kLocality, class D, std::size_t... kColumns>
void turn_columns(D d, const Slices<typename Turn::Storage>& a, const Row<typename Turn::T>& row,
                  std::int64_t i, std::index_sequence<kColumns...> /*columns*/) {
  using V = hn::Vec<D>;
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const typename Turn::template Table<V> z[] = {
      Turn::table(d, row, i + static_cast<std::int64_t>(kColumns) * width)...};
  const auto* in = a.in + i;
  auto* out = a.out + i;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    prefetch<kLocality>(in, a.pairs);
    const typename Turn::template Data<V> data[] = {
        Turn::load(d, in + static_cast<std::int64_t>(kColumns) * width, a.pairs)...};
    (Turn::store(d, z[kColumns], data[kColumns], out + static_cast<std::int64_t>(kColumns) * width,
                 a.pairs),
     ...);
  }
}

template <class Turn, std::size_t kCount, Locality kLocality, class D>
void turn_columns(D d, const Slices<typename Turn::Storage>& a, const Row<typename Turn::T>& row,
                  std::int64_t i) {
  turn_columns<Turn, kLocality>(d, a, row, i, std::make_index_sequence<kCount>());
}

/// The elements from i to `end` that fill columns of this tag, up to kMost of them at a time;
/// returns where it stopped.
template <class Turn, std::size_t kMost, Locality kLocality, class D>
std::int64_t turn_near(D d, const Slices<typename Turn::Storage>& a,
                       const Row<typename Turn::T>& row, std::int64_t i, std::int64_t end) {
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  if constexpr (kMost >= 4) {
    for (; i + 4 * width <= end; i += 4 * width) turn_columns<Turn, 4, kLocality>(d, a, row, i);
    for (; i + 2 * width <= end; i += 2 * width) turn_columns<Turn, 2, kLocality>(d, a, row, i);
  }
  for (; i + width <= end; i += width) turn_columns<Turn, 1, kLocality>(d, a, row, i);
  return i;
}

/// Columns of one head from element i on; the table comes from memory.
template <class Turn, class D, std::size_t... kColumns>
HWY_INLINE void turn_head(D d, const Row<typename Turn::T>& row, std::int64_t i,
                          const typename Turn::Storage* in, typename Turn::Storage* out,
                          std::int64_t pairs, std::index_sequence<kColumns...> /*columns*/) {
  using V = hn::Vec<D>;
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const typename Turn::template Data<V> data[] = {
      Turn::load(d, in + i + static_cast<std::int64_t>(kColumns) * width, pairs)...};
  (Turn::store(d, Turn::table(d, row, i + static_cast<std::int64_t>(kColumns) * width),
               data[kColumns], out + i + static_cast<std::int64_t>(kColumns) * width, pairs),
   ...);
}

/// The same as turn_near, head after head: whole lines of memory are used before the next.
template <class Turn, class D>
std::int64_t turn_far(D d, const Slices<typename Turn::Storage>& a,
                      const Row<typename Turn::T>& row, std::int64_t begin, std::int64_t end) {
  const auto width = Turn::kColumn * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t stop = begin + (end - begin) / width * width;
  const auto* in = a.in;
  auto* out = a.out;
  for (std::int64_t h = 0; h < a.heads; ++h, in += a.in_stride, out += a.out_stride) {
    prefetch<Locality::kFar>(in, a.pairs);
    std::int64_t i = begin;
    for (; i + 4 * width <= stop; i += 4 * width) {
      turn_head<Turn>(d, row, i, in, out, a.pairs, std::make_index_sequence<4>());
    }
    for (; i < stop; i += width) {
      turn_head<Turn>(d, row, i, in, out, a.pairs, std::make_index_sequence<1>());
    }
  }
  return stop;
}

/// What is left from element i on, one pair after the other; pairs lie `distance` apart.
template <class E, Pairing kPairing>
void turn_rest(const Slices<typename E::Storage>& a, const Row<typename E::Compute>& row,
               std::int64_t i) {
  using Turn = HalfTurn<E, StoreMode::kCached>;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  const OneTag<typename E::Compute> one;
  const std::int64_t distance = kHalf ? a.pairs : 1;
  for (std::int64_t pair = kHalf ? i : i / 2; pair < a.pairs; ++pair) {
    const auto z = Turn::table(one, row, pair);
    const std::int64_t at = kHalf ? pair : 2 * pair;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      Turn::store(one, z, Turn::load(one, a.in + h * a.in_stride + at, distance),
                  a.out + h * a.out_stride + at, distance);
    }
  }
}

/// One pairing, elements next to each other. Whole vectors first, then blocks, then the rest.
template <class Turn, class Tail, Pairing kPairing>
void turn_same(const Slices<typename Turn::Storage>& a, const Row<typename Turn::T>& row,
               Locality locality) {
  using T = typename Turn::T;
  std::int64_t i = 0;
  if constexpr (kHasBlocks) {
    const FullTag<T> full;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(full));
    const std::int64_t width = Turn::kColumn * lanes;
    const std::int64_t end = Turn::end(a.pairs);
    if constexpr (kPairing == Pairing::kInterleaved && sizeof(T) * kMaxLanes<FullTag<T>> == 64) {
      if (end == 8 * width) {  // there are 32 registers of this size: enough for the whole row
        locality == Locality::kNear ? turn_columns<Turn, 8, Locality::kNear>(full, a, row, i)
                                    : turn_columns<Turn, 8, Locality::kFar>(full, a, row, i);
        return;
      }
    }
    if (locality == Locality::kNear) {
      i = turn_near<Turn, 4, Locality::kNear>(full, a, row, i, end);
    } else if (end <= 4 * width) {
      i = turn_near<Turn, 4, Locality::kFar>(full, a, row, i, end);
    } else {
      i = turn_far<Turn>(full, a, row, i, end);
    }
    if constexpr (kMaxLanes<FullTag<T>> > kMaxLanes<BlockTag<T>>) {
      i = turn_near<Tail, 1, Locality::kNear>(BlockTag<T>(), a, row, i, end);
    }
  }
  turn_rest<typename Turn::Element, kPairing>(a, row, i);
}

template <class E, StoreMode kMode>
void turn_dense(const Slices<typename E::Storage>& a, Pairing pairing,
                const Row<typename E::Compute>& row, Locality locality) {
  constexpr StoreMode kCached = StoreMode::kCached;
  constexpr bool kWords = std::is_same_v<E, BFloat16>;
  using Half = std::conditional_t<kWords, HalfWordTurn<kMode>, HalfTurn<E, kMode>>;
  using HalfTail = std::conditional_t<kWords, HalfWordTurn<kCached>, HalfTurn<E, kCached>>;
  using Neighbour = std::conditional_t<kWords, NeighbourWordTurn<kMode>, NeighbourTurn<E, kMode>>;
  using NeighbourTail =
      std::conditional_t<kWords, NeighbourWordTurn<kCached>, NeighbourTurn<E, kCached>>;
  if (pairing == Pairing::kHalf) {
    turn_same<Half, HalfTail, Pairing::kHalf>(a, row, locality);
  } else {
    turn_same<Neighbour, NeighbourTail, Pairing::kInterleaved>(a, row, locality);
  }
}

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
  constexpr StoreMode kMode = StoreMode::kCached;
  if (pairing == Pairing::kHalf) {
    E::template store<kMode>(d, x, out + i);
    E::template store<kMode>(d, y, out + pairs + i);
    return;
  }
  if constexpr (kMaxLanes<D> == 1) {
    E::template store<kMode>(d, x, out + 2 * i);
    E::template store<kMode>(d, y, out + 2 * i + 1);
  } else {
#if HWY_TARGET != HWY_SCALAR
    E::template store<kMode>(d, hn::InterleaveLower(d, x, y), out + 2 * i);
    E::template store<kMode>(d, hn::InterleaveUpper(d, x, y),
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
    E::template store<StoreMode::kCached>(d, fused_negative(d, y, s, hn::Mul(x, c)),
                                          out + at(write, 0) * a.out_step);
    E::template store<StoreMode::kCached>(d, fused(d, x, s, hn::Mul(y, c)),
                                          out + at(write, 1) * a.out_step);
  }
}

/// Two pairings, or elements apart. `slice` holds 2 * pairs elements: in place with two pairings a
/// pair's targets are another pair's sources, so a head is written there first.
template <class E>
void turn_any(const Slices<typename E::Storage>& a, Pairing read, Pairing write,
              const Row<typename E::Compute>& row, typename E::Storage* slice) {
  using Storage = typename E::Storage;
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

#endif  // ROTARY_CPU_HEADS_INL_H
