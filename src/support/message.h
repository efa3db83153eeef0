// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Error texts: "[function] rule, got value".
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rotary::internal {

/// A part of a text: a string, to which it refers, a character, a number or an address.
class MessagePart {
 public:
  explicit MessagePart(std::string_view text) noexcept : kind_(Kind::kText), text_(text) {}
  explicit MessagePart(const char* text) noexcept : MessagePart(std::string_view(text)) {}
  explicit MessagePart(const std::string& text) noexcept : MessagePart(std::string_view(text)) {}
  explicit MessagePart(const void* value) noexcept : kind_(Kind::kAddress), address_(value) {}
  explicit MessagePart(char value) noexcept : kind_(Kind::kCharacter), character_(value) {}
  explicit MessagePart(double value) noexcept : kind_(Kind::kDouble), double_(value) {}
  template <std::signed_integral T>
    requires(sizeof(T) > 1)
  explicit MessagePart(T value) noexcept : kind_(Kind::kSigned), signed_(value) {}
  template <std::unsigned_integral T>
    requires(sizeof(T) > 1)
  explicit MessagePart(T value) noexcept : kind_(Kind::kUnsigned), unsigned_(value) {}

 private:
  friend std::string concat_parts(std::initializer_list<MessagePart> parts);
  enum class Kind : std::uint8_t { kText, kAddress, kCharacter, kDouble, kSigned, kUnsigned };

  Kind kind_;
  union {
    std::string_view text_;
    const void* address_;
    char character_;
    double double_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
  };
};

// Compiled once: messages are in every file, and streams take long to compile.
std::string concat_parts(std::initializer_list<MessagePart> parts);
[[noreturn]] void reject_parts(std::initializer_list<MessagePart> parts);

/// Concatenates the arguments; doubles with 12 significant digits.
template <typename... Args>
std::string concat(const Args&... args) {
  return concat_parts({MessagePart(args)...});
}

/// Throws std::invalid_argument with the arguments as its text.
template <typename... Args>
[[noreturn]] void reject(const Args&... args) {
  reject_parts({MessagePart(args)...});
}

}  // namespace rotary::internal
