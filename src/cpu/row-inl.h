// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: from the position of a token to the row of complex numbers that its pairs are
// multiplied by.

#if defined(ROTARY_CPU_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROW_INL_H
#undef ROTARY_CPU_ROW_INL_H
#else
#define ROTARY_CPU_ROW_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/cos_sin-inl.h"
#include "cpu/plan.h"
#include "cpu/row_memory.h"
#include "cpu/table_row.h"
#include "cpu/turns-inl.h"
#include "cpu/vectors-inl.h"
#include "rope/cache.h"
#include "rope/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// A token's position on each axis.
struct Place {
  Position at[kMostAxes];
  FixedPosition fixed[kMostAxes];
  bool same_on_all_axes;  // and whole: `fixed[0].count` is all there is to know
};

HWY_INLINE void read_place(const Positions& positions, PositionReader& reader, std::int64_t axes,
                           std::int64_t batch, std::int64_t token, Place& place) {
  place.same_on_all_axes = axes == 1 || positions.same_on_all_axes();
  for (std::int64_t a = 0; a < axes; ++a) {
    const bool again = place.same_on_all_axes && a > 0;
    const Position p = again ? place.at[0] : reader.at(a, batch, token);
    place.at[a] = p;
    place.fixed[a] = p.is_real ? to_fixed(p.real) : to_fixed(p.integer);
  }
  place.same_on_all_axes = place.same_on_all_axes && !place.at[0].is_real;
}

/// Adds (or with kSign -1 subtracts) the phases of the pairs first .. first + count - 1.
template <int kSign>
HWY_INLINE void add_phases(const PhaseTable& table, const Place& place, std::int64_t first,
                           std::size_t count, std::uint64_t* HWY_RESTRICT phases) {
  constexpr auto kFactor = static_cast<std::uint64_t>(std::int64_t{kSign});
  if (place.same_on_all_axes) {
    const std::uint64_t position = kFactor * place.fixed[0].count;
    const std::uint64_t* HWY_RESTRICT sums = table.sums.data() + first;
    for (std::size_t i = 0; i < count; ++i) phases[i] += position * sums[i];
    return;
  }
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const FixedPosition& x = place.fixed[a];
    const std::uint64_t* HWY_RESTRICT fractions = table.fractions.data() + a * table.pairs + first;
    const std::uint64_t position = x.negative ? ~(kFactor * x.count) + 1 : kFactor * x.count;
    for (std::size_t i = 0; i < count; ++i) phases[i] += position * fractions[i];
    if (x.rest == 0) continue;
    const std::uint64_t* wholes = table.wholes.data() + a * table.pairs + first;
    const std::uint64_t sign = x.negative ? ~kFactor + 1 : kFactor;
    for (std::size_t i = 0; i < count; ++i) {
      phases[i] += sign * (multiply_high(x.rest, fractions[i]) + x.rest * wholes[i]);
    }
  }
}

/// cos and sin of the angle in float32, as transformers forms it; through double, so that they are
/// rounded correctly on every platform.
inline CosSin<double> reference_cos_sin(const PhaseTable& table, const Place& place,
                                        std::int64_t pair) {
  float angle = 0.0f;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const float f = table.radians[static_cast<std::size_t>(a * table.pairs + pair)];
    if (f != 0.0f) angle += f * static_cast<float>(place.at[a].real);
  }
  const auto rounded = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  return {rounded(std::cos(static_cast<double>(angle))),
          rounded(std::sin(static_cast<double>(angle)))};
}

/// Of one table, whatever its precision.
inline CosSin<double> any_cos_sin(const PhaseTable& table, const Place& place, std::int64_t pair) {
  if (table.precision == Precision::kReference) return reference_cos_sin(table, place, pair);
  std::uint64_t phase = 0;
  add_phases<1>(table, place, pair, 1, &phase);
  return cos_sin<double>(phase);
}

