// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/angle_params.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rotary::internal::cuda {
namespace {

const void* offset_by(const ConstTensorView& view, std::int64_t elements) noexcept {
  return static_cast<const char*>(view.data) +
         elements * static_cast<std::int64_t>(size_of(view.dtype));
}

void fill_packed(const Positions& from, const TokenRange& range, PositionParams& to) noexcept {
  const ConstTensorView& boundaries = from.boundaries();
  to.step = from.step();
  to.type = boundaries.dtype;
  to.boundaries = boundaries.data;
  to.first_token = range.first_token;
  to.sequences = static_cast<std::int32_t>(boundaries.shape[0]) - 1;
  to.first = to.sequences > 0 ? from.first().data : nullptr;
}

/// start + step * (first_token + token), or first[batch] instead of start.
void fill_range(const Positions& from, const TokenRange& range, PositionParams& to) noexcept {
  const ConstTensorView& first = from.first();
  to.step = range.batch_as_tokens ? 0 : from.step();
  const auto begin = static_cast<std::uint64_t>(first.data != nullptr ? 0 : from.start());
  to.start = static_cast<std::int64_t>(begin + static_cast<std::uint64_t>(to.step) *
                                                   static_cast<std::uint64_t>(range.first_token));
  if (first.data == nullptr) return;
  to.type = first.dtype;
  const std::int64_t stride = first.strides[0];
  (range.batch_as_tokens ? to.token_stride : to.batch_stride) = stride;
  to.ids =
      offset_by(first, (range.batch_as_tokens ? range.first_token : range.first_batch) * stride);
}

std::size_t index(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

/// Whether every angle is an exact fixed-point product, of the divisor too.
bool is_exact(const AngleSource& source) noexcept {
  return (source.phases->precision == Precision::kExact || !source.is_position) &&
         (source.divisor == nullptr || source.divisor->precision == Precision::kExact);
}

std::uint64_t fraction_of(const AngleSource& source, std::int64_t axis,
                          std::int64_t pair) noexcept {
  const auto at = index(axis * source.phases->pairs + pair);
  return source.phases->fractions[at] -
         (source.divisor != nullptr ? source.divisor->fractions[at] : 0);
}

bool has_one_axis(const AngleSource& source, const Positions& positions) noexcept {
  return source.phases->axes == 1 || positions.same_on_all_axes();
}

/// Writes planes of frequencies into GeneralParams::words, one after the other.
class PlaneWriter {
 public:
  PlaneWriter(GeneralParams& p, PairRange pairs) noexcept : p_(p), pairs_(pairs) {}

  void fill(const PhaseTable& table, bool exact, bool is_position, bool real,
            FrequencyPlanes& planes) noexcept {
    const auto same = [](std::uint64_t word) { return word; };
    if (exact) {
      planes.fractions = plane(table.fractions, table, same);
      if (real) planes.wholes = plane(table.wholes, table, same);
    } else {
      planes.radians = plane(table.radians, table, [](float f) {
        return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(f));
      });
    }
    if (table.growth.empty()) return;
    planes.growth =
        plane(table.growth, table, [](double g) { return std::bit_cast<std::uint64_t>(g); });
    planes.growth_origin = is_position ? table.growth_origin : 0.0;
  }
  std::int32_t used() const noexcept { return used_; }

 private:
  template <typename Values, typename Convert>
  std::int32_t plane(const Values& values, const PhaseTable& table, Convert convert) noexcept {
    const std::int32_t begin = used_;
    for (std::int64_t a = 0; a < table.axes; ++a) {
      for (std::int64_t i = 0; i < pairs_.count; ++i) {
        p_.words[used_++] = convert(values[index(a * table.pairs + pairs_.first + i)]);
      }
    }
    return begin;
  }

  GeneralParams& p_;
  PairRange pairs_;
  std::int32_t used_ = 0;
};

double scale_of(const AngleSource& source) noexcept {
  const double scale = source.is_position ? source.phases->scale : 1.0;
  return source.divisor != nullptr ? scale / source.divisor->scale : scale;
}

}  // namespace

void fill_positions(const Positions& from, const TokenRange& range, PositionParams& to) noexcept {
  if (from.kind() == Positions::Kind::kPacked) return fill_packed(from, range, to);
  if (from.kind() == Positions::Kind::kRange) return fill_range(from, range, to);
  const ConstTensorView& view = from.view();
  const std::int64_t batch_stride = view.shape[1] == 1 ? 0 : view.strides[1];
  to.step = 0;
  to.type = view.dtype;
  to.axis_stride = from.same_on_all_axes() ? 0 : view.strides[0];
  to.batch_stride = range.batch_as_tokens ? 0 : batch_stride;
  to.token_stride = range.batch_as_tokens ? batch_stride : view.strides[2];
  to.ids =
      offset_by(view, range.first_batch * to.batch_stride + range.first_token * to.token_stride);
}

