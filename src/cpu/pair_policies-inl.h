// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the rotation of a pair, and a policy for each way in which pairs fill vectors.
//
// The kernel (rotate_dense-inl.h) walks a head in chunks of one vector load. A column is the same
// chunk in all heads of a token: its cos and sin are loaded once (Table) and applied to each head
// in turn (Data). A run is a contiguous range of elements: kHalf has two (all x, then all y),
// kInterleaved one. A column has a chunk of each run.
//
// A policy takes an element type E (elements-inl.h), which says how many vectors a load fills
// (kVectors) and which elements are in which (kIsEvenOdd). It has:
//   kElementsPerLane   of a run; column_width() = kElementsPerLane * Lanes(d), d being the tag
//   kRuns              1 or 2
//   kRowLayout         layout in which table() reads cos and sin (RowLayout in token_heads.h):
//                      kPerPair from row.c and row.s, the others from row.arranged_c and arranged_s
//   Tail               element type with one vector per load, for the pairs after the last column:
//                      they are rotated one at a time, with row.c and row.s
//   Table              cos and sin of a column
//   Data               the elements of one head in a column
//   end(pairs)         elements of the first run
//   table(d, row, i)   loads cos and sin of the column whose first element in a run is i
//   load, store<kRun>  load all runs of one head; store run kRun through a writer (writers-inl.h).
//                      `in` and `out` point to the head's first element in the column; `pairs` is
//                      the distance from x to y with two runs, which is the number of pairs of a
//                      head (rotate_tail() passes 1 for kInterleaved), and unused with one
//   rotate             rotates the Data of one head by the Table of its column

#if defined(ROTARY_CPU_PAIR_POLICIES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_PAIR_POLICIES_INL_H
#undef ROTARY_CPU_PAIR_POLICIES_INL_H
#else
#define ROTARY_CPU_PAIR_POLICIES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

/// cos and sin, and the pairs (x, y) that they rotate. V is a vector or a Vec2.
template <class V>
struct Rotation {
  V c, s;
};
template <class V>
struct Pairs {
  V x, y;
};

/// (x + i y)(c + i s) = (x c - y s) + i (y c + x s). Both parts are a product with c, then one
/// fused multiply-add, in every policy and on every target: so all give the same bits. Targets
/// without FMA instructions call std::fma for each lane (vectors-inl.h).
template <class D, class V>
HWY_INLINE Pairs<V> rotate_pairs(D d, const Rotation<V>& z, const Pairs<V>& v) {
  return {neg_mul_add(d, v.y, z.s, mul(v.x, z.c)), mul_add(d, v.x, z.s, mul(v.y, z.c))};
}

/// cos or sin for the elements from i on, in the order in which E loads these elements: memory
/// order, or even then odd ones with kIsEvenOdd. `row` then has layout kEvenOdd, and `odd_begin` is
/// the index of its first odd pair (RotationRow).
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE typename E::template Vectors<V> load_table(D d, const typename E::Compute* row,
                                                      std::int64_t i,
                                                      [[maybe_unused]] std::int64_t odd_begin = 0) {
  if constexpr (E::kVectors == 1) {
    return hn::LoadU(d, row + i);
  } else if constexpr (E::kIsEvenOdd) {
    return {hn::LoadU(d, row + i / 2), hn::LoadU(d, row + odd_begin + i / 2)};
  } else {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    return {hn::LoadU(d, row + i), hn::LoadU(d, row + i + lanes)};
  }
}

/// Pairing::kHalf: pairs of elements (i, i + pairs). Run 0 is all x, run 1 all y.
template <class E>
struct HalfPairs {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  using Tail = typename E::Tail;
  static constexpr std::int64_t kElementsPerLane = E::kVectors;
  static constexpr int kRuns = 2;
  static constexpr RowLayout kRowLayout = E::kIsEvenOdd ? RowLayout::kEvenOdd : RowLayout::kPerPair;
  template <class V>
  using Table = Rotation<typename E::template Vectors<V>>;
  template <class V>
  using Data = Pairs<typename E::template Vectors<V>>;

