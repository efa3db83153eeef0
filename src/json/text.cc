// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// JSON text, read and written by nlohmann/json. The only file of the library that includes it.
#include <iterator>
#include <nlohmann/json.hpp>

#include "json/events.h"
#include "json/json.h"

namespace rotary::internal {
namespace {

using Library = nlohmann::ordered_json;

/// An iterator over the text that reports its position.
class PositionIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  PositionIterator(const char* at, const char** read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  PositionIterator& operator++() {
    *read_ = ++at_;
    return *this;
  }
  PositionIterator operator++(int) {
    const PositionIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const PositionIterator& a, const PositionIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  const char** read_;
};

/// Hands the library's events on.
class Adapter final : public nlohmann::json_sax<Library> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() override { return events_.on_null(), true; }
  bool boolean(bool value) override { return events_.on_boolean(value), true; }
  bool number_integer(number_integer_t value) override { return events_.on_integer(value), true; }
  bool number_unsigned(number_unsigned_t value) override {
    return events_.on_unsigned(value), true;
  }
  bool number_float(number_float_t value, const string_t&) override {
    return events_.on_double(value), true;
  }
  bool string(string_t& value) override { return events_.on_string(value), true; }
  bool binary(binary_t&) override { return false; }  // never in JSON text
  bool start_object(std::size_t) override { return events_.on_object_begin(), true; }
  bool key(string_t& name) override { return events_.on_key(name), true; }
  bool end_object() override { return events_.on_object_end(), true; }
  bool start_array(std::size_t) override { return events_.on_array_begin(), true; }
  bool end_array() override { return events_.on_array_end(), true; }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const bool syntax = dynamic_cast<const Library::parse_error*>(&error) != nullptr;
    events_.on_error(position > 0 ? position - 1 : 0, token, syntax ? "" : error.what());
    return false;  // on_error() throws
  }

 private:
  JsonEvents& events_;
};

Library to_library(const Json& json) {
  if (json.is_object()) {
    Library result = Library::object();
    auto& members = result.get_ref<Library::object_t&>();
    members.reserve(json.size());
    for (const Json::Member& member : json.members()) {
      members.emplace_back(member.key, to_library(member.value));
    }
    return result;
  }
  if (json.is_array()) {
    Library result = Library::array();
    for (const Json& element : json.elements()) result.push_back(to_library(element));
    return result;
  }
  if (json.is_string()) return json.as_string();
  if (json.is_boolean()) return json.as_bool();
  if (json.is_null()) return nullptr;
  if (json.is_int64()) return json.as_int64();
  if (json.is_integer()) return json.as_uint64();
  return json.as_double();
}

}  // namespace

void read_json(std::string_view text, JsonEvents& events) {
  events.begin_ = events.read_ = text.data();
  // To the library a NUL ends the text; what follows it would not be read.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    events.read_ += nul;
    events.on_error(nul, "\\0", "");
  }
  Adapter adapter(events);
  Library::sax_parse(PositionIterator(text.data(), &events.read_),
                     PositionIterator(text.data() + text.size(), &events.read_), &adapter);
}

std::string Json::dump() const {
  return to_library(*this).dump(-1, ' ', false, Library::error_handler_t::replace);
}

std::string Json::dump_lines() const {
  return to_library(*this).dump(2, ' ', false, Library::error_handler_t::replace) + "\n";
}

std::string Json::excerpt() const {
  constexpr std::size_t kMaxBytes = 80;
  std::string text = to_library(*this).dump(-1, ' ', true, Library::error_handler_t::replace);
  if (text.size() > kMaxBytes) text.replace(kMaxBytes - 3, std::string::npos, "...");
  return text;
}

std::optional<std::string> Json::dump_strict() const {
  try {
    return to_library(*this).dump();
  } catch (const Library::type_error&) {
    return std::nullopt;
  }
}

}  // namespace rotary::internal
