// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "io/checks.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NpyType, 5> kNpyTypes{{{"f2", DType::kFloat16},
                                            {"f4", DType::kFloat32},
                                            {"f8", DType::kFloat64},
                                            {"i4", DType::kInt32},
                                            {"i8", DType::kInt64}}};

/// Parser of the header's Python literal. Strict: accepts what NumPy writes or needs, nothing else.
class LiteralParser {
 public:
  LiteralParser(std::string_view text, std::size_t offset, const std::string& source)
      : text_(text), offset_(offset), source_(source) {}

  void parse(NpyHeader& header) {
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{', "a dict");
    while (!accept('}')) {
      const std::string_view key = string("a key");
      expect(':', "':' after the key");
      if (key == "descr" && !has_descr) {
        has_descr = true;
        descr(header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.order = boolean() ? ElementOrder::kColumnMajor : ElementOrder::kRowMajor;
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = tuple();
      } else {
        fail("unknown or repeated key " + quote(key));
      }
      if (!accept(',')) {
        expect('}', "',' or '}'");
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the header's dict");
    if (!has_descr || !has_order || !has_shape) {
      fail("the header needs the keys descr, fortran_order and shape");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    fail_at(source_, offset_ + at_, message);
  }

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r\f", at_), text_.size()); }

  bool next_is(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }

  bool accept(char c) {
    const bool found = next_is(c);
    if (found) ++at_;
    return found;
  }

  void expect(char c, const char* what) {
    if (!accept(c)) fail(std::string("the header is malformed: expected ") + what);
  }

  std::string_view string(const char* what) {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(std::string("expected a string: ") + what);
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string has no end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos) fail("a string with an escape");
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail("fortran_order must be True or False");
  }

  std::int64_t extent() {
    if (next_is('-')) fail("an extent of the shape is negative");
    const char* const first = text_.data() + at_;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail("expected an extent of the shape");
    if (error != std::errc()) fail("an extent of the shape does not fit into 64 bits");
    if (*first == '0' && end != first + 1) fail("an extent with leading zeros");
    at_ += static_cast<std::size_t>(end - first);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote (3L, 4L)
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> shape;
    expect('(', "a tuple as the shape");
    while (!accept(')')) {
      if (shape.size() == kMaxFileRank) fail("the shape has more than 64 extents");
      shape.push_back(extent());
      if (accept(',')) continue;
      if (shape.size() == 1 && next_is(')')) fail("a tuple of one needs a comma");
      expect(')', "',' or ')' in the shape");
      break;
    }
    return shape;
  }

  void descr(NpyHeader& header) {
    if (next_is('[')) fail("structured dtypes are not supported");
    const std::size_t start = at_;
    const std::string_view text = string("the dtype");
    std::string_view type = text;
    if (!type.empty() && std::string_view("<>=|").find(type[0]) != std::string_view::npos) {
      if (type[0] == '<') header.endian = std::endian::little;
      if (type[0] == '>') header.endian = std::endian::big;
      type.remove_prefix(1);
    }
    for (const NpyType& known : kNpyTypes) {
      if (known.name != type) continue;
      header.dtype = known.dtype;
      return;
    }
    at_ = start;
    if (type.substr(0, 1) == "O") fail("object arrays are not supported");
    fail("dtype " + quote(text) + " is not supported; f2, f4, f8, i4 and i8 are");
  }

  std::string_view text_;
  std::size_t offset_;
  const std::string& source_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view bytes, const std::string& source) {
  constexpr std::size_t kLengthAt = kMagic.size() + 2;
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) {
    fail_at(source, 0, "is not a .npy file: it does not begin with \\x93NUMPY");
  }
  if (bytes.size() < kLengthAt)
    fail_at(source, bytes.size(), "the file ends within its magic number");
  const int major = static_cast<unsigned char>(bytes[kMagic.size()]);
  const int minor = static_cast<unsigned char>(bytes[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    fail_at(source, kMagic.size(),
            "versions 1.0, 2.0 and 3.0 of .npy are supported, got " + std::to_string(major) + "." +
                std::to_string(minor));
  }
  const std::size_t width = major == 1 ? 2 : 4;
  if (bytes.size() - kLengthAt < width) {
    fail_at(source, bytes.size(), "the file ends within the header's length");
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) {
    length |= std::size_t{static_cast<unsigned char>(bytes[kLengthAt + i])} << (8 * i);
  }
  const std::size_t header_at = kLengthAt + width;
  if (length > bytes.size() - header_at) {
    fail_at(source, kLengthAt,
            "the header is " + std::to_string(length) + " bytes long, the file has " +
                std::to_string(bytes.size() - header_at) + " left");
  }
  NpyHeader header;
  header.data_offset = header_at + length;
  LiteralParser(bytes.substr(header_at, length), header_at, source).parse(header);
  return header;
}

std::string make_npy_header(DType dtype, std::span<const std::int64_t> shape) {
  // NumPy reserves 21 digits for the first extent, then pads to a multiple of 64 bytes.
  constexpr std::size_t kExtentDigits = 21;
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kPreamble = kMagic.size() + 4;
  std::string type;
  for (const NpyType& known : kNpyTypes) {
    if (known.dtype == dtype) type = known.name;
  }
  std::string tuple;
  for (const std::int64_t extent : shape) tuple.append(std::to_string(extent)).append(", ");
  if (!shape.empty()) tuple.resize(tuple.size() - (shape.size() == 1 ? 1 : 2));
  std::string header = std::string("{'descr': '") + '<' + type +
                       "', 'fortran_order': False, 'shape': (" + tuple + "), }";
  if (!shape.empty()) header.append(kExtentDigits - std::to_string(shape[0]).size(), ' ');
  header.append(kAlignment - (kPreamble + header.size() + 1) % kAlignment, ' ');
  header += '\n';

  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header;
}

}  // namespace rotary::internal
