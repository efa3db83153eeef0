// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: sums over a head in the order of PyTorch's reductions on the CPU, and the mean and
// reciprocal standard deviation of several heads.

#if defined(ROTARY_CPU_NORM_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_NORM_SUMS_INL_H
#undef ROTARY_CPU_NORM_SUMS_INL_H
#else
#define ROTARY_CPU_NORM_SUMS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The element type that fills a whole register with 16-bit elements, where there is one.
template <class E>
struct WholeRegister {
  using Type = E;
};
#if ROTARY_CPU_IS_NEON
template <>
struct WholeRegister<BFloat16> {
  using Type = BFloat16LowerUpper;
};
template <>
struct WholeRegister<Float16> {
  using Type = Float16LowerUpper;
};
#endif

// What an element adds to a sum; fused() rounds once.

struct AddValue {
  static float fused(float sum, float x) { return sum + x; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D /*d*/, V sum, V x) const {
    return hn::Add(sum, x);
  }
};

/// The square, rounded. With kIsExact it needs no rounding, and one multiply-add has the same bits.
template <bool kIsExact>
struct AddSquare {
  static float fused(float sum, float x) { return std::fma(x, x, sum); }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D /*d*/, V sum, V x) const {
#if ROTARY_CPU_HAS_FMA
    if constexpr (kIsExact) return hn::MulAdd(x, x, sum);
#endif
    return hn::Add(sum, hn::Mul(x, x));
  }
};

/// The square of the distance from the mean.
struct AddDeviation {
  float fused(float sum, float x) const { return std::fma(x - mean, x - mean, sum); }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V sum, V x) const {
    const V deviation = hn::Sub(x, hn::Set(d, mean));
    return hn::Add(sum, hn::Mul(deviation, deviation));
  }
  float mean;
};

/// Elements that four accumulators of eight lanes take at a time.
inline constexpr std::int64_t kRowOfEights = 32;

/// Four accumulators of one part of the lanes. Members, not arrays: GCC keeps these in registers.
template <class V>
struct FourSums {
  V s0, s1, s2, s3;

  HWY_INLINE void add(const FourSums& other) {
    s0 = hn::Add(s0, other.s0);
    s1 = hn::Add(s1, other.s1);
    s2 = hn::Add(s2, other.s2);
    s3 = hn::Add(s3, other.s3);
  }
};

/// Four vectors of elements, kDistance apart.
template <class E, std::size_t kDistance, class D, class V = hn::Vec<D>>
HWY_INLINE FourSums<V> load_four(D d, const typename E::Storage* x) {
  using W = typename WholeRegister<E>::Type;
  constexpr bool kIsFull = kMaxLanes<D> == kMaxLanes<FullTag<float>>;
  if constexpr (W::kVectors == 2 && kIsFull && kDistance == kMaxLanes<D>) {
    const auto a = W::load(d, x);
    const auto b = W::load(d, x + 2 * kDistance);
    return {a.v0, a.v1, b.v0, b.v1};
  } else {
    return {E::load(d, x), E::load(d, x + kDistance), E::load(d, x + 2 * kDistance),
            E::load(d, x + 3 * kDistance)};
  }
}

/// `rows` times four vectors.
template <class E, std::size_t kDistance, class D, class Add, class V = hn::Vec<D>>
HWY_INLINE void add_rows(D d, const typename E::Storage* x, std::int64_t rows, const Add& add,
                         FourSums<V>& sums) {
  for (; rows > 0; --rows, x += 4 * kDistance) {
    const FourSums<V> v = load_four<E, kDistance>(d, x);
    sums.s0 = add(d, sums.s0, v.s0);
    sums.s1 = add(d, sums.s1, v.s1);
    sums.s2 = add(d, sums.s2, v.s2);
    sums.s3 = add(d, sums.s3, v.s3);
  }
}

