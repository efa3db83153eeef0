// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/table_row.h"

#include <limits>

#include "support/half.h"

namespace rotary::internal {
namespace {

template <typename Storage, typename T, typename Convert>
void read_entries(const ConstTensorView& view, std::int64_t start, std::int64_t step,
                  std::int64_t count, T* to, Convert convert) noexcept {
  const auto* from = static_cast<const Storage*>(view.data) + start;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<T>(convert(from[i * step]));
    // The default NaN has a lower half of zeros, as the rounding of BFloat16EvenOdd requires.
    to[i] = value == value ? value : std::numeric_limits<T>::quiet_NaN();
  }
}

template <typename T>
void read_row(const ConstTensorView& view, std::int64_t batch, std::int64_t row, std::int64_t step,
              std::int64_t count, T* to) noexcept {
  const std::int64_t b = view.shape[0] == 1 ? 0 : batch;
  const std::int64_t start = b * view.strides[0] + row * view.strides[1];
  const std::int64_t stride = step * view.strides[2];
  const auto same = [](auto value) { return value; };
  switch (view.dtype) {
    case DType::kFloat64:
      return read_entries<double>(view, start, stride, count, to, same);
    case DType::kBFloat16:
      return read_entries<std::uint16_t>(view, start, stride, count, to, from_bfloat16);
    case DType::kFloat16:
      return read_entries<std::uint16_t>(view, start, stride, count, to, from_float16);
    default:
      return read_entries<float>(view, start, stride, count, to, same);
  }
}

}  // namespace

template <typename T>
void read_table_row(const RotateParams& params, std::int64_t batch, std::int64_t row, T* c,
                    T* s) noexcept {
  const AngleSource& source = params.source;
  // A table of width kTwicePairs holds every value twice, in the rope's input pairing: the first
  // copies are every second entry or the first half. Inverse and adjoint write that pairing.
  const Pairing pairing = params.direction == Direction::kForward ? params.read : params.write;
  const bool interleaved =
      source.width == TableWidth::kTwicePairs && pairing == Pairing::kInterleaved;
  const std::int64_t step = interleaved ? 2 : 1;
  read_row(source.table->cos, batch, row, step, params.pairs, c);
  read_row(source.table->sin, batch, row, step, params.pairs, s);
  if (params.direction == Direction::kForward) return;
  for (std::int64_t i = 0; i < params.pairs; ++i) {
    const bool inverse = params.direction == Direction::kInverse;
    const T norm = inverse ? c[i] * c[i] + s[i] * s[i] : T{1};  // |z|^2
    c[i] /= norm;
    s[i] = -s[i] / norm;
  }
}

template void read_table_row(const RotateParams&, std::int64_t, std::int64_t, float*,
                             float*) noexcept;
template void read_table_row(const RotateParams&, std::int64_t, std::int64_t, double*,
                             double*) noexcept;

}  // namespace rotary::internal
