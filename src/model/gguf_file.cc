// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/gguf_file.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "rotary/error.h"
#include "support/half.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

// Far more than models have, so that a hostile file costs little memory.
constexpr std::uint64_t kMaxKeys = 1 << 16;
constexpr std::uint64_t kMaxTensors = 1 << 20;
constexpr std::uint64_t kMaxNumbers = 1 << 20;  // of one array or tensor that is read

constexpr std::uint32_t kValueTypes = 13;
constexpr std::string_view kAlignmentKey = "general.alignment";

[[noreturn]] void fail(const std::string& source, std::size_t offset, const std::string& message) {
  throw IoError(source, static_cast<std::int64_t>(offset), message);
}

/// Bytes of a value of fixed size; 0 for strings and arrays.
std::size_t size_of(GgufType type) {
  constexpr std::array<std::size_t, kValueTypes> kSizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

const char* name_of(GgufType type) {
  constexpr std::array<const char*, kValueTypes> kNames{
      "uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
      "boolean", "string", "array",  "uint64", "int64",  "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

/// An unsigned integer of `size` bytes.
std::uint64_t load(const char* data, std::size_t size, bool big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t shift = 8 * (big_endian ? size - 1 - i : i);
    value |= std::uint64_t{static_cast<unsigned char>(data[i])} << shift;
  }
  return value;
}

bool is_integer(GgufType type) {
  return type != GgufType::kFloat32 && type != GgufType::kFloat64 && type != GgufType::kBool &&
         type != GgufType::kString && type != GgufType::kArray;
}

bool is_number(GgufType type) {
  return is_integer(type) || type == GgufType::kFloat32 || type == GgufType::kFloat64;
}

bool is_unsigned(GgufType type) {
  return type == GgufType::kUint8 || type == GgufType::kUint16 || type == GgufType::kUint32 ||
         type == GgufType::kUint64;
}

/// The low `size` bytes as a two's complement number.
std::int64_t sign_extend(std::uint64_t value, std::size_t size) {
  const std::size_t unused = 64 - 8 * size;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

std::size_t tensor_element_size(std::uint32_t type) {
  switch (type) {
    case GgufTensor::kFloat32:
      return 4;
    case GgufTensor::kFloat16:
    case GgufTensor::kBFloat16:
      return 2;
    case GgufTensor::kFloat64:
      return 8;
    default:
      return 0;
  }
}

double tensor_element(std::uint64_t bits, std::uint32_t type) {
  switch (type) {
    case GgufTensor::kFloat32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case GgufTensor::kFloat16:
      return static_cast<double>(from_float16(static_cast<std::uint16_t>(bits)));
    case GgufTensor::kBFloat16:
      return static_cast<double>(from_bfloat16(static_cast<std::uint16_t>(bits)));
    default:
      return std::bit_cast<double>(bits);
  }
}

}  // namespace

/// Sequential reader; every step is checked against the bytes left.
class GgufFile::Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file) {}

  std::size_t offset() const { return at_; }
  std::size_t left() const { return file_.bytes_.size() - at_; }

  [[noreturn]] void fail_at(std::size_t at, const std::string& message) const {
    fail(file_.source_, at, message);
  }

  void skip(std::uint64_t size, const char* what) {
    if (size > left()) {
      fail_at(at_, std::string("the file ends within ") + what + ": it takes " +
                       std::to_string(size) + " bytes, the file has " + std::to_string(left()) +
                       " left");
    }
    at_ += static_cast<std::size_t>(size);
  }

  std::uint64_t integer(std::size_t size, const char* what) {
    const std::size_t from = at_;
    skip(size, what);
    return load(file_.bytes_.data() + from, size, file_.big_endian_);
  }

  std::uint32_t uint32(const char* what) { return static_cast<std::uint32_t>(integer(4, what)); }

  /// Lengths and counts have 4 bytes in version 1, 8 in later versions.
  std::uint64_t length(const char* what) { return integer(file_.version_ == 1 ? 4 : 8, what); }

  /// A count of items of at least `min_size` bytes each.
  std::uint64_t count(std::size_t min_size, const char* what,
                      std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
    const std::size_t from = at_;
    const std::uint64_t value = length(what);
    if (value > max) {
      fail_at(from, std::string(what) + " is " + std::to_string(value) + ", " +
                        std::to_string(max) + " is the most");
    }
    if (value > left() / min_size) {
      fail_at(from, std::string(what) + " is " + std::to_string(value) + ", more than the " +
                        std::to_string(left()) + " bytes left can hold");
    }
    return value;
  }

  std::string_view string(const char* what) {
    const std::uint64_t size = length(what);
    const std::size_t from = at_;
    skip(size, what);
    return file_.bytes_.substr(from, static_cast<std::size_t>(size));
  }

  GgufType type() {
    const std::size_t from = at_;
    const std::uint32_t value = uint32("the type of a value");
    if (value >= kValueTypes) fail_at(from, "unknown type of value " + std::to_string(value));
    return static_cast<GgufType>(value);
  }

  /// Skips a value and returns its type and location.
  GgufValue value(GgufType type, int depth = 0) {
    constexpr int kMaxDepth = 8;
    GgufValue result{.type = type, .offset = at_, .element_type = {}, .count = 0};
    if (type == GgufType::kString) {
      string("a string");
    } else if (type != GgufType::kArray) {
      skip(size_of(type), "a value");
    } else {
      if (depth == kMaxDepth) fail_at(at_, "arrays are nested deeper than 8");
      result.element_type = this->type();
      const std::size_t size = size_of(result.element_type);
      // Strings and arrays take at least the 4 bytes of a length.
      result.count = count(size > 0 ? size : 4, "the length of an array");
      result.offset = at_;
      if (size > 0) {
        skip(size * result.count, "an array");
      } else {
        for (std::uint64_t i = 0; i < result.count; ++i) value(result.element_type, depth + 1);
      }
    }
    return result;
  }

  void header(std::uint64_t& tensors, std::uint64_t& keys) {
    constexpr std::string_view kMagic = "GGUF";
    if (file_.bytes_.substr(0, kMagic.size()) != kMagic.substr(0, file_.bytes_.size())) {
      fail_at(0, "is not a GGUF file: it does not begin with GGUF");
    }
    skip(kMagic.size(), "its magic number");
    const std::size_t from = at_;
    file_.version_ = uint32("the version");
    // A version with zero low bytes means the other byte order.
    if (file_.version_ != 0 && (file_.version_ & 0xffff) == 0) {
      file_.big_endian_ = true;
      at_ = from;
      file_.version_ = uint32("the version");
    }
    if (file_.version_ < 1 || file_.version_ > 3) {
      fail_at(from, "versions 1 to 3 of GGUF are supported, got " + std::to_string(file_.version_));
    }
    // Minimum sizes: name length, rank, type and offset of a tensor; name length, type and one byte
    // of a key.
    tensors = count(4 + 4 + 4 + 8, "the number of tensors", kMaxTensors);
    keys = count(4 + 4 + 1, "the number of keys", kMaxKeys);
  }

  void key() {
    const std::size_t from = at_;
    const std::string_view name = string("a key");
    const GgufType kind = type();
    if (!file_.values_.emplace(name, value(kind)).second) {
      fail_at(from, "the key " + quote(name) + " appears twice");
    }
  }

  void tensor(std::uint64_t alignment) {
    const std::size_t from = at_;
    GgufTensor info;
    info.info_offset = from;
    const std::string_view name = string("the name of a tensor");
    const std::uint32_t rank = uint32("the rank of a tensor");
    if (rank > info.dims.size()) {
      fail_at(from, "tensor " + quote(name) + " has " + std::to_string(rank) +
                        " dimensions, 4 is the most");
    }
    info.rank = static_cast<int>(rank);
    for (std::uint32_t d = 0; d < rank; ++d) info.dims[d] = length("the shape of a tensor");
    info.type = uint32("the type of a tensor");
    info.offset = integer(8, "the offset of a tensor");
    if (info.offset % alignment != 0) {
      fail_at(from, "tensor " + quote(name) + " begins at " + std::to_string(info.offset) +
                        ", which is not a multiple of " + std::to_string(alignment));
    }
    if (!file_.tensors_.emplace(name, info).second) {
      fail_at(from, "the tensor " + quote(name) + " appears twice");
    }
  }

 private:
  GgufFile& file_;
  std::size_t at_ = 0;
};