/// The accumulators after `rows` rows, at least 16: they are put aside after every 16 rows, those
/// put aside again after every 256, and again after every 4096. Rows are added in one loop, of a
/// number that is no constant: unrolled and inlined for every sum, they took a third of the time to
/// compile a norm.
template <class E, std::size_t kDistance, class D, class Add, class V = hn::Vec<D>>
HWY_NOINLINE FourSums<V> cascade_rows(D d, const typename E::Storage* x, std::int64_t rows,
                                      const Add& add) {
  constexpr std::int64_t kRowsTogether = 16;
  constexpr auto kRow = static_cast<std::int64_t>(4 * kDistance);
  const V zero = hn::Zero(d);
  const FourSums<V> none{zero, zero, zero, zero};
  FourSums<V> levels[3] = {none, none, none};
  FourSums<V> sums = none;
  for (std::int64_t row = 0;;) {
    const std::int64_t some = std::min(kRowsTogether, rows - row);
    add_rows<E, kDistance>(d, x + row * kRow, some, add, sums);
    if (some < kRowsTogether) break;
    row += some;
    levels[0].add(sums);
    sums = none;
    if (row % (kRowsTogether * kRowsTogether) != 0) continue;
    levels[1].add(levels[0]);
    levels[0] = none;
    if (row % (kRowsTogether * kRowsTogether * kRowsTogether) != 0) continue;
    levels[2].add(levels[1]);
    levels[1] = none;
  }
  for (const FourSums<V>& level : levels) sums.add(level);
  return sums;
}

/// Heads whose sums are formed before the first is scaled: the lanes of their sums are added, and
/// divisions and square roots computed, for several heads at a time.
inline constexpr std::int64_t kHeadsTogether = 16;

/// Sums in lanes: those of each lane, and of the elements that fill no vector. [head][4] each, so
/// that a load of interleaved elements has a lane of several heads in a vector.
struct LaneSums {
  alignas(64) float low[4 * kHeadsTogether];   // the first four lanes
  alignas(64) float high[4 * kHeadsTogether];  // the others, of eight
  alignas(64) float rest[kHeadsTogether];
};

/// The lanes of a sum over x, [n], in the order of PyTorch's sum over vectors of kLanes floats
/// (ATen/native/cpu/SumKernel.cpp, vectorized_inner_sum): four accumulators in turn, in a cascade;
/// then those four. Returns the sum of the elements that fill no vector. `n` is less than 2^20 *
/// kLanes, where PyTorch's cascade has longer steps.
template <class E, std::size_t kLanes, class Add>
HWY_INLINE float sum_lanes(const typename E::Storage* x, std::int64_t n, const Add& add,
                           float* lanes) {
  const hn::CappedTag<float, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kVector = kMaxLanes<decltype(d)>;
  constexpr auto kDistance = static_cast<std::int64_t>(kLanes);
  const std::int64_t rows = n / (4 * kDistance);
  const std::int64_t whole = n / kDistance * kDistance;
  const V zero = hn::Zero(d);
  for (std::size_t part = 0; part < kLanes; part += kVector) {
    const auto* const from = x + part;
    FourSums<V> sums{zero, zero, zero, zero};
    if (rows >= 16) {
      sums = cascade_rows<E, kLanes>(d, from, rows, add);
    } else {
      add_rows<E, kLanes>(d, from, rows, add, sums);
    }
    for (std::int64_t i = rows * 4 * kDistance; i < whole; i += kDistance) {
      sums.s0 = add(d, sums.s0, E::load(d, from + i));
    }
    hn::StoreU(hn::Add(hn::Add(hn::Add(sums.s0, sums.s1), sums.s2), sums.s3), d, lanes + part);
  }
  const OneTag<float> one;
  auto rest = hn::Zero(one);
  for (std::int64_t i = whole; i < n; ++i) rest = add(one, rest, E::load(one, x + i));
  return hn::GetLane(rest);
}

/// That sum: the elements that fill no vector, then the lanes.
template <class E, std::size_t kLanes, class Add>
HWY_INLINE float sum_in_lanes(const typename E::Storage* x, std::int64_t n, const Add& add) {
  alignas(64) float lanes[kLanes];
  float sum = sum_lanes<E, kLanes>(x, n, add, lanes);
  for (const float lane : lanes) sum += lane;
  return sum;
}

/// Sum over x, [n], in the order of PyTorch's norms on CUDA: to 128 columns fours of consecutive
/// elements are added in turn; then the columns of a warp as a binary tree, those half of them
/// apart first, and the four warps.
template <class E, class Add>
HWY_NOINLINE float sum_in_columns(const typename E::Storage* x, std::int64_t n, const Add& add) {
  const OneTag<float> one;
  float columns[128] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    float& sum = columns[i / 4 % 128];
    sum = add.fused(sum, hn::GetLane(E::load(one, x + i)));
  }
  float warps[4];
  for (int warp = 0; warp < 4; ++warp) {
    float* const v = columns + 32 * warp;
    for (int half = 16; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) v[i] += v[i + half];
    }
    warps[warp] = v[0];
  }
  return (warps[0] + warps[2]) + (warps[1] + warps[3]);
}

