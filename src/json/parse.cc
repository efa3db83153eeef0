// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "json/events.h"
#include "json/json.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::size_t kMaxDepth = 64;

/// A text with Python's non-finite numbers outside strings replaced by null.
class FiniteText {
 public:
  explicit FiniteText(std::string_view text) {
    text_.reserve(text.size());
    bool in_string = false;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = in_string ? 0 : word_length(text.substr(i));
      if (length > 0) {
        text_ += "null";
        text_.append(length > 4 ? length - 4 : 0, ' ');
        if (length < 4) longer_.push_back(text_.size());
        i += length;
        continue;
      }
      if (text[i] == '"') in_string = !in_string;
      if (in_string && text[i] == '\\' && i + 1 < text.size()) text_ += text[i++];
      text_ += text[i++];
    }
  }

  const std::string& text() const { return text_; }

  /// The offset in the given text of an offset in text().
  std::size_t given_offset(std::size_t offset) const {
    const auto after = std::upper_bound(longer_.begin(), longer_.end(), offset);
    return offset - static_cast<std::size_t>(after - longer_.begin());
  }

 private:
  static std::size_t word_length(std::string_view text) {
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.starts_with(word)) return word.size();
    }
    return 0;
  }

  std::string text_;
  std::vector<std::size_t> longer_;  // ends of replacements that are one longer than the word
};

/// Of equal keys the last one stays.
void sort_members(Json::Object& members) {
  std::stable_sort(members.begin(), members.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto last_of_equal =
      std::unique(members.rbegin(), members.rend(),
                  [](const auto& a, const auto& b) { return a.key == b.key; });
  members.erase(members.begin(), last_of_equal.base());
}

/// Builds a value from the events of its text.
class Builder final : public JsonEvents {
 public:
  Builder(const FiniteText& text, const std::string& source) : text_(text), source_(source) {}

  Json take() { return std::move(result_); }

  void on_null() override { add(nullptr); }
  void on_boolean(bool value) override { add(value); }
  void on_integer(std::int64_t value) override { add(value); }
  void on_unsigned(std::uint64_t value) override { add(value); }
  void on_double(double value) override { add(value); }
  void on_string(std::string& value) override { add(std::move(value)); }
  void on_object_begin() override { open(true); }
  void on_array_begin() override { open(false); }
  void on_key(std::string& key) override { open_.back().key = std::move(key); }

  void on_object_end() override {
    Json::Object members = std::move(open_.back().members);
    open_.pop_back();
    sort_members(members);
    add(Json::object(std::move(members)));
  }
  void on_array_end() override {
    Json::Array elements = std::move(open_.back().elements);
    open_.pop_back();
    add(std::move(elements));
  }

  void on_error(std::size_t offset, std::string_view, std::string_view range_error) override {
    if (!range_error.empty()) {
      throw IoError(source_, IoError::kNoOffset, concat("not valid JSON: ", range_error));
    }
    throw IoError(source_, static_cast<std::int64_t>(text_.given_offset(offset)), "not valid JSON");
  }

 private:
  /// An array or object whose end has not been read.
  struct Open {
    bool is_object;
    std::string key;  // of the next member
    Json::Object members;
    Json::Array elements;
  };

  void open(bool is_object) {
    if (open_.size() > kMaxDepth) {
      throw IoError(source_, IoError::kNoOffset,
                    concat("nested deeper than ", kMaxDepth, " levels"));
    }
    open_.push_back({is_object, {}, {}, {}});
  }

  void add(Json value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().members.push_back({std::move(open_.back().key), std::move(value)});
    } else {
      open_.back().elements.push_back(std::move(value));
    }
  }

  const FiniteText& text_;
  const std::string& source_;
  std::vector<Open> open_;
  Json result_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  const FiniteText finite(text);
  Builder builder(finite, source);
  read_json(finite.text(), builder);
  return builder.take();
}

Json try_parse_json(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const IoError&) {
    return nullptr;
  }
}

}  // namespace rotary::internal
