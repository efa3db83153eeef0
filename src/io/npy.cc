// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::parse_npy.
#include <cstring>
#include <optional>

#include "io/checks.h"
#include "io/npy_header.h"
#include "rotary/io.h"

namespace rotary {
namespace {

/// Copies column-major elements into row-major order. `shape` has no extent of 0.
template <std::size_t kSize>
void transpose(const char* in, std::byte* out, const std::vector<std::int64_t>& shape,
               std::size_t count) {
  const std::size_t rank = shape.size();
  std::vector<std::size_t> extents(shape.begin(), shape.end());
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t d = 1; d < rank; ++d) strides[d] = strides[d - 1] * extents[d - 1];
  std::vector<std::size_t> index(rank, 0);
  std::size_t from = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out + i * kSize, in + from * kSize, kSize);
    for (std::size_t d = rank; d-- > 0;) {
      from += strides[d];
      if (++index[d] < extents[d]) break;
      from -= extents[d] * strides[d];
      index[d] = 0;
    }
  }
}

void copy_row_major(std::string_view data, Tensor& tensor) {
  const std::size_t size = size_of(tensor.dtype);
  const std::size_t count = data.size() / size;
  switch (size) {
    case 2:
      return transpose<2>(data.data(), tensor.bytes.data(), tensor.shape, count);
    case 4:
      return transpose<4>(data.data(), tensor.bytes.data(), tensor.shape, count);
    default:
      return transpose<8>(data.data(), tensor.bytes.data(), tensor.shape, count);
  }
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& source) {
  internal::NpyHeader header = internal::parse_npy_header(bytes, source);
  const std::optional<std::uint64_t> bits =
      internal::count_bits(header.shape, 8 * size_of(header.dtype));
  const std::string what =
      "shape " + internal::shape_text(header.shape) + " of " + std::string(name_of(header.dtype));
  if (!bits) internal::fail_at(source, header.data_offset, what + " is too large");
  const std::size_t size = *bits / 8;
  const std::string_view data = bytes.substr(header.data_offset);
  if (size != data.size()) {
    internal::fail_at(source, size > data.size() ? bytes.size() : header.data_offset + size,
                      what + " takes " + std::to_string(size) + " bytes, the file has " +
                          std::to_string(data.size()));
  }
  Tensor tensor{.name = {}, .dtype = header.dtype, .shape = std::move(header.shape), .bytes = {}};
  if (size == 0) return tensor;
  tensor.bytes.resize(size);
  if (header.order == internal::ElementOrder::kColumnMajor && tensor.shape.size() > 1) {
    copy_row_major(data, tensor);
  } else {
    std::memcpy(tensor.bytes.data(), data.data(), size);
  }
  if (header.endian != std::endian::native) {
    internal::swap_bytes(tensor.bytes, size_of(tensor.dtype));
  }
  return tensor;
}

}  // namespace rotary