/// Whether the high lanes are those of odd elements, not the upper half.
template <class E>
inline constexpr bool kSumsEvenOdd = false;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
template <>
inline constexpr bool kSumsEvenOdd<BFloat16> = true;

/// sum_lanes() of eight lanes with vectors of sixteen, for heads of whole rows that need no
/// cascade: four accumulators of eight lanes are two vectors. The same sums: bfloat16 elements lie
/// in them as even and odd ones, which a shift and a mask convert.
template <class E, class Add>
HWY_INLINE void sum_eights(const typename E::Storage* x, std::int64_t n, const Add& add, float* low,
                           float* high) {
  const FullTag<float> d;
  const hn::Half<decltype(d)> half;
  const hn::Half<decltype(half)> quarter;
  using V = hn::Vec<decltype(d)>;
  V first = hn::Zero(d);
  V second = hn::Zero(d);
  for (; n > 0; n -= kRowOfEights, x += kRowOfEights) {
    if constexpr (kSumsEvenOdd<E>) {
      const Vec2<V> v = BFloat16EvenOdd::load(d, x);
      first = add(d, first, v.v0);
      second = add(d, second, v.v1);
    } else {
      first = add(d, first, E::load(d, x));
      second = add(d, second, E::load(d, x + 16));
    }
  }
  // The accumulators, in turn: quarters of even and of odd lanes, or halves of all.
  if constexpr (kSumsEvenOdd<E>) {
    const auto in_turn = [half, quarter](V v) HWY_ATTR {
      const auto lower = hn::LowerHalf(half, v);
      const auto upper = hn::UpperHalf(half, v);
      return hn::Add(hn::Add(hn::Add(hn::LowerHalf(quarter, lower), hn::UpperHalf(quarter, lower)),
                             hn::LowerHalf(quarter, upper)),
                     hn::UpperHalf(quarter, upper));
    };
    hn::Store(in_turn(first), quarter, low);
    hn::Store(in_turn(second), quarter, high);
  } else {
    const auto lower = hn::Add(hn::LowerHalf(half, first), hn::UpperHalf(half, first));
    const auto all =
        hn::Add(hn::Add(lower, hn::LowerHalf(half, second)), hn::UpperHalf(half, second));
    hn::Store(hn::LowerHalf(quarter, all), quarter, low);
    hn::Store(hn::UpperHalf(quarter, all), quarter, high);
  }
}
#endif

/// Adds up the lanes of `heads` heads in order. Writes sums for a multiple of eight heads.
template <bool kHasHigh, bool kIsEvenOdd>
HWY_INLINE void add_lanes(LaneSums& from, std::int64_t heads, float* sums) {
  const hn::CappedTag<float, 8> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t end = (heads + 7) / 8 * 8;
  std::fill(from.low + 4 * heads, from.low + 4 * end, 0.0f);
  if (kHasHigh) std::fill(from.high + 4 * heads, from.high + 4 * end, 0.0f);
  std::fill(from.rest + heads, from.rest + end, 0.0f);
  for (std::int64_t h = 0; h < end; h += static_cast<std::int64_t>(hn::Lanes(d))) {
    V sum = hn::Load(d, from.rest + h);
    V a, b, c, e;
    hn::LoadInterleaved4(d, from.low + 4 * h, a, b, c, e);
    if constexpr (kHasHigh) {
      V p, q, r, s;
      hn::LoadInterleaved4(d, from.high + 4 * h, p, q, r, s);
      if constexpr (kIsEvenOdd) {
        sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, a), p), b), q);
        sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, c), r), e), s);
      } else {
        sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, a), b), c), e);
        sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, p), q), r), s);
      }
    } else {
      sum = hn::Add(hn::Add(hn::Add(hn::Add(sum, a), b), c), e);
    }
    hn::Store(sum, d, sums + h);
  }
}

