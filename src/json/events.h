// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A JSON text as a sequence of events, for readers that must not hold it as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rotary::internal {

/// Receives the events of one text. Any of them may throw to end the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual void on_null() = 0;
  virtual void on_boolean(bool value) = 0;
  virtual void on_integer(std::int64_t value) = 0;    // negative
  virtual void on_unsigned(std::uint64_t value) = 0;  // not negative
  virtual void on_double(double value) = 0;           // a fraction, or too large for the others
  virtual void on_string(std::string& value) = 0;
  virtual void on_object_begin() = 0;
  virtual void on_key(std::string& key) = 0;
  virtual void on_object_end() = 0;
  virtual void on_array_begin() = 0;
  virtual void on_array_end() = 0;
  /// Ends the reading; must throw. `token`: the last one read. `range_error`: the library's message
  /// for a number that is too large; empty for a syntax error.
  [[noreturn]] virtual void on_error(std::size_t offset, std::string_view token,
                                     std::string_view range_error) = 0;

  /// Bytes of the text that have been read so far.
  std::size_t offset() const noexcept { return static_cast<std::size_t>(read_ - begin_); }

 protected:
  JsonEvents() = default;
  JsonEvents(const JsonEvents&) = default;
  JsonEvents& operator=(const JsonEvents&) = default;

 private:
  friend void read_json(std::string_view text, JsonEvents& events);
  const char* begin_ = nullptr;
  const char* read_ = nullptr;
};

void read_json(std::string_view text, JsonEvents& events);

}  // namespace rotary::internal