GgufFile::GgufFile(std::string_view bytes, std::string source)
    : GgufFile(bytes, std::move(source), bytes.size(), {}) {}

GgufFile::GgufFile(std::string_view bytes, std::string source, std::uint64_t file_size,
                   ReadBytes read)
    : bytes_(bytes), source_(std::move(source)), file_size_(file_size), read_(std::move(read)) {
  Reader reader(*this);
  std::uint64_t tensor_count = 0;
  std::uint64_t key_count = 0;
  reader.header(tensor_count, key_count);
  for (std::uint64_t i = 0; i < key_count; ++i) reader.key();

  std::size_t alignment = 32;
  if (const GgufValue* value = find(kAlignmentKey)) {
    const std::int64_t given = integer(kAlignmentKey).value_or(0);
    if (given < 1 || given > (std::int64_t{1} << 30) || (given & (given - 1)) != 0) {
      fail(source_, value->offset,
           "general.alignment must be a power of two, got " + std::to_string(given));
    }
    alignment = static_cast<std::size_t>(given);
  }
  for (std::uint64_t i = 0; i < tensor_count; ++i) reader.tensor(alignment);
  data_offset_ = (reader.offset() + alignment - 1) / alignment * alignment;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void GgufFile::fail_type(std::string_view key, const GgufValue& value, const char* expected) const {
  fail(source_, value.offset,
       "the key " + quote(key) + " must be " + expected + ", got " + name_of(value.type) +
           (value.type == GgufType::kArray ? std::string(" of ") + name_of(value.element_type)
                                           : ""));
}

double GgufFile::number_at(std::size_t offset, GgufType type) const {
  const std::size_t size = size_of(type);
  const std::uint64_t bits = load(bytes_.data() + offset, size, big_endian_);
  if (type == GgufType::kFloat32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  if (type == GgufType::kFloat64) return std::bit_cast<double>(bits);
  if (type == GgufType::kBool) return bits != 0 ? 1.0 : 0.0;
  if (is_unsigned(type)) return static_cast<double>(bits);
  return static_cast<double>(sign_extend(bits, size));
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_number(value->type)) fail_type(key, *value, "a number");
  return number_at(value->offset, value->type);
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_integer(value->type)) fail_type(key, *value, "an integer");
  const std::size_t size = size_of(value->type);
  const std::uint64_t bits = load(bytes_.data() + value->offset, size, big_endian_);
  if (!is_unsigned(value->type)) return sign_extend(bits, size);
  if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(source_, value->offset,
         "the key " + quote(key) + " is too large: " + std::to_string(bits));
  }
  return static_cast<std::int64_t>(bits);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) fail_type(key, *value, "a boolean");
  return bytes_[value->offset] != 0;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kString) fail_type(key, *value, "a string");
  const std::size_t width = version_ == 1 ? 4 : 8;
  const std::uint64_t size = load(bytes_.data() + value->offset, width, big_endian_);
  return bytes_.substr(value->offset + width, static_cast<std::size_t>(size));
}

