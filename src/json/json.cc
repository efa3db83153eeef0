// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "json/json.h"

#include <algorithm>
#include <limits>

#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::uint64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

std::vector<const Json::Member*> sorted(const Json::Object& members) {
  std::vector<const Json::Member*> result;
  for (const Json::Member& member : members) result.push_back(&member);
  std::sort(result.begin(), result.end(), [](auto* a, auto* b) { return a->key < b->key; });
  return result;
}

bool same_members(const Json::Object& a, const Json::Object& b) {
  const std::vector<const Json::Member*> left = sorted(a);
  const std::vector<const Json::Member*> right = sorted(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](auto* x, auto* y) { return x->key == y->key && x->value == y->value; });
}

}  // namespace

Json::Json(Value value) noexcept : value_(std::move(value)) {}
Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(double value) noexcept : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) noexcept : value_(std::move(text)) {}
Json::Json(Array elements) noexcept : value_(std::move(elements)) {}
Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Value Json::of_unsigned(std::uint64_t value) noexcept {
  if (value <= kMaxInt64) return static_cast<std::int64_t>(value);
  return value;
}

Json Json::array() { return Json(Array()); }
Json Json::object() { return Json(Value(Object())); }
Json Json::object(Object members) { return Json(Value(std::move(members))); }

std::string_view Json::type_name() const noexcept {
  if (is_number()) return "number";
  if (is_null()) return "null";
  if (is_boolean()) return "boolean";
  if (is_string()) return "string";
  return is_array() ? "array" : "object";
}

void Json::fail(std::string_view wanted) const {
  reject("JSON: expected ", wanted, ", got ", type_name());
}

bool Json::is_uint64() const noexcept {
  const auto* value = std::get_if<std::int64_t>(&value_);
  return value != nullptr ? *value >= 0 : holds<std::uint64_t>();
}

bool Json::as_bool() const {
  const bool* value = std::get_if<bool>(&value_);
  return value != nullptr ? *value : (fail("a boolean"), false);
}

double Json::as_double() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  fail("a number");
}

std::int64_t Json::as_int64() const {
  const auto* value = std::get_if<std::int64_t>(&value_);
  return value != nullptr ? *value : (fail("an integer of 64 bits"), 0);
}

std::uint64_t Json::as_uint64() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  const auto* value = std::get_if<std::int64_t>(&value_);
  if (value == nullptr || *value < 0) fail("an integer of 64 bits that is not negative");
  return static_cast<std::uint64_t>(*value);
}

const std::string& Json::as_string() const {
  if (!is_string()) fail("a string");
  return std::get<std::string>(value_);
}

const Json::Array& Json::elements() const {
  if (!is_array()) fail("an array");
  return std::get<Array>(value_);
}

const Json::Object& Json::members() const {
  if (!is_object()) fail("an object");
  return std::get<Object>(value_);
}

std::size_t Json::size() const noexcept {
  if (const auto* elements = std::get_if<Array>(&value_)) return elements->size();
  if (const auto* members = std::get_if<Object>(&value_)) return members->size();
  return is_null() ? 0 : 1;
}

const Json* Json::find(std::string_view key) const noexcept {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(),
                                  [key](const Member& member) { return member.key == key; });
  return found == members->end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) reject("JSON: no key ", key);
  return *found;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  if (!is_object()) fail("an object");
  return std::get<Object>(value_).emplace_back(Member{std::string(key), Json()}).value;
}

void Json::push_back(Json element) {
  if (is_null()) value_ = Array();
  if (!is_array()) fail("an array");
  std::get<Array>(value_).push_back(std::move(element));
}

Json Json::take(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr) return nullptr;
  auto& members = std::get<Object>(value_);
  const auto at = std::find_if(members.begin(), members.end(),
                               [found](const Member& member) { return &member.value == found; });
  Json value = std::move(at->value);
  members.erase(at);
  return value;
}

void Json::sort() {
  auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) fail("an object");
  std::sort(members->begin(), members->end(),
            [](const Member& a, const Member& b) { return a.key < b.key; });
}

void Json::update(const Json& object) {
  for (const Member& member : object.members()) (*this)[member.key] = member.value;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number() && a.value_.index() != b.value_.index()) {
    return a.as_double() == b.as_double();
  }
  if (a.is_object() && b.is_object()) return same_members(a.members(), b.members());
  if (a.is_array() && b.is_array()) return a.elements() == b.elements();
  if (a.value_.index() != b.value_.index()) return false;
  if (const auto* text = std::get_if<std::string>(&a.value_)) return *text == b.as_string();
  if (const auto* number = std::get_if<double>(&a.value_)) return *number == b.as_double();
  if (a.is_int64()) return a.as_int64() == b.as_int64();
  if (a.is_integer()) return a.as_uint64() == b.as_uint64();
  return a.is_null() || a.as_bool() == b.as_bool();
}

}  // namespace rotary::internal
