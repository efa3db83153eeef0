// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// NEON: an RMS norm and the rotation that follows, four heads at a time. The sums of the four are
// the lanes of one vector, so that one division and one square root serve all, and scaling reads
// its factor from a lane. For float32 and for interleaved pairs: two runs of 16-bit elements need
// more registers than there are for whole lines of both, and gain nothing.
//
// Nothing is stored but results, and these line by line, in kernels that walk many tokens: on a
// Neoverse-N1 other stores in between, to the stack too, double the time of results out of cache.

#if defined(ROTARY_CPU_NORM_FOUR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_NORM_FOUR_INL_H
#undef ROTARY_CPU_NORM_FOUR_INL_H
#else
#define ROTARY_CPU_NORM_FOUR_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/norm_block.h"
#include "cpu/norm_columns-inl.h"
#include "cpu/norm_sums-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/rotate_dense-inl.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

#if ROTARY_CPU_IS_NEON

/// The same value, which the compiler does not know. It would unroll short loops, and load
/// cos, sin and weights, the same for all heads, before the first: more than there are registers.
template <typename T>
HWY_INLINE T opaque(T value) {
#if !HWY_COMPILER_MSVC
  asm volatile("" : "+r"(value));
#endif
  return value;
}

/// Keeps the order of the program: loads from `next` on come after the sum is computed. In the
/// compiler's own order of four heads, registers do not suffice.
template <typename T>
HWY_INLINE void load_after([[maybe_unused]] float32x4_t sum, [[maybe_unused]] const T*& next) {
#if !HWY_COMPILER_MSVC
  asm volatile("" : "+r"(next) : "w"(sum));
#endif
}

using FourFloats = hn::Vec<FullTag<float>>;

/// Squares of a head of kSize elements, summed over the rows of sum_in_lanes() but not the lanes.
/// Separate products and sums, also where one multiply-add has the same bits: as fast, and the
/// chain of sums is shorter.
template <class E, std::int64_t kSize>
HWY_INLINE FourFloats squares_of_head(const typename E::Storage* x) {
  const FullTag<float> d;
  const auto squares = [](const FourSums<FourFloats>& v) HWY_ATTR {
    return FourSums<FourFloats>{hn::Mul(v.s0, v.s0), hn::Mul(v.s1, v.s1), hn::Mul(v.s2, v.s2),
                                hn::Mul(v.s3, v.s3)};
  };
  FourSums<FourFloats> sums = squares(load_four<E, 4>(d, x));
  for (std::int64_t i = 16; i < kSize; i += 16) sums.add(squares(load_four<E, 4>(d, x + i)));
  return hn::Add(hn::Add(hn::Add(sums.s0, sums.s1), sums.s2), sums.s3);
}

/// Reciprocals of the roots of the mean squares of four heads, with the bits of find_moments().
template <class E, std::int64_t kSize>
HWY_INLINE FourFloats scales_of_four(const typename E::Storage* x, std::int64_t stride, float eps) {
  const FullTag<float> d;
  const auto next_squares = [&x, stride]() HWY_ATTR {
    const float32x4_t sum = squares_of_head<E, kSize>(x).raw;
    x += stride;
    load_after(sum, x);
    return sum;
  };
  const float32x4_t s0 = next_squares();
  const float32x4_t s1 = next_squares();
  const float32x4_t s2 = next_squares();
  const float32x4_t s3 = next_squares();
  // Transposed: vector k has lane k of each head.
  const auto zip1 = [](float32x4_t a, float32x4_t b) HWY_ATTR {
    return FourFloats(
        vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))));
  };
  const auto zip2 = [](float32x4_t a, float32x4_t b) HWY_ATTR {
    return FourFloats(
        vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))));
  };
  const float32x4_t even01 = vtrn1q_f32(s0, s1);
  const float32x4_t odd01 = vtrn2q_f32(s0, s1);
  const float32x4_t even23 = vtrn1q_f32(s2, s3);
  const float32x4_t odd23 = vtrn2q_f32(s2, s3);
  const FourFloats sum =
      hn::Add(hn::Add(hn::Add(zip1(even01, even23), zip1(odd01, odd23)), zip2(even01, even23)),
              zip2(odd01, odd23));
  const FourFloats mean = hn::Div(sum, hn::Set(d, static_cast<float>(kSize)));
  return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(mean, hn::Set(d, eps))));
}

/// Columns that are stored together: a cache line of each run.
template <class Policy>
inline constexpr std::size_t kFourColumns =
    64 / (Policy::kElementsPerLane * kMaxLanes<FullTag<float>> * sizeof(typename Policy::Storage));