/// z / |z| of `count` pairs from `first` on, at most kPhases; writes up to the next multiple of 64.
template <typename T>
HWY_INLINE void unit_pairs(const Source& source, const Place& place, std::int64_t first,
                           std::size_t count, T* c, T* s) {
  const PhaseTable& table = *source.phases;
  const PhaseTable* divisor = source.divisor;
  const bool exact = (table.precision == Precision::kExact || !source.is_position) &&
                     (divisor == nullptr || divisor->precision == Precision::kExact);
  if (exact) {
    HWY_ALIGN std::uint64_t phases[kPhases];
    std::fill_n(phases, count, std::uint64_t{0});
    add_phases<1>(table, place, first, count, phases);
    if (divisor != nullptr) add_phases<-1>(*divisor, place, first, count, phases);
    cos_sin_of(phases, count, c, s);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t pair = first + static_cast<std::int64_t>(i);
    CosSin<double> z = any_cos_sin(table, place, pair);
    if (divisor != nullptr) {
      const CosSin<double> w = any_cos_sin(*divisor, place, pair);
      z = {z.cos * w.cos + z.sin * w.sin, z.sin * w.cos - z.cos * w.sin};
    }
    c[i] = static_cast<T>(z.cos);
    s[i] = static_cast<T>(z.sin);
  }
}

/// The same for all pairs.
template <typename T>
HWY_INLINE void unit_row(const Source& source, const Place& place, T* c, T* s) {
  const std::int64_t pairs = source.phases->pairs;
  for (std::int64_t i = 0; i < pairs; i += static_cast<std::int64_t>(kPhases)) {
    const std::size_t count = std::min(kPhases, static_cast<std::size_t>(pairs - i));
    unit_pairs(source, place, i, count, c + i, s + i);
  }
}

inline double growth_exponent(const PhaseTable& table, const Place& place, std::int64_t pair,
                              bool is_position) {
  if (table.growth.empty()) return 0.0;
  const double origin = is_position ? table.growth_origin : 0.0;
  double exponent = 0.0;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    exponent += table.growth[static_cast<std::size_t>(a * table.pairs + pair)] *
                (place.at[a].real - origin);
  }
  return exponent;
}

template <typename T>
HWY_INLINE void scaled_row(const T* c, const T* s, std::int64_t pairs, T cos_scale, T sin_scale,
                           T* scaled_c, T* scaled_s) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    scaled_c[i] = c[i] * cos_scale;
    scaled_s[i] = s[i] * sin_scale;
  }
}

/// Multiplies by |z| (or 1/|z|) and conjugates, as the direction asks.
template <typename T>
HWY_INLINE void sized_row(const Job& job, const Place& place, const T* c, const T* s, T* sized_c,
                          T* sized_s) {
  const Source& source = job.source;
  const PhaseTable& table = *source.phases;
  const PhaseTable* divisor = source.divisor;
  double scale = source.is_position ? table.scale : 1.0;
  if (divisor != nullptr) scale /= divisor->scale;
  const bool grows = !table.growth.empty() || (divisor != nullptr && !divisor->growth.empty());
  const bool inverse = job.direction == Direction::kInverse;
  const T sign = job.direction == Direction::kForward ? T{1} : T{-1};
  if (!grows) {
    const T size = static_cast<T>(inverse ? 1.0 / scale : scale);
    scaled_row(c, s, table.pairs, size, sign * size, sized_c, sized_s);
    return;
  }
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    double exponent = growth_exponent(table, place, i, source.is_position);
    if (divisor != nullptr) exponent -= growth_exponent(*divisor, place, i, true);
    const double size = scale * std::exp(exponent);
    const T factor = static_cast<T>(inverse ? 1.0 / size : size);
    sized_c[i] = c[i] * factor;
    sized_s[i] = s[i] * (sign * factor);
  }
}

