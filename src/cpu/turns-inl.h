// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: how a pair turns. Written once for each way in which pairs lie in memory:
//   first = x c - y s        second = y c + x s
// each as the product with c, then one fused multiply-add, so that the bits depend on neither the
// width of a vector nor the path taken.

#if defined(ROTARY_CPU_TURNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_TURNS_INL_H
#undef ROTARY_CPU_TURNS_INL_H
#else
#define ROTARY_CPU_TURNS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/vectors-inl.h"
#include "rotary/pairing.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

struct Shift;

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

/// The same of any type, and how pairs lie before and after; what turns heads is chosen once for
/// all tokens, this is what it is told for each.
struct Heads {
  const void* in;
  void* out;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t in_step;
  std::int64_t out_step;
  std::int64_t count;
  std::int64_t pairs;
  Pairing read;
  Pairing write;
  void* room;    // for one slice
  Shift* shift;  // of results that are shifted

  template <typename Storage>
  HWY_INLINE Slices<Storage> as() const {
    return {.in = static_cast<const Storage*>(in),
            .out = static_cast<Storage*>(out),
            .in_stride = in_stride,
            .out_stride = out_stride,
            .in_step = in_step,
            .out_step = out_step,
            .heads = count,
            .pairs = pairs};
  }
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

/// Turns the heads of one token.
template <typename T>
using TurnHeads = void (*)(const Heads& heads, const Row<T>& row);

// How a column of vectors turns, one policy for each way in which pairs lie in memory:
//   kColumn   elements per lane of the tag
//   kParts    2 where a column is two runs of elements, `pairs` apart
//   Table     cos and sin of a column, held in registers for all heads
//   Data      what a head holds in that column, before and after
//   store     one part of it, by a way to memory (elements-inl.h)

/// Pairs (i, i + pairs).
template <class E>
struct HalfTurn {
  using Element = E;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 1;
  static constexpr int kParts = 2;
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
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& v) {
    return {fused_negative(d, v.y, z.s, hn::Mul(v.x, z.c)), fused(d, v.x, z.s, hn::Mul(v.y, z.c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& v, Storage* out, std::int64_t pairs) {
    E::store(way, d, kPart == 0 ? v.x : v.y, out + kPart * pairs);
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
template <class E>
struct NeighbourTurn {
  using Element = E;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 1;
  static constexpr int kParts = 1;
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
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& data) {
    return {fused(d, swap_pairs(d, data.v), z.s, hn::Mul(data.v, z.c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& data, Storage* out,
                               std::int64_t /*pairs*/) {
    E::store(way, d, data.v, out);
  }
};

/// bfloat16 is the upper half of a float, so two of them in a 32-bit word become two floats by a
/// shift and a mask, without moving lanes: those at even places and those at odd ones.
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
  template <class Way, class D>
  static HWY_INLINE void store(Way& way, D /*d*/, hn::Vec<D> at_even, hn::Vec<D> at_odd,
                               std::uint16_t* out) {
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
    way(d16, words, out);
  }
};

/// bfloat16, pairs (2i, 2i + 1): x is at even places, y at odd ones.
struct NeighbourWordTurn {
  using Element = BFloat16;
  using T = float;
  using Storage = std::uint16_t;
  using W = Words;
  static constexpr std::int64_t kColumn = 2;
  static constexpr int kParts = 1;
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
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& v) {
    return {fused_negative(d, v.y, z.s, hn::Mul(v.x, z.c)), fused(d, v.x, z.s, hn::Mul(v.y, z.c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    W::store(way, d, v.x, v.y, out);
  }
};

/// bfloat16, pairs (i, i + pairs), by rows that are sorted: even pairs, then odd ones.
struct HalfWordTurn {
  using Element = BFloat16;
  using T = float;
  using Storage = std::uint16_t;
  using W = Words;
  static constexpr std::int64_t kColumn = 2;
  static constexpr int kParts = 2;
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
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& v) {
    return {fused_negative(d, v.even_y, z.even_s, hn::Mul(v.even_x, z.even_c)),
            fused_negative(d, v.odd_y, z.odd_s, hn::Mul(v.odd_x, z.odd_c)),
            fused(d, v.even_x, z.even_s, hn::Mul(v.even_y, z.even_c)),
            fused(d, v.odd_x, z.odd_s, hn::Mul(v.odd_y, z.odd_c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& v, Storage* out, std::int64_t pairs) {
    W::store(way, d, kPart == 0 ? v.even_x : v.even_y, kPart == 0 ? v.odd_x : v.odd_y,
             out + kPart * pairs);
  }
};

#if HWY_TARGET == HWY_NEON
/// float, pairs (2i, 2i + 1): one instruction multiplies by i s and adds.
struct ComplexTurn : NeighbourTurn<Float32> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> turn(D /*d*/, const Table<V>& z, const Data<V>& data) {
    return {V(add_turned(hn::Mul(data.v, z.c).raw, z.s.raw, data.v.raw))};
  }
};

// The same for elements that are loaded and stored two vectors at a time.

/// Pairs (i, i + pairs).
template <class E>
struct WideHalfTurn {
  using Element = typename E::Narrow;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 2;
  static constexpr int kParts = 2;
  template <class V>
  struct Table {
    V low_c, low_s, high_c, high_s;
  };
  template <class V>
  struct Data {
    V low_x, high_x, low_y, high_y;
  };
  static std::int64_t end(std::int64_t pairs) { return pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    const std::int64_t high = i + static_cast<std::int64_t>(hn::Lanes(d));
    return {hn::LoadU(d, row.c + i), hn::LoadU(d, row.s + i), hn::LoadU(d, row.c + high),
            hn::LoadU(d, row.s + high)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t pairs) {
    const auto x = E::load_two(d, in);
    const auto y = E::load_two(d, in + pairs);
    return {x.low, x.high, y.low, y.high};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& v) {
    return {fused_negative(d, v.low_y, z.low_s, hn::Mul(v.low_x, z.low_c)),
            fused_negative(d, v.high_y, z.high_s, hn::Mul(v.high_x, z.high_c)),
            fused(d, v.low_x, z.low_s, hn::Mul(v.low_y, z.low_c)),
            fused(d, v.high_x, z.high_s, hn::Mul(v.high_y, z.high_c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& v, Storage* out, std::int64_t pairs) {
    E::store_two(way, d, kPart == 0 ? v.low_x : v.low_y, kPart == 0 ? v.high_x : v.high_y,
                 out + kPart * pairs);
  }
};

/// Pairs (2i, 2i + 1), by rows that are spread.
template <class E>
struct WideNeighbourTurn {
  using Element = typename E::Narrow;
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  static constexpr std::int64_t kColumn = 2;
  static constexpr int kParts = 1;
  template <class V>
  struct Table {
    V low_c, low_s, high_c, high_s;
  };
  template <class V>
  struct Data {
    V low, high;
  };
  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const Row<T>& row, std::int64_t i) {
    const std::int64_t high = i + static_cast<std::int64_t>(hn::Lanes(d));
    return {hn::LoadU(d, row.other_c + i), hn::LoadU(d, row.other_s + i),
            hn::LoadU(d, row.other_c + high), hn::LoadU(d, row.other_s + high)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t /*pairs*/) {
    const auto v = E::load_two(d, in);
    return {v.low, v.high};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> turn(D d, const Table<V>& z, const Data<V>& v) {
    return {fused(d, swap_pairs(d, v.low), z.low_s, hn::Mul(v.low, z.low_c)),
            fused(d, swap_pairs(d, v.high), z.high_s, hn::Mul(v.high, z.high_c))};
  }
  template <int kPart, class Way, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Way& way, D d, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    E::store_two(way, d, v.low, v.high, out);
  }
};

/// The same, by one instruction that multiplies by i s and adds.
template <class E>
struct WideComplexTurn : WideNeighbourTurn<E> {
  template <class V>
  using Table = typename WideNeighbourTurn<E>::template Table<V>;
  template <class V>
  using Data = typename WideNeighbourTurn<E>::template Data<V>;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> turn(D /*d*/, const Table<V>& z, const Data<V>& v) {
    return {V(add_turned(hn::Mul(v.low, z.low_c).raw, z.low_s.raw, v.low.raw)),
            V(add_turned(hn::Mul(v.high, z.high_c).raw, z.high_s.raw, v.high.raw))};
  }
};
#endif

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_TURNS_INL_H
