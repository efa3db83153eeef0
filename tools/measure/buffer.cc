// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/buffer.h"

#include <cstring>
#include <new>

#include "tools/measure/parallel.h"

namespace rotary::measure {
namespace {

constexpr std::size_t kPage = 4096;

/// Values of [1, 2): counts up in the upper bits of the fraction.
template <typename Bits>
void fill(std::byte* data, std::int64_t first, std::int64_t last, Bits one, int fraction_bits) {
  constexpr int kWidth = 8 * static_cast<int>(sizeof(Bits));
  const Bits sign = static_cast<Bits>(Bits{1} << (kWidth - 1));
  // A prime period, so that rows differ.
  const Bits period = fraction_bits >= 10 ? Bits{1021} : Bits{127};
  const int shift = fraction_bits >= 10 ? fraction_bits - 10 : fraction_bits - 7;
  for (std::int64_t i = first; i < last; ++i) {
    const Bits fraction = static_cast<Bits>(static_cast<std::uint64_t>(i) % period);
    Bits bits = static_cast<Bits>(one | static_cast<Bits>(fraction << shift));
    if (i % 3 == 0) bits = static_cast<Bits>(bits | sign);
    std::memcpy(data + static_cast<std::size_t>(i) * sizeof bits, &bits, sizeof bits);
  }
}

void fill(std::byte* data, std::int64_t first, std::int64_t last, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return fill<std::uint16_t>(data, first, last, 0x3c00, 10);
    case DType::kBFloat16:
      return fill<std::uint16_t>(data, first, last, 0x3f80, 7);
    case DType::kFloat64:
      return fill<std::uint64_t>(data, first, last, 0x3ff0000000000000, 52);
    default:
      return fill<std::uint32_t>(data, first, last, 0x3f800000, 23);
  }
}

}  // namespace

Buffer::Buffer(std::int64_t rows, std::int64_t row_elements, DType dtype, int threads)
    : row_bytes_(row_elements * static_cast<std::int64_t>(size_of(dtype))) {
  const auto bytes = static_cast<std::size_t>(rows * row_bytes_);
  const std::size_t pages = (bytes + kPage - 1) / kPage + 1;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, pages * kPage)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get() + (pages - 1) * kPage, 0, kPage);
  parallel_for_rows(threads, rows, [&](std::int64_t first, std::int64_t last) {
    fill(data_.get(), first * row_elements, last * row_elements, dtype);
  });
}

}  // namespace rotary::measure