#if HWY_ARCH_X86 && ROTARY_CPU_HAS_FMA
/// spread_row with whole vectors; returns where it stopped.
HWY_INLINE std::int64_t spread_vectors(const float* c, const float* s, std::int64_t pairs,
                                       float* wide_c, float* wide_s) {
  const FullTag<float> d;
  const hn::Half<decltype(d)> half;
  constexpr std::size_t kLanes = kMaxLanes<FullTag<float>>;
  HWY_ALIGN std::int32_t twice[kLanes];
  HWY_ALIGN std::uint32_t minus[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    twice[lane] = static_cast<std::int32_t>(lane / 2);
    minus[lane] = lane % 2 == 0 ? 0x80000000u : 0u;
  }
  const auto indices = hn::SetTableIndices(d, twice);
  const auto signs = hn::BitCast(d, hn::Load(hn::RebindToUnsigned<decltype(d)>(), minus));
  constexpr auto kStep = static_cast<std::int64_t>(kLanes / 2);
  std::int64_t i = 0;
  for (; i + kStep <= pairs; i += kStep) {
    const auto cos = hn::ZeroExtendVector(d, hn::LoadU(half, c + i));
    const auto sin = hn::ZeroExtendVector(d, hn::LoadU(half, s + i));
    hn::StoreU(hn::TableLookupLanes(cos, indices), d, wide_c + 2 * i);
    hn::StoreU(hn::Xor(hn::TableLookupLanes(sin, indices), signs), d, wide_s + 2 * i);
  }
  return i;
}
#endif

/// [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...].
template <typename T>
HWY_INLINE void spread_row(const T* c, const T* s, std::int64_t pairs, T* wide_c, T* wide_s) {
  std::int64_t i = 0;
#if HWY_ARCH_X86 && ROTARY_CPU_HAS_FMA
  if constexpr (sizeof(T) == sizeof(float)) i = spread_vectors(c, s, pairs, wide_c, wide_s);
#endif
#if HWY_TARGET != HWY_SCALAR
  const BlockTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= pairs; i += lanes) {
    const auto cos = hn::LoadU(d, c + i);
    const auto sin = hn::LoadU(d, s + i);
    const auto minus = hn::Neg(sin);
    hn::StoreU(hn::InterleaveLower(d, cos, cos), d, wide_c + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, cos, cos), d, wide_c + 2 * i + lanes);
    hn::StoreU(hn::InterleaveLower(d, minus, sin), d, wide_s + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, minus, sin), d, wide_s + 2 * i + lanes);
  }
#endif
  for (; i < pairs; ++i) {
    wide_c[2 * i] = wide_c[2 * i + 1] = c[i];
    wide_s[2 * i] = -s[i];
    wide_s[2 * i + 1] = s[i];
  }
}

/// [c0 c2 c4 ... c1 c3 ...], odd ones from `odd` on. The last of an odd number of pairs is left
/// out: it turns alone.
template <typename T>
HWY_INLINE void sort_row(const T* HWY_RESTRICT from, std::int64_t pairs, std::int64_t odd,
                         T* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < pairs / 2; ++i) {
    to[i] = from[2 * i];
    to[odd + i] = from[2 * i + 1];
  }
}

/// Makes the rows of one task, in one arithmetic.
template <typename T>
class RowMaker {
 public:
  RowMaker(const Job& job, RowForm form)
      : job_(job),
        rooms_{RowMemory<T>(job.pairs), RowMemory<T>(job.pairs)},
        reader_(job.positions),
        form_(form) {
    const Source& source = job.source;
    if (source.phases == nullptr) return;
    is_plain_ = job.direction == Direction::kForward && source.divisor == nullptr &&
                source.phases->growth.empty() &&
                (!source.is_position || source.phases->scale == 1.0);
    is_usual_ = source.divisor == nullptr && source.phases->growth.empty() &&
                (source.phases->precision == Precision::kExact || !source.is_position) &&
                (source.phases->axes == 1 || job.positions.same_on_all_axes());
    const double scale = source.is_position ? source.phases->scale : 1.0;
    cos_scale_ = static_cast<T>(job.direction == Direction::kInverse ? 1.0 / scale : scale);
    sin_scale_ = job.direction == Direction::kForward ? cos_scale_ : -cos_scale_;
    const Positions& positions = job.positions;
    is_ready_ = is_usual_ && is_plain_ && source.cache != nullptr &&
                positions.kind() == Positions::Kind::kRange && positions.first().data == nullptr;
    first_ = positions.start();
    step_ = positions.step();
  }

