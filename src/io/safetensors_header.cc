// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The JSON header of a .safetensors file, read event by event: memory stays in proportion to the
// number of tensors, and nothing can nest deeper than the format does.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "io/checks.h"
#include "io/safetensors.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::size_t kLengthSize = 8;
/// As in the format's own implementation.
constexpr std::size_t kMaxHeader = 100'000'000;

/// A position in the header that the builder below can see while the parser moves it.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** seen_;
};

/// Receives the events of the JSON parser. Throws IoError at the first one out of place.
class HeaderBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderBuilder(std::string_view text, const std::string& source)
      : begin_(text.data()), seen_(text.data()), source_(source) {}

  const char** seen() { return &seen_; }
  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool null() override { refuse("null is out of place"); }
  bool boolean(bool) override { refuse("a boolean is out of place"); }
  bool binary(binary_t&) override { refuse("binary data is out of place"); }
  bool number_integer(number_integer_t) override { refuse("a number must not be negative"); }
  bool number_float(number_float_t, const string_t&) override {
    refuse("a number must be whole and fit into 64 bits");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (entry_.shape.size() == kMaxFileRank) refuse("the shape has more than 64 extents");
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        refuse("an extent of the shape is too large");
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::kOffsets) {
      if (offsets_.size() == 2) refuse("data_offsets must be two numbers");
      offsets_.push_back(value);
    } else {
      refuse("a number is out of place");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kEntry || field_ != "dtype") refuse("a string is out of place");
    entry_.dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = field_ == kMetadataKey ? State::kMetadata : State::kEntry;
      entry_ = {};
      entry_.name = field_;
      entry_.header_offset = offset();
      seen_fields_.clear();
      offsets_.clear();
    } else {
      refuse("an object is out of place");
    }
    return true;
  }

  bool key(string_t& name) override {
    auto& seen = state_ == State::kTop ? seen_names_ : seen_fields_;
    if (!seen.insert(name).second) refuse("the name " + quote(name) + " appears twice");
    if (state_ == State::kEntry && name != "dtype" && name != "shape" && name != "data_offsets") {
      refuse("tensor " + quote(entry_.name) + " has an unknown key " + quote(name));
    }
    field_ = name;
    return true;
  }

  bool end_object() override {
    if (state_ == State::kEntry) finish_entry();
    state_ = state_ == State::kTop ? State::kStart : State::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kEntry && field_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kEntry && field_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      refuse("an array is out of place");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kEntry;
    return true;
  }

  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception&) override {
    refuse("the header is not valid JSON near " + quote(token));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kShape, kOffsets };
  static constexpr std::string_view kMetadataKey = "__metadata__";

  std::size_t offset() const { return kLengthSize + static_cast<std::size_t>(seen_ - begin_); }
  [[noreturn]] void refuse(const std::string& message) const {
    fail_at(source_, offset(), message);
  }

  void finish_entry() {
    if (seen_fields_.size() != 3 || offsets_.size() != 2) {
      refuse("tensor " + quote(entry_.name) + " needs a dtype, a shape and two data_offsets");
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    entries_.push_back(std::move(entry_));
  }

  const char* begin_;
  const char* seen_;
  const std::string& source_;
  State state_ = State::kStart;
  std::string field_;
  SafetensorsEntry entry_;
  std::vector<std::size_t> offsets_;
  std::unordered_set<std::string> seen_names_;
  std::unordered_set<std::string> seen_fields_;
  std::vector<SafetensorsEntry> entries_;
};

/// The dtypes that the format defines, with their size in bits.
struct FormatType {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<FormatType, 22> kFormatTypes{
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}}};

void check_size(const SafetensorsEntry& entry, const std::string& source) {
  const auto type = std::find_if(kFormatTypes.begin(), kFormatTypes.end(),
                                 [&](const FormatType& t) { return t.name == entry.dtype; });
  if (type == kFormatTypes.end()) return;
  const std::string what =
      "tensor " + quote(entry.name) + ": shape " + shape_text(entry.shape) + " of " + entry.dtype;
  const std::optional<std::uint64_t> bits = count_bits(entry.shape, type->bits);
  if (!bits) fail_at(source, entry.header_offset, what + " is too large");
  if (*bits % 8 != 0)
    fail_at(source, entry.header_offset, what + " is not a whole number of bytes");
  if (*bits / 8 != entry.end - entry.begin) {
    fail_at(source, entry.header_offset,
            what + " takes " + std::to_string(*bits / 8) + " bytes, its data_offsets span " +
                std::to_string(entry.end - entry.begin));
  }
}

/// Sorts the entries, checks that they cover the `size` bytes after the header once and without
/// holes, and makes their offsets count from the beginning of the file.
void lay_out(std::vector<SafetensorsEntry>& entries, std::size_t size, std::size_t data_at,
             const std::string& source) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t covered = 0;
  for (SafetensorsEntry& entry : entries) {
    const std::string span = "tensor " + quote(entry.name) + ": data_offsets [" +
                             std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
    if (entry.begin > entry.end) fail_at(source, entry.header_offset, span + " run backwards");
    if (entry.end > size) {
      fail_at(source, entry.header_offset,
              span + " reach beyond the " + std::to_string(size) + " bytes of data");
    }
    if (entry.begin != covered) {
      fail_at(source, entry.header_offset,
              span + (entry.begin < covered ? " overlap" : " leave a hole after") +
                  " the tensor before, which ends at " + std::to_string(covered));
    }
    covered = entry.end;
    check_size(entry, source);
    entry.begin += data_at;
    entry.end += data_at;
  }
  if (covered != size) {
    fail_at(source, data_at + covered,
            std::to_string(size - covered) + " bytes of data belong to no tensor");
  }
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view bytes,
                                                       const std::string& source) {
  if (bytes.size() < kLengthSize) {
    fail_at(source, bytes.size(), "the file ends within the header's length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthSize; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  const std::size_t left = bytes.size() - kLengthSize;
  if (length > left || length > kMaxHeader) {
    fail_at(source, 0,
            "the header is " + std::to_string(length) + " bytes long, the file has " +
                std::to_string(left) + " left and " + std::to_string(kMaxHeader) + " is the most");
  }
  const std::string_view text = bytes.substr(kLengthSize, length);
  if (text.empty() || text[0] != '{') fail_at(source, kLengthSize, "the header must begin with {");
  HeaderBuilder builder(text, source);
  nlohmann::json::sax_parse(Cursor(text.data(), builder.seen()),
                            Cursor(text.data() + text.size(), builder.seen()), &builder);
  std::vector<SafetensorsEntry> entries = builder.take();
  lay_out(entries, left - length, kLengthSize + length, source);
  return entries;
}

}  // namespace rotary::internal
