// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A JSON value. The JSON library behind it is compiled in one file, src/json/text.cc.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rotary::internal {

/// null, a boolean, a number, a string, an array, or an object, whose members keep their order.
///
///   const Json json = {{"factor", 8.0}, {"sections", std::vector{16, 24, 24}}};
class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  template <std::same_as<bool> T>
  Json(T value) noexcept : Json(Value(value)) {}
  template <std::signed_integral T>
  Json(T value) noexcept : Json(Value(static_cast<std::int64_t>(value))) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) noexcept : Json(of_unsigned(value)) {}
  Json(double value) noexcept;
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text) noexcept;
  Json(Array elements) noexcept;
  template <typename T>
  Json(const std::vector<T>& elements) : Json(Array(elements.begin(), elements.end())) {}
  /// An object.
  Json(std::initializer_list<Member> members);

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json object();
  static Json object(Object members);

  bool is_null() const noexcept { return holds<std::nullptr_t>(); }
  bool is_boolean() const noexcept { return holds<bool>(); }
  bool is_integer() const noexcept { return holds<std::int64_t>() || holds<std::uint64_t>(); }
  bool is_int64() const noexcept { return holds<std::int64_t>(); }
  /// An integer from 0 to 2^64 - 1.
  bool is_uint64() const noexcept;
  bool is_number() const noexcept { return is_integer() || holds<double>(); }
  bool is_string() const noexcept { return holds<std::string>(); }
  bool is_array() const noexcept { return holds<Array>(); }
  bool is_object() const noexcept { return holds<Object>(); }
  /// "null", "boolean", "number", "string", "array" or "object".
  std::string_view type_name() const noexcept;

  // Each of these throws std::invalid_argument for a value of another type.
  bool as_bool() const;
  /// Any number, rounded to double.
  double as_double() const;
  /// Throws also for a fraction and for an integer outside the type.
  std::int64_t as_int64() const;
  std::uint64_t as_uint64() const;
  const std::string& as_string() const;
  const Array& elements() const;
  const Object& members() const;

  /// Of an array or object; 0 for null, 1 for any other value.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  /// The value of a key; null if this is no object or has no such key.
  const Json* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  /// The same; throws std::invalid_argument if there is none.
  const Json& at(std::string_view key) const;
  /// The value of a key, appended as null if absent. A null value becomes an object.
  Json& operator[](std::string_view key);
  /// Appends to an array. A null value becomes an array.
  void push_back(Json element);
  /// Removes a key and returns its value; null if there is none.
  Json take(std::string_view key);
  /// Sorts the members of this object by key.
  void sort();
  /// Sets every member of another object.
  void update(const Json& object);

  /// Numbers are compared by value, objects without regard to order.
  friend bool operator==(const Json& a, const Json& b);

  /// In one line. Numbers round-trip; invalid UTF-8 is replaced.
  std::string dump() const;
  /// The same, a line for each value, indented by 2 for each level, and a line feed at the end.
  std::string dump_lines() const;
  /// For messages: in ASCII, control characters escaped, truncated to 80 bytes.
  std::string excerpt() const;
  /// As dump(); none if a string is not valid UTF-8.
  std::optional<std::string> dump_strict() const;

 private:
  // std::uint64_t only for what does not fit std::int64_t.
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                             Array, Object>;
  explicit Json(Value value) noexcept;
  static Value of_unsigned(std::uint64_t value) noexcept;
  template <typename T>
  bool holds() const noexcept {
    return std::holds_alternative<T>(value_);
  }
  [[noreturn]] void fail(std::string_view wanted) const;

  Value value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

/// Parses JSON as Python writes it: NaN, Infinity and -Infinity are read as null. Of equal keys the
/// last one counts; the members of an object are sorted by key. Throws IoError with the byte offset
/// for invalid JSON, and for nesting deeper than 64 levels.
Json parse_json(std::string_view text, const std::string& source);
/// The same; null for text that parse_json() refuses.
Json try_parse_json(std::string_view text);

}  // namespace rotary::internal