  /// Valid until the call after the next: one row is in use while the next is made.
  HWY_INLINE Row<T> make(std::int64_t batch, std::int64_t token) {
    memory_ = memory_ == &rooms_[0] ? &rooms_[1] : &rooms_[0];
    const T* ready = is_ready_ ? ready_row(token) : nullptr;
    Row<T> row = ready != nullptr ? Row<T>{ready, ready + job_.pairs} : made_row(batch, token);
    if (form_ == RowForm::kPlain) return row;
    row.other_c = memory_->other_c();
    row.other_s = memory_->other_s();
    if (form_ == RowForm::kSpread) {
      spread_row(row.c, row.s, job_.pairs, memory_->other_c(), memory_->other_s());
    } else {
      row.odd = (job_.pairs + 1) / 2;
      sort_row(row.c, job_.pairs, row.odd, memory_->other_c());
      sort_row(row.s, job_.pairs, row.odd, memory_->other_s());
    }
    return row;
  }

 private:
  /// The most frequent case, without a call: a range of positions, cos and sin tabulated.
  HWY_INLINE const T* ready_row(std::int64_t token) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return job_.source.cache->row(first_ + step_ * token);
    } else {
      return nullptr;
    }
  }

  HWY_NOINLINE Row<T> made_row(std::int64_t batch, std::int64_t token) {
    return job_.source.table != nullptr ? from_table(batch, token) : from_phases(batch, token);
  }

  Row<T> from_phases(std::int64_t batch, std::int64_t token) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (is_usual_) {
        const Position p = reader_.at(0, batch, token);
        if (!p.is_real) return from_integer(p.integer);
      }
    }
    const Source& source = job_.source;
    Place place;
    read_place(job_.positions, reader_, source.phases->axes, batch, token, place);
    const T* c = nullptr;
    const T* s = nullptr;
    if constexpr (sizeof(T) == sizeof(float)) {
      if (source.cache != nullptr && place.same_on_all_axes) {
        c = source.cache->row(place.at[0].integer);
        if (c != nullptr) s = c + job_.pairs;
      }
    }
    if (c == nullptr) {
      unit_row(source, place, memory_->c(), memory_->s());
      c = memory_->c();
      s = memory_->s();
    }
    if (is_plain_) return {c, s};
    sized_row(job_, place, c, s, memory_->c(), memory_->s());
    return {memory_->c(), memory_->s()};
  }

  /// One whole position, exact or tabulated, nothing that grows: the same bits in less time.
  Row<T> from_integer(std::int64_t position) {
    const Source& source = job_.source;
    const T* c = source.cache != nullptr ? source.cache->row(position) : nullptr;
    const T* s = c != nullptr ? c + job_.pairs : nullptr;
    if (c == nullptr) {
      const PhaseTable& table = *source.phases;
#if HWY_TARGET != HWY_SCALAR
      cos_sin_of(static_cast<std::uint64_t>(position), table.sums_low.data(),
                 table.sums_high.data(), static_cast<std::size_t>(table.pairs), memory_->c(),
                 memory_->s());
#else
      (void)table;
      Place place;
      place.same_on_all_axes = true;
      place.fixed[0] = to_fixed(position);
      unit_row(source, place, memory_->c(), memory_->s());
#endif
      c = memory_->c();
      s = memory_->s();
    }
    if (is_plain_) return {c, s};
    scaled_row(c, s, job_.pairs, cos_scale_, sin_scale_, memory_->c(), memory_->s());
    return {memory_->c(), memory_->s()};
  }

  Row<T> from_table(std::int64_t batch, std::int64_t token) {
    const std::int64_t at = reader_.at(0, batch, token).integer;
    read_table_row(job_, batch, at, memory_->c(), memory_->s());
    return {memory_->c(), memory_->s()};
  }

  const Job& job_;
  RowMemory<T> rooms_[2];
  RowMemory<T>* memory_ = nullptr;  // of the row that is made
  PositionReader reader_;
  RowForm form_;
  bool is_plain_ = false;   // z is e^(i phase) and nothing else
  bool is_usual_ = false;   // z is a number times that, from one exact phase a pair
  bool is_ready_ = false;   // besides, of a range of positions, and there is a table of it
  std::int64_t first_ = 0;  // position of token 0, where that is so
  std::int64_t step_ = 0;
  T cos_scale_ = 1;  // with the sign of the direction
  T sin_scale_ = 1;
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROW_INL_H
