// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The frame of every C API call: exceptions become a status, NULL and structs of other versions are
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rotary/rotary_c.h"
#include "support/message.h"

namespace rotary::c_api {

/// Name of an argument in errors: "options", "in[1].dtype", "positions.ids.dtype". Formatted only
/// when printed.
struct Name {
  std::string_view text{};
  std::int64_t index = -1;
  std::string_view member{};
  std::string_view member_of_member{};

  constexpr Name(const char* name) noexcept : text(name) {}  // NOLINT: a literal is the usual name
  constexpr Name at(std::size_t i) const noexcept {
    Name name = *this;
    name.index = static_cast<std::int64_t>(i);
    return name;
  }
  constexpr Name dot(std::string_view further) const noexcept {
    Name name = *this;
    (member.empty() ? name.member : name.member_of_member) = further;
    return name;
  }
};
std::string text_of(const Name& name);

/// The current call: its function name for errors, and argument access.
class Call {
 public:
  explicit Call(const char* function) noexcept : function_(function) {}

  template <typename... Args>
  [[noreturn]] void reject(const Args&... args) const {
    internal::reject("[", function_, "] ", as_part(args)...);
  }

  /// Dereferences the pointer. Throws for NULL.
  template <typename T>
  T& need(T* pointer, const Name& name) const {
    if (pointer == nullptr) reject(name, " must not be NULL");
    return *pointer;
  }

  /// Copies the caller's struct; members that it lacks are zero. Throws for NULL, an impossible
  /// struct_size, and non-zero members that this version does not know.
  template <typename T>
  T read(const T* given, const Name& name) const {
    T value{};
    copy_in(given, name, &value, sizeof(T), alignof(T));
    if constexpr (requires { value.reserved; }) {
      if (value.reserved != 0) reject(name, ".reserved must be 0, got ", value.reserved);
    }
    return value;
  }

  /// Element `index` of an array of the caller's structs, whose first element has `struct_size`.
  template <typename T>
  T read_at(const T* array, std::size_t index, std::uint32_t struct_size, const Name& name) const {
    const void* at = reinterpret_cast<const std::byte*>(array) + index * struct_size;
    const T value = read(static_cast<const T*>(at), name.at(index));
    if (value.struct_size != struct_size) {
      reject(name.at(index), ".struct_size must be that of the first of its array, ", struct_size,
             ", got ", value.struct_size);
    }
    return value;
  }

  /// Writes the members that the caller's struct has; keeps its struct_size. Throws as read() does.
  template <typename T>
  void write(T value, T* to, const Name& name) const {
    value.struct_size = read(to, name).struct_size;
    copy_out(&value, to, sizeof(T));
  }

  /// `value`, which must be one of `lowest` ... `highest`.
  std::int32_t choose(std::int32_t value, std::int32_t lowest, std::int32_t highest,
                      const Name& name) const;

 private:
  template <typename T>
  static const T& as_part(const T& arg) noexcept {
    return arg;
  }
  static std::string as_part(const Name& name) { return text_of(name); }

  void copy_in(const void* given, const Name& name, void* value, std::size_t size,
               std::size_t alignment) const;
  static void copy_out(const void* value, void* to, std::size_t size) noexcept;

  const char* function_;
};

/// Runs body(state, call). Exceptions become the status and rotary_last_error(). The only try/catch
/// of the C API.
rotary_status guard(const char* function, void (*body)(const void* state, const Call& call),
                    const void* state) noexcept;

/// The same for a lambda.
template <typename Body>
rotary_status guard(const char* function, const Body& body) noexcept {
  const auto run = [](const void* state, const Call& call) {
    (*static_cast<const Body*>(state))(call);
  };
  return guard(function, run, &body);
}

/// guard() for a function that creates a handle: *handle is NULL unless it succeeds.
template <typename Handle, typename Body>
rotary_status guard_new(const char* function, Handle** handle, const Name& name,
                        const Body& body) noexcept {
  return guard(function, [&](const Call& call) {
    call.need(handle, name) = nullptr;
    *handle = body(call);
  });
}

}  // namespace rotary::c_api