std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (is_number(value->type)) return std::vector<double>{number_at(value->offset, value->type)};
  const GgufType type = value->element_type;
  if (value->type != GgufType::kArray || !(is_number(type) || type == GgufType::kBool)) {
    fail_type(key, *value, "an array of numbers");
  }
  if (value->count > kMaxNumbers) {
    fail(source_, value->offset,
         "the key " + quote(key) + " is too long: " + std::to_string(value->count) + " numbers, " +
             std::to_string(kMaxNumbers) + " are the most");
  }
  std::vector<double> result(static_cast<std::size_t>(value->count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = number_at(value->offset + i * size_of(type), type);
  }
  return result;
}

std::optional<std::vector<double>> GgufFile::tensor(std::string_view name) const {
  const GgufTensor* const info = find_tensor(name);
  if (info == nullptr) return std::nullopt;
  const std::string what = "tensor " + quote(name);
  const std::size_t size = tensor_element_size(info->type);
  if (size == 0) {
    fail(source_, info->info_offset,
         what + " must be float32, float16, bfloat16 or float64, got " + "GGML type " +
             std::to_string(info->type));
  }
  const std::uint64_t left = file_size_ - std::min<std::uint64_t>(file_size_, data_offset_);
  const std::uint64_t max_count = (left - std::min(left, info->offset)) / size;
  std::uint64_t count = 1;
  for (const std::uint64_t dim : info->dims) {
    // Saturates at max_count + 1, unless a dimension is 0.
    count = dim != 0 && count > max_count / dim ? max_count + 1 : count * dim;
  }
  if (count > max_count) {
    fail(source_, file_size_, what + " reaches beyond the end of the file");
  }
  if (count > kMaxNumbers) {
    fail(source_, info->info_offset,
         what + " is too long: " + std::to_string(count) + " numbers, " +
             std::to_string(kMaxNumbers) + " are the most");
  }
  std::vector<double> result(static_cast<std::size_t>(count));
  if (result.empty()) return result;
  const std::uint64_t begin = data_offset_ + info->offset;
  std::string beyond;
  if (begin + result.size() * size > bytes_.size()) beyond = read_(begin, result.size() * size);
  const char* const data = beyond.empty() ? bytes_.data() + begin : beyond.data();
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = tensor_element(load(data + i * size, size, big_endian_), info->type);
  }
  return result;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  return names;
}

}  // namespace rotary::internal
