// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::write_tensor and rotary::write_with_tensor.
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
#include "support/quote.h"

namespace rotary {
namespace {

using internal::FileFormat;
using internal::PendingFile;

std::span<const std::int64_t> shape_of(const ConstTensorView& tensor) {
  return {tensor.shape.data(), static_cast<std::size_t>(tensor.rank)};
}

void check(const ConstTensorView& tensor, const char* function) {
  if (tensor.rank < 0 || tensor.rank > kMaxRank) {
    internal::reject("[", function, "] rank must be 0 to ", kMaxRank, ", got ", tensor.rank);
  }
  if (tensor.device.type != DeviceType::kCpu) {
    internal::reject("[", function, "] the tensor must be on the CPU");
  }
  const std::span<const std::int64_t> shape = shape_of(tensor);
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; });
  if (negative || !internal::count_bits(shape, 8 * size_of(tensor.dtype))) {
    internal::reject("[", function, "] extents must not be negative or overflow, got ",
                     internal::shape_text(shape));
  }
  if (tensor.data == nullptr && tensor.num_elements() > 0) {
    internal::reject("[", function, "] data must not be null, got a tensor of shape ",
                     internal::shape_text(shape));
  }
}

/// Combines small appends into large writes.
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

/// Shape and strides, padded with leading ones to kMaxRank, with contiguous dimensions merged into
/// the last one: a contiguous tensor becomes one row.
struct MergedDims {
  Dims shape{1, 1, 1, 1};
  Dims strides{};
};

MergedDims merge_dims(const ConstTensorView& tensor) {
  MergedDims merged;
  std::size_t at = kMaxRank - 1;
  merged.strides[at] = 1;
  for (auto d = static_cast<std::size_t>(tensor.rank); d-- > 0;) {
    if (tensor.shape[d] == 1) continue;
    if (merged.shape[at] == 1) {
      merged.strides[at] = tensor.strides[d];
    } else if (tensor.strides[d] != merged.strides[at] * merged.shape[at]) {
      merged.strides[--at] = tensor.strides[d];
    }
    merged.shape[at] *= tensor.shape[d];
  }
  return merged;
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
  const MergedDims merged = merge_dims(tensor);
  const auto& [a, b, c, row] = merged.shape;
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  BufferedFile buffered(file);
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j < b; ++j) {
      for (std::int64_t k = 0; k < c; ++k) {
        const std::int64_t start =
            i * merged.strides[0] + j * merged.strides[1] + k * merged.strides[2];
        append_row(buffered, data + start * size, row, merged.strides[3], size);
      }
    }
  }
  buffered.flush();
}

}  // namespace

void write_tensor(const std::filesystem::path& path, const ConstTensorView& tensor,
                  std::string_view name) {
  const FileFormat format = internal::format_of(path, "write_tensor");
  check(tensor, "write_tensor");
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
  file.commit_durably();
}

void write_with_tensor(const std::filesystem::path& in, const std::filesystem::path& out,
                       const ConstTensorView& tensor, std::string_view name) {
  for (const std::filesystem::path& path : {in, out}) {
    if (internal::format_of(path, "write_with_tensor") != FileFormat::kSafetensors) {
      internal::reject("[write_with_tensor] the name of the file must end in .safetensors, got ",
                       internal::quote(path.string()));
    }
  }
  check(tensor, "write_with_tensor");
  const MappedFile mapped(in);
  const std::string source = in.string();
  const auto entries = internal::parse_safetensors_header(mapped.bytes(), source);
  const internal::SafetensorsEntry& entry = internal::select_entry(entries, name, source);
  const std::span<const std::int64_t> shape = shape_of(tensor);
  if (!std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end()) ||
      internal::dtype_of(entry, source) != tensor.dtype) {
    internal::reject("[write_with_tensor] the tensor must be ", internal::shape_text(entry.shape),
                     " of ", entry.dtype, " as ", internal::quote(entry.name), " in the file, got ",
                     internal::shape_text(shape), " of ", name_of(tensor.dtype));
  }
  PendingFile file(out);
  file.append(mapped.bytes().data(), entry.begin);
  append_elements(file, tensor);
  file.append(mapped.bytes().data() + entry.end, mapped.bytes().size() - entry.end);
  file.commit_durably();
}

}  // namespace rotary
