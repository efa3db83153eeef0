// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the RotationRow of a token: cos and sin times scale and growth, as its position or
// the caller's cos/sin table gives them.

#if defined(ROTARY_CPU_ROTATION_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROTATION_ROW_INL_H
#undef ROTARY_CPU_ROTATION_ROW_INL_H
#else
#define ROTARY_CPU_ROTATION_ROW_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "cpu/cos_sin-inl.h"
#include "cpu/rotation_row_buffer.h"
#include "cpu/row_layout-inl.h"
#include "cpu/table_row.h"
#include "cpu/token_heads.h"
#include "cpu/unit_row-inl.h"
#include "engine/cache.h"
#include "engine/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Builds the rows of one task; T is the arithmetic.
template <typename T>
class RotationRowBuilder {
 public:
  RotationRowBuilder(const RotateParams& params, RowLayout layout)
      : params_(params),
        buffer_(params.pairs, layout != RowLayout::kPerPair),
        reader_(params.positions),
        layout_(layout) {
    const AngleSource& source = params.source;
    if (source.phases == nullptr) return;
    is_unit_ = params.direction == Direction::kForward && source.divisor == nullptr &&
               source.phases->growth.empty() &&
               (!source.is_position || source.phases->scale == 1.0);
    is_simple_ = source.divisor == nullptr && source.phases->growth.empty() &&
                 (source.phases->precision == Precision::kExact || !source.is_position) &&
                 (source.phases->axes == 1 || params.positions.same_on_all_axes());
    const double scale = source.is_position ? source.phases->scale : 1.0;
    cos_scale_ = static_cast<T>(params.direction == Direction::kInverse ? 1.0 / scale : scale);
    sin_scale_ = params.direction == Direction::kForward ? cos_scale_ : -cos_scale_;
    const Positions& positions = params.positions;
    is_simple_range_ = is_simple_ && positions.kind() == Positions::Kind::kRange &&
                       positions.first().data == nullptr;
    is_cached_range_ = is_simple_range_ && is_unit_ && source.cache != nullptr;
    first_ = positions.start();
    step_ = positions.step();
  }

  /// How many rows can be valid at the same time, at least 2. Rows of the cache need no buffer.
  std::int64_t max_rows() const {
    const std::int64_t last = params_.operands.front().in.shape[1] - 1;
    const bool all_cached = layout_ == RowLayout::kPerPair && is_cached_range_ &&
                            cached_row(0) != nullptr && cached_row(last) != nullptr;
    return all_cached ? std::numeric_limits<std::int64_t>::max() : buffer_.max_rows();
  }

  /// Valid until the second call after this one: a row is in use while the next is built.
  HWY_INLINE RotationRow<T> build(std::int64_t batch, std::int64_t token) {
    slot_ = 1 - slot_;
    return build(batch, token, slot_);
  }

  /// Valid until the next call with the same slot, 0 .. max_rows() - 1.
  HWY_INLINE RotationRow<T> build(std::int64_t batch, std::int64_t token, std::int64_t slot) {
    slot_ = slot;
    const T* cached = is_cached_range_ ? cached_row(token) : nullptr;
    return arranged(cached != nullptr ? RotationRow<T>{cached, cached + params_.pairs}
                                      : computed_row(batch, token));
  }

  /// Whether build_range() computes rows from that token on.
  bool computes_range([[maybe_unused]] std::int64_t token) const {
#if ROTARY_CPU_IS_NEON
    if constexpr (sizeof(T) == sizeof(float)) {
      const std::int64_t first = first_ + token;
      return is_simple_range_ && step_ == 1 && first >= 0 && first >> 32 == 0 &&
             (params_.source.cache == nullptr || params_.source.cache->row(first) == nullptr);
    }
#endif
    return false;
  }

  /// The rows of `count` tokens of a batch row in slots 0 .. count - 1. False, and nothing done, if
  /// they must be built one by one.
  bool build_range([[maybe_unused]] std::int64_t token, [[maybe_unused]] std::int64_t count,
                   [[maybe_unused]] RotationRow<T>* rows) {
#if ROTARY_CPU_IS_NEON
    if constexpr (sizeof(T) == sizeof(float)) {
      const std::int64_t first = first_ + token;
      if (!computes_range(token) || (first + count) >> 32 != 0) return false;
      const PhaseTable& table = *params_.source.phases;
      cos_sin_of_range(static_cast<std::uint32_t>(first), static_cast<std::size_t>(count),
                       table.sums_low.data(), table.sums_high.data(),
                       static_cast<std::size_t>(table.pairs), buffer_.c(0), buffer_.s(0),
                       static_cast<std::size_t>(buffer_.c(1) - buffer_.c(0)));
      for (slot_ = 0; slot_ < count; ++slot_) {
        T* const c = buffer_.c(slot_);
        T* const s = buffer_.s(slot_);
        if (!is_unit_) scale_row(c, s, params_.pairs, cos_scale_, sin_scale_, c, s);
        rows[slot_] = arranged({c, s});
      }
      return true;
    }
#endif
    return false;
  }

