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
    // A NaN with bits in its lower half would not survive the rounding of turns-inl.h.
    to[i] = value == value ? value : std::numeric_limits<T>::quiet_NaN();
  }
}

template <typename T>
void read_row(const ConstTensorView& view, std::int64_t batch, std::int64_t row, std::int64_t step,
              std::int64_t count, T* to) noexcept {
  const std::int64_t b = view.shape[0] == 1 ? 0 : batch;
  const std::int64_t start = b * view.strides[0] + row * view.strides[1];
  const std::int64_t apart = step * view.strides[2];
  const auto same = [](auto value) { return value; };
  switch (view.dtype) {
    case DType::kFloat64:
      return read_entries<double>(view, start, apart, count, to, same);
    case DType::kBFloat16:
      return read_entries<std::uint16_t>(view, start, apart, count, to, from_bfloat16);
    case DType::kFloat16:
      return read_entries<std::uint16_t>(view, start, apart, count, to, from_float16);
    default:
      return read_entries<float>(view, start, apart, count, to, same);
  }
}

}  // namespace

template <typename T>
void read_table_row(const Job& job, std::int64_t batch, std::int64_t row, T* c, T* s) noexcept {
  const Source& source = job.source;
  // Where each number stands twice, the first of the two is every second entry or the first half.
  // The table is laid out as the rope's input pairing says, which the inverse and adjoint write.
  const Pairing pairing = job.direction == Direction::kForward ? job.read : job.write;
  const bool skips = source.width == TableWidth::kTwicePairs && pairing == Pairing::kInterleaved;
  const std::int64_t step = skips ? 2 : 1;
  read_row(source.table->cos, batch, row, step, job.pairs, c);
  read_row(source.table->sin, batch, row, step, job.pairs, s);
  if (job.direction == Direction::kForward) return;
  for (std::int64_t i = 0; i < job.pairs; ++i) {
    const T size = job.direction == Direction::kInverse ? c[i] * c[i] + s[i] * s[i] : T{1};
    c[i] /= size;
    s[i] = -s[i] / size;
  }
}

template void read_table_row(const Job&, std::int64_t, std::int64_t, float*, float*) noexcept;
template void read_table_row(const Job&, std::int64_t, std::int64_t, double*, double*) noexcept;

}  // namespace rotary::internal