/// Columns of one head that fill a line of each run, from element i of a run on.
template <class Policy, std::int64_t kPairs, class Norm, std::size_t... kColumns>
HWY_INLINE void norm_line(const Norm& norm, const NormSlice& weights, const RotationRow<float>& row,
                          const typename Policy::Storage* in, typename Policy::Storage* out,
                          std::int64_t i, std::index_sequence<kColumns...> columns) {
  const FullTag<float> d;
  const auto at = [i](std::size_t column) HWY_ATTR {
    return i + static_cast<std::int64_t>(column) * column_width<Policy>(FullTag<float>());
  };
  const auto rotated = [&](std::int64_t from) HWY_ATTR {
    const auto factors = SliceLoader<Policy>::load(d, weights, from);
    const auto data = Policy::load(d, in + from, kPairs);
    return Policy::rotate(d, Policy::table(d, row, from), normalised(norm, data, factors, factors));
  };
  const typename Policy::template Data<FourFloats> results[] = {rotated(at(kColumns))...};
  CachedWriter writer;
  store_columns<Policy>(writer, d, results, out + i, kPairs, columns);
}

/// In bytes, ahead of what is scaled: the best of 2 to 12 KiB on a Neoverse-N1.
inline constexpr std::int64_t kNormPrefetch = 4096;

/// FusedKernel::run of heads of 2 * kPairs elements that all rotate, with an RMS norm.
template <class E, class Policy, class Norm, std::int64_t kPairs>
void fused_fours(const FusedHeads& a, const char* in_bytes, char* out_bytes,
                 const RotationRow<float>* rows, std::int64_t tokens) {
  using Storage = typename E::Storage;
  constexpr std::make_index_sequence<kFourColumns<Policy>> kColumns;
  constexpr bool kIs16Bit = sizeof(Storage) == 2;
  constexpr std::int64_t kStep = 64 / sizeof(Storage);
  const std::int64_t in_stride = a.in_stride;
  const std::int64_t out_stride = a.out_stride;
  NormSlice weights = a.factors;
  for (const auto* const stop = rows + tokens; rows != stop; ++rows) {
    RotationRow<float> row = *rows;
    const auto* in = reinterpret_cast<const Storage*>(in_bytes);
    auto* out = reinterpret_cast<Storage*>(out_bytes);
    for (std::int64_t left = a.heads; left > 0; left -= 4) {
      FourFloats scales = scales_of_four<E, 2 * kPairs>(in, in_stride, a.norm.eps);
      for (std::int64_t h = 0; h < 4; ++h, in += in_stride, out += out_stride) {
        const Norm norm{FullTag<float>(), hn::Broadcast<0>(scales)};
        scales = FourFloats(vextq_f32(scales.raw, scales.raw, 1));
        if constexpr (kIs16Bit) {  // results of float may alias these
          weights.x = opaque(weights.x);
          weights.y = opaque(weights.y);
          row.c = opaque(row.c);
          row.s = opaque(row.s);
        }
        const std::int64_t end = kIs16Bit ? opaque(Policy::end(kPairs)) : Policy::end(kPairs);
        for (std::int64_t i = 0; i < end; i += kStep) {
          prefetch_line<Prefetch::kRead>(reinterpret_cast<const char*>(in + i) + kNormPrefetch);
          if constexpr (Policy::kRuns == 2) {
            prefetch_line<Prefetch::kRead>(reinterpret_cast<const char*>(in + i + kPairs) +
                                           kNormPrefetch);
          }
          norm_line<Policy, kPairs>(norm, weights, row, in, out, i, kColumns);
        }
      }
    }
    in_bytes += a.in_token_bytes;
    out_bytes += a.out_token_bytes;
  }
}

/// The kernel for heads of the usual sizes, or null (see above). Sums of at most 16 whole rows, of
/// 256 elements, have no cascade.
template <class E, class Policy, class Norm>
auto choose_fours(const FusedHeads& a) -> void (*)(const FusedHeads&, const char*, char*,
                                                   const RotationRow<float>*, std::int64_t) {
  constexpr bool kIsFast = Policy::kRuns == 1 || sizeof(typename E::Storage) == 4;
  if (a.norm.has_mean || a.norm.sum_lanes != 4 || 2 * a.pairs != a.head_dim || a.heads % 4 != 0) {
    return nullptr;
  }
  if constexpr (kIsFast) {
    if (a.head_dim == 128) return fused_fours<E, Policy, Norm, 64>;
    if (a.head_dim == 64) return fused_fours<E, Policy, Norm, 32>;
    if (a.head_dim == 256) return fused_fours<E, Policy, Norm, 128>;
  }
  return nullptr;
}

#endif  // ROTARY_CPU_IS_NEON

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_NORM_FOUR_INL_H
