// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::write_tensor.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "io/checks.h"
#include "io/file_format.h"
#include "io/npy_header.h"
#include "io/pending_file.h"
#include "io/safetensors.h"
#include "rotary/io.h"
#include "support/message.h"

namespace rotary {
namespace {

using internal::FileFormat;
using internal::PendingFile;

std::span<const std::int64_t> shape_of(const ConstTensorView& tensor) {
  return {tensor.shape.data(), static_cast<std::size_t>(tensor.rank)};
}

void check(const ConstTensorView& tensor) {
  if (tensor.rank < 0 || tensor.rank > kMaxRank) {
    internal::reject("[write_tensor] rank must be 0 to ", kMaxRank, ", got ", tensor.rank);
  }
  if (tensor.device.type != DeviceType::kCpu) {
    internal::reject("[write_tensor] the tensor must be on the CPU");
  }
  const std::span<const std::int64_t> shape = shape_of(tensor);
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; });
  if (negative || !internal::count_bits(shape, 8 * size_of(tensor.dtype))) {
    internal::reject("[write_tensor] extents must not be negative or overflow, got ",
                     internal::shape_text(shape));
  }
  if (tensor.data == nullptr && tensor.num_elements() > 0) {
    internal::reject("[write_tensor] data must not be null, got a tensor of shape ",
                     internal::shape_text(shape));
  }
}

/// Collects small pieces into large writes.
class BufferedFile {
 public:
  explicit BufferedFile(PendingFile& file) : file_(file) { buffer_.reserve(kCapacity); }

  void append(const std::byte* data, std::size_t size) {
    if (size > kCapacity - buffer_.size()) flush();
    if (size > kCapacity) return file_.append(data, size);
    buffer_.insert(buffer_.end(), data, data + size);
  }

  void flush() {
    file_.append(buffer_.data(), buffer_.size());
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kCapacity = 1 << 20;
  PendingFile& file_;
  std::vector<std::byte> buffer_;
};

/// The extents with leading ones up to kMaxRank, and dimensions merged into the last one as long as
/// they follow each other without a gap: a contiguous tensor becomes one row.
struct Rows {
  Dims shape{1, 1, 1, 1};
  Dims strides{};
};

Rows rows_of(const ConstTensorView& tensor) {
  Rows rows;
  std::size_t at = kMaxRank - 1;
  rows.strides[at] = 1;
  for (auto d = static_cast<std::size_t>(tensor.rank); d-- > 0;) {
    if (tensor.shape[d] == 1) continue;
    if (rows.shape[at] == 1) {
      rows.strides[at] = tensor.strides[d];
    } else if (tensor.strides[d] != rows.strides[at] * rows.shape[at]) {
      rows.strides[--at] = tensor.strides[d];
    }
    rows.shape[at] *= tensor.shape[d];
  }
  return rows;
}

void append_row(BufferedFile& file, const std::byte* data, std::int64_t count, std::int64_t stride,
                std::int64_t size) {
  if constexpr (std::endian::native == std::endian::little) {
    if (stride == 1) return file.append(data, static_cast<std::size_t>(count * size));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<std::byte, 8> element{};
    std::memcpy(element.data(), data + i * stride * size, static_cast<std::size_t>(size));
    if constexpr (std::endian::native != std::endian::little) {
      std::reverse(element.begin(), element.begin() + size);
    }
    file.append(element.data(), static_cast<std::size_t>(size));
  }
}

/// Appends the elements in row-major order, little endian.
void append_elements(PendingFile& file, const ConstTensorView& tensor) {
  if (tensor.num_elements() == 0) return;
  const Rows rows = rows_of(tensor);
  const auto& [a, b, c, row] = rows.shape;
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  BufferedFile buffered(file);
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j < b; ++j) {
      for (std::int64_t k = 0; k < c; ++k) {
        const std::int64_t start = i * rows.strides[0] + j * rows.strides[1] + k * rows.strides[2];
        append_row(buffered, data + start * size, row, rows.strides[3], size);
      }
    }
  }
  buffered.flush();
}

}  // namespace

void write_tensor(const std::filesystem::path& path, const ConstTensorView& tensor,
                  std::string_view name) {
  const FileFormat format = internal::format_of(path, "write_tensor");
  check(tensor);
  if (format == FileFormat::kNpy && tensor.dtype == DType::kBFloat16) {
    throw IoError(path.string(), IoError::kNoOffset,
                  ".npy has no bfloat16; write a .safetensors file instead");
  }
  const std::string header =
      format == FileFormat::kNpy
          ? internal::make_npy_header(tensor.dtype, shape_of(tensor))
          : internal::make_safetensors_header(name, tensor.dtype, shape_of(tensor));
  PendingFile file(path);
  file.append(header.data(), header.size());
  append_elements(file, tensor);
  file.commit();
}

}  // namespace rotary
