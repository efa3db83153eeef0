// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The JSON header of a .safetensors file, parsed by SAX events: memory is proportional to the
// number of tensors, and nesting is limited to that of the format.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "io/checks.h"
#include "io/safetensors.h"
#include "json/events.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::size_t kLengthSize = 8;
/// As in the reference implementation.
constexpr std::size_t kMaxHeaderSize = 100'000'000;

/// Receives the events of the JSON parser. Throws IoError at the first unexpected one.
class HeaderBuilder final : public JsonEvents {
 public:
  explicit HeaderBuilder(const std::string& source) : source_(source) {}

  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  void on_null() override { fail("null is out of place"); }
  void on_boolean(bool) override { fail("a boolean is out of place"); }
  void on_integer(std::int64_t) override { fail("a number must not be negative"); }
  void on_double(double) override { fail("a number must be whole and fit into 64 bits"); }

  void on_unsigned(std::uint64_t value) override {
    if (state_ == State::kShape) {
      if (entry_.shape.size() == kMaxFileRank) fail("the shape has more than 64 extents");
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail("an extent of the shape is too large");
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::kOffsets) {
      if (offsets_.size() == 2) fail("data_offsets must be two numbers");
      offsets_.push_back(value);
    } else {
      fail("a number is out of place");
    }
  }

  void on_string(std::string& value) override {
    if (state_ == State::kMetadata) return;
    if (state_ != State::kEntry || field_ != "dtype") fail("a string is out of place");
    entry_.dtype = value;
  }

  void on_object_begin() override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = field_ == kMetadataKey ? State::kMetadata : State::kEntry;
      entry_ = {};
      entry_.name = field_;
      entry_.header_offset = file_offset();
      seen_fields_.clear();
      offsets_.clear();
    } else {
      fail("an object is out of place");
    }
  }

  void on_key(std::string& name) override {
    auto& seen = state_ == State::kTop ? seen_names_ : seen_fields_;
    if (!seen.insert(name).second) fail("the name " + quote(name) + " appears twice");
    if (state_ == State::kEntry && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail("tensor " + quote(entry_.name) + " has an unknown key " + quote(name));
    }
    field_ = name;
  }

  void on_object_end() override {
    if (state_ == State::kEntry) finish_entry();
    state_ = state_ == State::kTop ? State::kStart : State::kTop;
  }

  void on_array_begin() override {
    if (state_ == State::kEntry && field_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kEntry && field_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      fail("an array is out of place");
    }
  }

  void on_array_end() override { state_ = State::kEntry; }

  void on_error(std::size_t, std::string_view token, std::string_view) override {
    fail("the header is not valid JSON near " + quote(token));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kShape, kOffsets };
  static constexpr std::string_view kMetadataKey = "__metadata__";

  std::size_t file_offset() const { return kLengthSize + offset(); }
  [[noreturn]] void fail(const std::string& message) const {
    fail_at(source_, file_offset(), message);
  }

  void finish_entry() {
    if (seen_fields_.size() != 3 || offsets_.size() != 2) {
      fail("tensor " + quote(entry_.name) + " needs a dtype, a shape and two data_offsets");
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    entries_.push_back(std::move(entry_));
  }

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

/// Sorts the entries by offset, checks that they cover the `size` bytes after the header without
/// gaps or overlaps, and makes their offsets relative to the file.
void resolve_offsets(std::vector<SafetensorsEntry>& entries, std::size_t size, std::size_t data_at,
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
  if (length > left || length > kMaxHeaderSize) {
    fail_at(source, 0,
            "the header is " + std::to_string(length) + " bytes long, the file has " +
                std::to_string(left) + " left and " + std::to_string(kMaxHeaderSize) +
                " is the most");
  }
  const std::string_view text = bytes.substr(kLengthSize, length);
  if (text.empty() || text[0] != '{') fail_at(source, kLengthSize, "the header must begin with {");
  HeaderBuilder builder(source);
  read_json(text, builder);
  std::vector<SafetensorsEntry> entries = builder.take();
  resolve_offsets(entries, left - length, kLengthSize + length, source);
  return entries;
}

}  // namespace rotary::internal
