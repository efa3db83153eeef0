// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: a norm and the rotation that follows, in registers, for heads with contiguous
// elements and equal input and output pairing. Some heads of a token are summed; then their columns
// (pair_policies-inl.h) are loaded again, from the first-level cache, scaled, rounded to the
// tensor's type if asked, rotated and stored.

#if defined(ROTARY_CPU_NORM_FUSED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_NORM_FUSED_INL_H
#undef ROTARY_CPU_NORM_FUSED_INL_H
#else
#define ROTARY_CPU_NORM_FUSED_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/columns-inl.h"
#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/norm_columns-inl.h"
#include "cpu/norm_four-inl.h"
#include "cpu/norm_heads-inl.h"
#include "cpu/norm_sums-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/rotate_dense-inl.h"
#include "cpu/token_heads.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Stores results as the plan says: one kernel for both, since a branch that is always taken costs
/// less than the time to compile two.
struct PlannedWriter {
  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, hn::TFromD<D>* to) const {
    if constexpr (kHasStreamStores) {
      if (streams) return hn::Stream(v, d, to);
    }
    hn::StoreU(v, d, to);
  }
  bool streams;
};

/// Whether every other head is prefetched while norms are found, so that memory is busy then, too.
/// For float32 in place, whose time is that of memory; others gain nothing.
template <typename Storage>
inline constexpr bool kMaySplitPrefetch =
    HWY_ARCH_X86 && kHasVectors && sizeof(Storage) == sizeof(float);

/// That half of the prefetches: of the odd ones of the heads that follow some heads.
template <typename Storage>
struct OddHeadPrefetch {
  HWY_INLINE void operator()(std::int64_t h) const {
    if constexpr (kMaySplitPrefetch<Storage>) {
      if (!is_on || h % 2 == 0) return;
      const auto* const head = reinterpret_cast<const char*>(next + h * stride);
      for (std::int64_t at = 0; at < bytes; at += 64) prefetch_line<kPrefetchInPlace>(head + at);
    }
  }
  bool is_on;
  const Storage* next;
  std::int64_t stride, bytes;
};

/// Prefetches columns of heads that follow later, where the inputs are in memory. For stores too
/// where they are in place.
template <class Policy, std::size_t kCount, class D>
class ColumnPrefetch {
 public:
  ColumnPrefetch(const FusedHeads& a, std::int64_t heads)
      : is_on_(a.prefetches),
        in_place_(a.in_place),
        distance_(heads * a.in_stride),
        pairs_(a.pairs) {}

  HWY_INLINE void operator()(const typename Policy::Storage* in, std::int64_t h) const {
    if constexpr (HWY_ARCH_X86 && kHasVectors) {
      constexpr bool kMaySplit = kMaySplitPrefetch<typename Policy::Storage>;
      if (!is_on_ || (kMaySplit && in_place_ && h % 2 != 0)) return;
      in += distance_;
      in_place_ ? touch<kPrefetchInPlace>(in) : touch<Prefetch::kRead>(in);
    }
  }

 private:
  template <Prefetch kPrefetch>
  HWY_INLINE void touch(const typename Policy::Storage* in) const {
    constexpr std::size_t kElements = kCount * kMaxLanes<D> * Policy::kElementsPerLane;
    for (std::int64_t run = 0; run < Policy::kRuns; ++run) {
      const char* const from = reinterpret_cast<const char*>(in + run * pairs_);
      for (std::size_t at = 0; at < kElements * sizeof(*in); at += 64) {
        prefetch_line<kPrefetch>(from + at);
      }
    }
  }

  bool is_on_, in_place_;
  std::int64_t distance_, pairs_;
};

/// Columns from element i on, of some heads. cos, sin and factors stay in registers.
template <class Policy, template <class, class> class Norm, class Rounded, class D,
          std::size_t... kColumns>
HWY_INLINE void fused_columns(D d, const FusedHeads& a, const HeadMoments& moments,
                              const typename Policy::Storage* in, typename Policy::Storage* out,
                              std::int64_t heads, const RotationRow<float>& row, std::int64_t i,
                              std::index_sequence<kColumns...> columns) {
  using V = hn::Vec<D>;
  using Data = typename Policy::template Data<V>;
  const std::int64_t width = column_width<Policy>(d);
  const auto at = [i, width](std::size_t column)
                      HWY_ATTR { return i + static_cast<std::int64_t>(column) * width; };
  const typename Policy::template Table<V> z[] = {Policy::table(d, row, at(kColumns))...};
  const Data factors[] = {SliceLoader<Policy>::load(d, a.factors, at(kColumns))...};
  in += i;
  out += i;
  PlannedWriter writer{a.streams};
  const ColumnPrefetch<Policy, sizeof...(kColumns), D> prefetch(a, heads);
  // Not read again for each head: for the compiler, any store may change what `a` refers to.
  const std::int64_t pairs = a.pairs;
  const std::int64_t in_stride = a.in_stride;
  const std::int64_t out_stride = a.out_stride;
  for (std::int64_t h = 0; h < heads; ++h, in += in_stride, out += out_stride) {
    prefetch(in, h);
    const Norm<Rounded, D> norm(d, moments, h);
    const Data data[] = {
        Policy::load(d, in + static_cast<std::int64_t>(kColumns) * width, pairs)...};
    if constexpr (Norm<Rounded, D>::kHasBias) {
      const Data rotated[] = {
          Policy::rotate(d, z[kColumns],
                         normalised(norm, data[kColumns], factors[kColumns],
                                    SliceLoader<Policy>::load(d, a.biases, at(kColumns))))...};
      store_columns<Policy>(writer, d, rotated, out, pairs, columns);
    } else {
      const Data rotated[] = {Policy::rotate(
          d, z[kColumns],
          normalised(norm, data[kColumns], factors[kColumns], factors[kColumns]))...};
      store_columns<Policy>(writer, d, rotated, out, pairs, columns);
    }
  }
}