  static std::int64_t end(std::int64_t pairs) { return pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const RotationRow<T>& row, std::int64_t i) {
    const T* c = E::kIsEvenOdd ? row.arranged_c : row.c;
    const T* s = E::kIsEvenOdd ? row.arranged_s : row.s;
    return {load_table<E>(d, c, i, row.odd_begin), load_table<E>(d, s, i, row.odd_begin)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t pairs) {
    return {E::load(d, in), E::load(d, in + pairs)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> rotate(D d, const Table<V>& z, const Data<V>& v) {
    return rotate_pairs(d, z, v);
  }
  template <int kRun, class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D d, const Data<V>& v, Storage* out,
                               std::int64_t pairs) {
    E::store(writer, d, kRun == 0 ? v.x : v.y, out + kRun * pairs);
  }
};

/// Pairing::kInterleaved, pairs of elements (2i, 2i + 1), in vectors in memory order:
/// [x0 y0 x1 y1 ...]. The sines of kPerElement alternate in sign, -s for x and +s for y, so that
/// one multiply-add serves both.
template <class E>
struct InterleavedPairs {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  using Tail = typename E::Tail;
  static constexpr std::int64_t kElementsPerLane = E::kVectors;
  static constexpr int kRuns = 1;
  static constexpr RowLayout kRowLayout = RowLayout::kPerElement;
  template <class V>
  using Table = Rotation<typename E::template Vectors<V>>;
  template <class V>
  using Data = typename E::template Vectors<V>;

  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const RotationRow<T>& row, std::int64_t i) {
    return {load_table<E>(d, row.arranged_c, i), load_table<E>(d, row.arranged_s, i)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t /*pairs*/) {
    return E::load(d, in);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> rotate(D d, const Table<V>& z, const Data<V>& v) {
    return mul_add(d, swap_pairs(d, v), z.s, mul(v, z.c));  // (x c + y (-s), y c + x s)
  }
  template <int kRun, class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D d, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    E::store(writer, d, v, out);
  }
};

/// Pairing::kInterleaved, of an E with kIsEvenOdd: the load separates even elements, which are x,
/// from odd ones, which are y.
template <class E>
struct DeinterleavedPairs {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  using Tail = typename E::Tail;
  static_assert(E::kIsEvenOdd);
  static constexpr std::int64_t kElementsPerLane = 2;  // x in v0, y in v1
  static constexpr int kRuns = 1;
  static constexpr RowLayout kRowLayout = RowLayout::kPerPair;
  template <class V>
  using Table = Rotation<V>;
  template <class V>
  using Data = Pairs<V>;

  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const RotationRow<T>& row, std::int64_t i) {
    return {hn::LoadU(d, row.c + i / 2), hn::LoadU(d, row.s + i / 2)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D d, const Storage* in, std::int64_t /*pairs*/) {
    const auto v = E::load(d, in);
    return {v.v0, v.v1};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> rotate(D d, const Table<V>& z, const Data<V>& v) {
    return rotate_pairs(d, z, v);
  }
  template <int kRun, class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D d, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    E::store(writer, d, Vec2<V>{v.x, v.y}, out);
  }
};

#if ROTARY_CPU_IS_NEON
/// Pairing::kInterleaved, of 16-bit elements that E widens and narrows register by register: two
/// registers are unzipped into x and y before they are widened, and zipped after they are narrowed.
/// As many instructions as it takes to swap the lanes of widened pairs, but half as many entries of
/// cos and sin, in the order of the row.
template <class E>
struct UnzippedPairs {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  using Tail = typename E::Tail;
  static_assert(E::kVectors == 2 && !E::kIsEvenOdd);
  static constexpr std::int64_t kElementsPerLane = 4;
  static constexpr int kRuns = 1;
  static constexpr RowLayout kRowLayout = RowLayout::kPerPair;
  template <class V>
  using Table = Rotation<Vec2<V>>;
  template <class V>
  using Data = Pairs<Vec2<V>>;

  static std::int64_t end(std::int64_t pairs) { return 2 * pairs; }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Table<V> table(D d, const RotationRow<T>& row, std::int64_t i) {
    return {load_table<E>(d, row.c, i / 2), load_table<E>(d, row.s, i / 2)};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> load(D /*d*/, const Storage* in, std::int64_t /*pairs*/) {
    const uint16x8_t v0 = vld1q_u16(in);
    const uint16x8_t v1 = vld1q_u16(in + 8);
    return {E::template widen<V>(vuzp1q_u16(v0, v1)), E::template widen<V>(vuzp2q_u16(v0, v1))};
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> rotate(D d, const Table<V>& z, const Data<V>& v) {
    return rotate_pairs(d, z, v);
  }
  template <int kRun, class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D /*d*/, const Data<V>& v, Storage* out,
                               std::int64_t /*pairs*/) {
    const hn::Repartition<Storage, D> d16;
    using V16 = hn::Vec<decltype(d16)>;
    const uint16x8_t x = E::narrow(v.x);
    const uint16x8_t y = E::narrow(v.y);
    writer(d16, V16(vzip1q_u16(x, y)), out);
    writer(d16, V16(vzip2q_u16(x, y)), out + 8);
  }
};
#endif

/// The policies of an element type, for each pairing.
template <class E>
struct PoliciesOf {
  using Half = HalfPairs<E>;
  using Interleaved = InterleavedPairs<E>;
};
template <>
struct PoliciesOf<BFloat16> {
#if ROTARY_CPU_IS_NEON
  using Half = HalfPairs<BFloat16LowerUpper>;
#else
  using Half = HalfPairs<BFloat16EvenOdd>;
#endif
  using Interleaved = DeinterleavedPairs<BFloat16EvenOdd>;
};
#if ROTARY_CPU_IS_NEON
template <>
struct PoliciesOf<Float16> {
  using Half = HalfPairs<Float16LowerUpper>;
  using Interleaved = UnzippedPairs<Float16LowerUpper>;
};
#endif

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_PAIR_POLICIES_INL_H