 private:
  /// With its other layout, if a kernel reads one.
  HWY_INLINE RotationRow<T> arranged(RotationRow<T> row) {
    if (layout_ == RowLayout::kPerPair) return row;
    row.arranged_c = buffer_.arranged_c(slot_);
    row.arranged_s = buffer_.arranged_s(slot_);
    if (layout_ == RowLayout::kPerElement) {
      to_per_element(row.c, row.s, params_.pairs, buffer_.arranged_c(slot_),
                     buffer_.arranged_s(slot_));
    } else {
      row.odd_begin = (params_.pairs + 1) / 2;
      to_even_odd(row.c, params_.pairs, row.odd_begin, buffer_.arranged_c(slot_));
      to_even_odd(row.s, params_.pairs, row.odd_begin, buffer_.arranged_s(slot_));
    }
    return row;
  }

  /// The most frequent case, inlined: a range of positions in the cos/sin cache.
  HWY_INLINE const T* cached_row(std::int64_t token) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return params_.source.cache->row(first_ + step_ * token);
    } else {
      return nullptr;
    }
  }

  HWY_NOINLINE RotationRow<T> computed_row(std::int64_t batch, std::int64_t token) {
    return params_.source.table != nullptr ? from_table(batch, token) : from_phases(batch, token);
  }

  RotationRow<T> from_phases(std::int64_t batch, std::int64_t token) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (is_simple_range_) return from_integer(first_ + step_ * token);
      if (is_simple_) {
        const Position p = reader_.at(0, batch, token);
        if (!p.is_real) return from_integer(p.integer);
      }
    }
    const AngleSource& source = params_.source;
    AxisPositions positions;
    read_axis_positions(params_.positions, reader_, source.phases->axes, batch, token, positions);
    const T* c = nullptr;
    const T* s = nullptr;
    if constexpr (sizeof(T) == sizeof(float)) {
      if (source.cache != nullptr && positions.is_one_integer) {
        c = source.cache->row(positions.at[0].integer);
        if (c != nullptr) s = c + params_.pairs;
      }
    }
    if (c == nullptr) {
      unit_row(source, positions, buffer_.c(slot_), buffer_.s(slot_));
      c = buffer_.c(slot_);
      s = buffer_.s(slot_);
    }
    if (is_unit_) return {c, s};
    apply_magnitude(params_, positions, c, s, buffer_.c(slot_), buffer_.s(slot_));
    return {buffer_.c(slot_), buffer_.s(slot_)};
  }

  /// Fast path of from_phases() for is_simple_ and an integer position: the same bits.
  RotationRow<T> from_integer(std::int64_t position) {
    const AngleSource& source = params_.source;
    const T* c = source.cache != nullptr ? source.cache->row(position) : nullptr;
    const T* s = c != nullptr ? c + params_.pairs : nullptr;
    if (c == nullptr) {
      const PhaseTable& table = *source.phases;
#if HWY_TARGET != HWY_SCALAR
      cos_sin_of(static_cast<std::uint64_t>(position), table.sums_low.data(),
                 table.sums_high.data(), static_cast<std::size_t>(table.pairs), buffer_.c(slot_),
                 buffer_.s(slot_));
#else
      (void)table;
      AxisPositions positions;
      positions.is_one_integer = true;
      positions.fixed[0] = to_fixed(position);
      unit_row(source, positions, buffer_.c(slot_), buffer_.s(slot_));
#endif
      c = buffer_.c(slot_);
      s = buffer_.s(slot_);
    }
    if (is_unit_) return {c, s};
    scale_row(c, s, params_.pairs, cos_scale_, sin_scale_, buffer_.c(slot_), buffer_.s(slot_));
    return {buffer_.c(slot_), buffer_.s(slot_)};
  }

  RotationRow<T> from_table(std::int64_t batch, std::int64_t token) {
    const std::int64_t row = reader_.at(0, batch, token).integer;
    read_table_row(params_, batch, row, buffer_.c(slot_), buffer_.s(slot_));
    return {buffer_.c(slot_), buffer_.s(slot_)};
  }

  const RotateParams& params_;
  RotationRowBuffer<T> buffer_;
  std::int64_t slot_ = 0;  // of the row being built
  PositionReader reader_;
  RowLayout layout_;
  bool is_unit_ = false;          // z = e^(i phase), without scale, growth or conjugation
  bool is_simple_ = false;        // z = scale * that, of one exact phase per pair
  bool is_simple_range_ = false;  // is_simple_, for one range of positions
  bool is_cached_range_ = false;  // both, for such a range, with a cos/sin cache
  std::int64_t first_ = 0;        // position of token 0 of that range
  std::int64_t step_ = 0;
  T cos_scale_ = 1;  // is_simple_: the scale, with the sign of the direction
  T sin_scale_ = 1;
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROTATION_ROW_INL_H