/// The sums of some heads; add_of(h) says what elements of that head add to them.
template <class E, class AddOf>
HWY_INLINE void sum_heads(const typename E::Storage* x, std::int64_t stride, std::int64_t heads,
                          std::int64_t n, int lanes, const AddOf& add_of, float* sums) {
  const bool is_short = n < lanes;  // than a vector: one lane
  LaneSums parts;
  if (lanes == 4 && !is_short) {
    for (std::int64_t h = 0; h < heads; ++h) {
      parts.rest[h] = sum_lanes<E, 4>(x + h * stride, n, add_of(h), parts.low + 4 * h);
    }
    return add_lanes<false, false>(parts, heads, sums);
  }
  if (lanes == 8 && !is_short) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    constexpr std::int64_t kMinCascade = 16 * kRowOfEights;
    if (n % kRowOfEights == 0 && n < kMinCascade) {
      for (std::int64_t h = 0; h < heads; ++h) {
        parts.rest[h] = 0.0f;
        sum_eights<E>(x + h * stride, n, add_of(h), parts.low + 4 * h, parts.high + 4 * h);
      }
      return add_lanes<true, kSumsEvenOdd<E>>(parts, heads, sums);
    }
#endif
    for (std::int64_t h = 0; h < heads; ++h) {
      alignas(32) float all[8];
      parts.rest[h] = sum_lanes<E, 8>(x + h * stride, n, add_of(h), all);
      std::copy_n(all, 4, parts.low + 4 * h);
      std::copy_n(all + 4, 4, parts.high + 4 * h);
    }
    return add_lanes<true, false>(parts, heads, sums);
  }
  std::fill_n(sums, kHeadsTogether, 0.0f);
  for (std::int64_t h = 0; h < heads; ++h, x += stride) {
    sums[h] = lanes == kWarpSums ? sum_in_columns<E>(x, n, add_of(h))
              : is_short         ? sum_in_lanes<E, 1>(x, n, add_of(h))
                                 : sum_in_lanes<E, 16>(x, n, add_of(h));
  }
}

/// Of some heads: the mean, 0 without has_mean, and the reciprocal of the root of the variance or
/// of the mean square.
struct HeadMoments {
  alignas(64) float means[kHeadsTogether];
  alignas(64) float scales[kHeadsTogether];
};

/// Of `heads` heads, at most kHeadsTogether, of n elements each. Calls before(h) when it begins to
/// read head h.
template <class E, class Before>
HWY_NOINLINE void find_moments(const typename E::Storage* x, std::int64_t stride,
                               std::int64_t heads, std::int64_t n, const NormScalars& norm,
                               const Before& before, HeadMoments& moments) {
  constexpr bool kIsExact = std::is_same_v<E, Float16>;  // 22 bits, and no underflow
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto size = hn::Set(d, static_cast<float>(n));
  if (norm.has_mean) {
    const auto add_value = [&before](std::int64_t h) HWY_ATTR {
      before(h);
      return AddValue();
    };
    sum_heads<E>(x, stride, heads, n, norm.sum_lanes, add_value, moments.means);
    for (std::int64_t h = 0; h < heads; h += lanes) {
      hn::Store(hn::Div(hn::Load(d, moments.means + h), size), d, moments.means + h);
    }
    const auto add_deviation = [&moments](std::int64_t h)
                                   HWY_ATTR { return AddDeviation{moments.means[h]}; };
    sum_heads<E>(x, stride, heads, n, norm.sum_lanes, add_deviation, moments.scales);
  } else {
    std::fill_n(moments.means, kHeadsTogether, 0.0f);
    const auto add_square = [&before](std::int64_t h) HWY_ATTR {
      before(h);
      return AddSquare<kIsExact>();
    };
    sum_heads<E>(x, stride, heads, n, norm.sum_lanes, add_square, moments.scales);
  }
  // The last vector's other lanes: with an eps of 0, sums of 0 would divide by 0.
  const std::int64_t end = (heads + lanes - 1) / lanes * lanes;
  std::fill(moments.scales + heads, moments.scales + end, 1.0f);
  for (std::int64_t h = 0; h < heads; h += lanes) {
    const auto mean = hn::Div(hn::Load(d, moments.scales + h), size);
    const auto root = hn::Sqrt(hn::Add(mean, hn::Set(d, norm.eps)));
    hn::Store(hn::Div(hn::Set(d, 1.0f), root), d, moments.scales + h);
  }
}

/// Of one group of n elements.
inline void find_moments(const float* x, std::int64_t n, const NormScalars& norm,
                         HeadMoments& moments) {
  find_moments<Float32>(x, 0, 1, n, norm, [](std::int64_t) {}, moments);
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_NORM_SUMS_INL_H