/// The pairs from element i of a run on, one at a time.
template <class E, template <class, class> class Norm, class Rounded, Pairing kPairing>
HWY_NOINLINE void fused_tail(const FusedHeads& a, const HeadMoments& moments,
                             const typename E::Storage* in, typename E::Storage* out,
                             std::int64_t heads, const RotationRow<float>& row, std::int64_t i) {
  using Policy = HalfPairs<E>;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  const OneTag<float> one;
  CachedWriter writer;
  const std::int64_t distance = kHalf ? a.pairs : 1;  // from x to y
  const auto value = [one](const float* table, std::int64_t at)
                         HWY_ATTR { return hn::LoadU(one, table + at); };
  using Data = Pairs<hn::Vec<OneTag<float>>>;
  for (std::int64_t pair = kHalf ? i : i / 2; pair < a.pairs; ++pair) {
    const auto z = Policy::table(one, row, pair);
    const std::int64_t at = kHalf ? pair : 2 * pair;
    const Data factor{value(a.factors.all, at), value(a.factors.all, at + distance)};
    const Data bias{value(a.biases.all, at), value(a.biases.all, at + distance)};
    for (std::int64_t h = 0; h < heads; ++h) {
      const Norm<Rounded, OneTag<float>> norm(one, moments, h);
      const auto v = Policy::load(one, in + h * a.in_stride + at, distance);
      const auto rotated = Policy::rotate(one, z, normalised(norm, v, factor, bias));
      auto* const to = out + h * a.out_stride + at;
      Policy::template store<0>(writer, one, rotated, to, distance);
      Policy::template store<1>(writer, one, rotated, to, distance);
    }
  }
}

/// Elements first .. last - 1 of the heads, which are not rotated. Scaled: as in ScaleElements.
template <class E, class Scaled>
HWY_NOINLINE void norm_unrotated(const FusedHeads& a, const HeadMoments& moments,
                                 const typename E::Storage* in, typename E::Storage* out,
                                 std::int64_t heads, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kTogether = 64;
  float memory[kTogether];
  for (std::int64_t h = 0; h < heads; ++h, in += a.in_stride, out += a.out_stride) {
    for (std::int64_t i = first; i < last; i += kTogether) {
      const std::int64_t n = std::min(kTogether, last - i);
      widen_head<E>(in + i, 1, n, memory);
      const NormTable some{a.table.factors + i, a.norm.has_mean ? a.table.biases + i : nullptr};
      const ScaleElements<Scaled> scaled{a.norm.has_mean, moments.means[h], moments.scales[h],
                                         some};
      scale_head<E>(memory, scaled, n, out + i, 1);
    }
  }
}

/// So many columns at a time: a cache line of each run, where registers suffice.
template <class Policy>
inline constexpr std::size_t kFusedColumns = !kHasVectors                    ? 1
                                             : Policy::kElementsPerLane == 1 ? 4
                                                                             : 2;

/// The heads of one token. E: of the tensor; Rounded: what the norm is rounded to.
template <class E, class Policy, template <class, class> class Norm, class Rounded,
          Pairing kPairing>
