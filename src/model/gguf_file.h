// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The GGUF container: metadata and small tensors, without their meaning.
//
//   internal::GgufFile file(mapped.bytes(), "model.gguf");
//   file.string("general.architecture");    // "llama"
//   file.number("llama.rope.freq_base");    // 5e5
//   file.tensor("rope_freqs.weight");       // its elements as doubles
//
//   "GGUF" version | tensor count, key count | keys and values | tensor infos | padding | elements
//
// Versions 1 to 3, either byte order. The file is not trusted: every length is checked against the
// bytes left before anything is allocated. Values are decoded on request; a vocabulary of 200,000
// tokens costs one pass over its lengths. All errors are IoErrors with the byte offset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::internal {

/// Value types, with the numbers of the format.
enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

/// Type and location of a metadata value.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  /// Byte offset of the value: of a string's length, of an array's first element.
  std::size_t offset = 0;
  /// Arrays only.
  GgufType element_type = GgufType::kUint8;
  std::uint64_t count = 0;
};

struct GgufTensor {
  /// GGML types that tensor() reads.
  static constexpr std::uint32_t kFloat32 = 0;
  static constexpr std::uint32_t kFloat16 = 1;
  static constexpr std::uint32_t kFloat64 = 28;
  static constexpr std::uint32_t kBFloat16 = 30;

  std::uint32_t type = kFloat32;
  int rank = 0;
  /// Innermost dimension first, as in the file.
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};
  /// Relative to the data section.
  std::uint64_t offset = 0;
  /// Byte offset of the tensor info, for errors.
  std::size_t info_offset = 0;
};

/// A view: `bytes` must outlive it.
class GgufFile {
 public:
  /// Reads header, metadata and tensor infos.
  GgufFile(std::string_view bytes, std::string source);
  /// The same of a file's first bytes. Tensors that lie beyond them are read by `read(offset,
  /// size)`, in a file of `file_size` bytes.
  using ReadBytes = std::function<std::string(std::uint64_t offset, std::size_t size)>;
  GgufFile(std::string_view bytes, std::string source, std::uint64_t file_size, ReadBytes read);

  /// Null if there is no such key.
  const GgufValue* find(std::string_view key) const;
  /// Null if there is no such tensor.
  const GgufTensor* find_tensor(std::string_view name) const;

  // None if there is no such key; IoError if its value has another type.
  /// Any number; integers beyond 2^53 are rounded.
  std::optional<double> number(std::string_view key) const;
  /// Any integer type; a uint64 that does not fit is an IoError.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// Not necessarily UTF-8.
  std::optional<std::string_view> string(std::string_view key) const;
  /// An array of numbers or booleans of any type; a single number is an array of one.
  std::optional<std::vector<double>> numbers(std::string_view key) const;

  /// The elements of a float32, float16, bfloat16 or float64 tensor, innermost dimension fastest;
  /// absent if there is no such tensor. IoError for other types, and where the file ends too early.
  std::optional<std::vector<double>> tensor(std::string_view name) const;

  /// Sorted.
  std::vector<std::string_view> keys() const;
  const std::string& source() const noexcept { return source_; }
  std::uint32_t version() const noexcept { return version_; }
  /// Byte offset of the data section.
  std::size_t data_offset() const noexcept { return data_offset_; }

 private:
  class Reader;

  double number_at(std::size_t offset, GgufType type) const;
  [[noreturn]] void fail_type(std::string_view key, const GgufValue& value,
                              const char* expected) const;

  std::string_view bytes_;
  std::string source_;
  std::uint64_t file_size_ = 0;
  ReadBytes read_;
  bool big_endian_ = false;
  std::uint32_t version_ = 0;
  std::size_t data_offset_ = 0;
  std::map<std::string_view, GgufValue> values_;
  std::map<std::string_view, GgufTensor> tensors_;
};

}  // namespace rotary::internal