void fill_magnitude(const AngleSource& source, Direction direction, KernelParams& p) noexcept {
  p.axes = static_cast<std::int32_t>(source.phases->axes);
  p.inverts = direction == Direction::kInverse;
  p.conjugates = direction != Direction::kForward;
  const double scale = scale_of(source);
  const double sign = p.conjugates ? -1.0 : 1.0;
  p.magnitude.cos = p.inverts ? 1.0 / scale : scale;
  p.magnitude.sin = sign * p.magnitude.cos;
  p.magnitude.cos_float = static_cast<float>(p.magnitude.cos);
  p.magnitude.sin_float = static_cast<float>(sign) * p.magnitude.cos_float;
}

bool is_simple(const AngleSource& source, const Positions& positions) noexcept {
  const PhaseTable& table = *source.phases;
  const bool grows =
      !table.growth.empty() || (source.divisor != nullptr && !source.divisor->growth.empty());
  if (!is_exact(source) || grows || positions.real_valued()) return false;
  if (has_one_axis(source, positions)) return true;
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    int rotating_axes = 0;
    for (std::int64_t a = 0; a < table.axes; ++a) rotating_axes += fraction_of(source, a, i) != 0;
    if (rotating_axes > 1) return false;
  }
  return true;
}

void fill_fractions(const AngleSource& source, const Positions& positions, PairRange pairs,
                    SimpleParams& p) noexcept {
  const PhaseTable& table = *source.phases;
  if (has_one_axis(source, positions)) {
    p.axes = 1;
    for (std::int64_t i = 0; i < pairs.count; ++i) {
      const auto pair = index(pairs.first + i);
      p.fractions[i] = table.sums[pair] - (source.divisor ? source.divisor->sums[pair] : 0);
    }
    return;
  }
  for (std::int64_t i = 0; i < pairs.count; ++i) {
    p.fractions[i] = 0;
    p.axis_of[i] = 0;
    for (std::int64_t a = 0; a < table.axes; ++a) {
      const std::uint64_t fraction = fraction_of(source, a, pairs.first + i);
      if (fraction == 0) continue;
      p.fractions[i] = fraction;
      p.axis_of[i] = static_cast<std::uint8_t>(a);
    }
  }
}

std::int64_t max_pairs(const AngleSource& source, const Positions& positions,
                       std::int64_t more_planes) noexcept {
  std::int64_t planes = more_planes;
  for (const PhaseTable* table : {source.phases, source.divisor}) {
    if (table == nullptr) continue;
    planes += positions.real_valued() ? 2 : 1;
    if (!table->growth.empty()) ++planes;
  }
  const std::int64_t max =
      std::min<std::int64_t>(kMaxGeneralPairs, kMaxGeneralWords / (planes * source.phases->axes));
  return max >= 8 ? max / 8 * 8 : max;  // a multiple of 8 keeps every launch vectorised
}

std::int32_t fill_words(const AngleSource& source, const Positions& positions, PairRange pairs,
                        GeneralParams& p) noexcept {
  const bool real = positions.real_valued();
  const PhaseTable& table = *source.phases;
  PlaneWriter writer(p, pairs);
  writer.fill(table, !source.is_position || table.precision == Precision::kExact,
              source.is_position, real, p.phases);
  if (source.divisor != nullptr) {
    writer.fill(*source.divisor, source.divisor->precision == Precision::kExact, true, real,
                p.divisor);
  }
  p.scale = scale_of(source);
  return writer.used();
}

void fill_table(const RotateParams& params, const TokenRange& range, TableParams& p) noexcept {
  const CosSinTable& table = *params.source.table;
  const Pairing pairing = params.direction == Direction::kForward ? params.read : params.write;
  const bool repeats_pairs =  // [c0 c0 c1 c1 ...]
      params.source.width == TableWidth::kTwicePairs && pairing == Pairing::kInterleaved;
  const auto fill = [&](const ConstTensorView& view, std::int64_t(&strides)[3]) {
    strides[0] = view.shape[0] == 1 ? 0 : view.strides[0];
    strides[1] = view.strides[1];
    strides[2] = repeats_pairs ? 2 * view.strides[2] : view.strides[2];
    return static_cast<const char*>(view.data) +
           range.first_batch * strides[0] * static_cast<std::int64_t>(size_of(view.dtype));
  };
  p.cos = fill(table.cos, p.cos_strides);
  p.sin = fill(table.sin, p.sin_strides);
  p.rows = table.cos.shape[1];
  p.table_type = table.cos.dtype;
}

}  // namespace rotary::internal::cuda