void fused_token(const FusedHeads& a, const char* in_bytes, char* out_bytes,
                 const RotationRow<float>& row) {
  using Storage = typename E::Storage;
  using Scaled = typename Norm<Rounded, OneTag<float>>::Scaled;
  const auto* in = reinterpret_cast<const Storage*>(in_bytes);
  auto* out = reinterpret_cast<Storage*>(out_bytes);
  const std::int64_t end = Policy::end(a.pairs);
  const std::int64_t rest = a.rotary_offset + 2 * a.pairs;
  HeadMoments moments;
  for (std::int64_t first = 0; first < a.heads; first += kHeadsTogether) {
    const std::int64_t heads = std::min(kHeadsTogether, a.heads - first);
    const OddHeadPrefetch<Storage> prefetch{
        .is_on = a.prefetches && a.in_place,
        .next = in + heads * a.in_stride,
        .stride = a.in_stride,
        .bytes = a.head_dim * static_cast<std::int64_t>(sizeof(Storage))};
    find_moments<E>(in, a.in_stride, heads, a.head_dim, a.norm, prefetch, moments);
    const auto* slice = in + a.rotary_offset;
    auto* to = out + a.rotary_offset;
    std::int64_t i = 0;
    if constexpr (kHasBlocks) {
      const FullTag<float> d;
      const std::int64_t width = column_width<Policy>(d);
      constexpr auto kStep = static_cast<std::int64_t>(kFusedColumns<Policy>);
      for (; i + kStep * width <= end; i += kStep * width) {
        fused_columns<Policy, Norm, Rounded>(d, a, moments, slice, to, heads, row, i,
                                             std::make_index_sequence<kFusedColumns<Policy>>());
      }
      for (; i + width <= end; i += width) {
        fused_columns<Policy, Norm, Rounded>(d, a, moments, slice, to, heads, row, i,
                                             std::make_index_sequence<1>());
      }
    }
    if (i < end) {
      fused_tail<typename Policy::Tail, Norm, Rounded, kPairing>(a, moments, slice, to, heads, row,
                                                                 i);
    }
    if (a.rotary_offset > 0) {
      norm_unrotated<E, Scaled>(a, moments, in, out, heads, 0, a.rotary_offset);
    }
    if (rest < a.head_dim) norm_unrotated<E, Scaled>(a, moments, in, out, heads, rest, a.head_dim);
    in += heads * a.in_stride;
    out += heads * a.out_stride;
  }
}

/// FusedKernel::run of any heads.
template <class E, class Policy, template <class, class> class Norm, class Rounded,
          Pairing kPairing>
void fused_any(const FusedHeads& a, const char* in, char* out, const RotationRow<float>* rows,
               std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    fused_token<E, Policy, Norm, Rounded, kPairing>(a, in, out, rows[t]);
    in += a.in_token_bytes;
    out += a.out_token_bytes;
  }
}

/// Of `tokens` tokens by consecutive rows.
using RunFused = void (*)(const FusedHeads& a, const char* in, char* out,
                          const RotationRow<float>* rows, std::int64_t tokens);

/// A kernel and the layout of cos and sin that it reads.
struct FusedKernel {
  RunFused run;
  RowLayout row_layout;
};

/// Rms: the RMS norm, if it is none with a mean.
template <class E, class Policy, template <class, class> class Rms, class Rounded, Pairing kPairing>
FusedKernel choose_fused(const FusedHeads& a) {
  const RowLayout layout = kHasBlocks ? Policy::kRowLayout : RowLayout::kPerPair;
#if ROTARY_CPU_IS_NEON
  if (const RunFused run = choose_fours<E, Policy, Rms<Rounded, FullTag<float>>>(a))
    return {run, layout};
#endif
  if (a.norm.has_mean) return {fused_any<E, Policy, LayerNormOfHead, Rounded, kPairing>, layout};
  return {fused_any<E, Policy, Rms, Rounded, kPairing>, layout};
}

template <class E>
FusedKernel choose_fused(const FusedHeads& a, Pairing pairing, NormRounding rounding) {
  using Half = typename PoliciesOf<E>::Half;
  using Interleaved = typename PoliciesOf<E>::Interleaved;
  constexpr auto kHalf = Pairing::kHalf;
  constexpr auto kInterleaved = Pairing::kInterleaved;
  if constexpr (!std::is_same_v<E, Float32>) {
    if (rounding == NormRounding::kTensor) {
      return pairing == kHalf ? choose_fused<E, Half, RmsOfHead, E, kHalf>(a)
                              : choose_fused<E, Interleaved, RmsOfHead, E, kInterleaved>(a);
    }
    if (rounding == NormRounding::kEveryStep) {
      return pairing == kHalf ? choose_fused<E, Half, RmsInStepsOfHead, E, kHalf>(a)
                              : choose_fused<E, Interleaved, RmsInStepsOfHead, E, kInterleaved>(a);
    }
  }
  return pairing == kHalf ? choose_fused<E, Half, RmsOfHead, Float32, kHalf>(a)
                          : choose_fused<E, Interleaved, RmsOfHead, Float32, kInterleaved>(a);
}

/// The kernel of heads of that type. `a` needs no tables yet.
inline FusedKernel choose_fused(const FusedHeads& a, DType dtype, Pairing pairing,
                                NormRounding rounding) {
  if (dtype == DType::kBFloat16) return choose_fused<BFloat16>(a, pairing, rounding);
  if (dtype == DType::kFloat16) return choose_fused<Float16>(a, pairing, rounding);
  return choose_fused<Float32>(a, pairing, rounding);
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_NORM_FUSED_INL_H
