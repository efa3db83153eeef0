// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

#include "c/call.h"
#include "rotary/cuda.h"
#include "rotary/error.h"
#include "rotary/version.h"

namespace rotary::c_api {
namespace {

/// Keeps the exception itself: copying its text could run out of memory.
struct LastError {
  std::exception_ptr exception{};
  const char* message = "";
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

/// Called from a catch clause.
rotary_status remember(rotary_status status, const char* message) noexcept {
  last_error() = {std::current_exception(), message};
  return status;
}

}  // namespace

rotary_status guard(const char* function, void (*body)(const void* state, const Call& call),
                    const void* state) noexcept {
  try {
    body(state, Call(function));
    return ROTARY_OK;
  } catch (const std::invalid_argument& error) {
    return remember(ROTARY_INVALID_ARGUMENT, error.what());
  } catch (const IoError& error) {
    return remember(ROTARY_IO_ERROR, error.what());
  } catch (const CudaError& error) {
    return remember(ROTARY_CUDA_ERROR, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return remember(ROTARY_IO_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return remember(ROTARY_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return remember(ROTARY_INTERNAL_ERROR, error.what());
  } catch (...) {
    return remember(ROTARY_INTERNAL_ERROR, "an exception that is not a std::exception was thrown");
  }
}

std::string text_of(const Name& name) {
  std::string text(name.text);
  if (name.index >= 0) text += "[" + std::to_string(name.index) + "]";
  if (!name.member.empty()) text.append(".").append(name.member);
  if (!name.member_of_member.empty()) text.append(".").append(name.member_of_member);
  return text;
}

std::int32_t Call::choose(std::int32_t value, std::int32_t lowest, std::int32_t highest,
                          const Name& name) const {
  if (value < lowest || value > highest) {
    reject(name, " must be ", lowest, " to ", highest, ", got ", value);
  }
  return value;
}

void Call::copy_in(const void* given, const Name& name, void* value, std::size_t size,
                   std::size_t alignment) const {
  // Far larger than any future struct: a larger value was never initialised.
  constexpr std::uint32_t kLargest = 4096;
  std::uint32_t given_size = 0;
  std::memcpy(&given_size, &need(static_cast<const std::byte*>(given), name), sizeof(given_size));
  if (given_size == 0 || given_size % alignment != 0 || given_size > kLargest) {
    reject(name, ".struct_size must be the size of the struct (", size, " bytes here), got ",
           given_size);
  }
  std::memcpy(value, given, std::min<std::size_t>(given_size, size));
  const auto* bytes = static_cast<const std::byte*>(given);
  for (std::size_t i = size; i < given_size; ++i) {
    if (bytes[i] != std::byte{0}) {
      reject(name, ".struct_size is ", given_size, ", this rotary knows ", size,
             " bytes, and byte ", i, " is not 0: a field that it cannot honour");
    }
  }
}

void Call::copy_out(const void* value, void* to, std::size_t size) noexcept {
  std::uint32_t to_size = 0;
  std::memcpy(&to_size, to, sizeof(to_size));
  std::memcpy(to, value, std::min<std::size_t>(to_size, size));
}

}  // namespace rotary::c_api

std::uint32_t rotary_c_api_version() { return ROTARY_C_API_VERSION; }

const char* rotary_version() { return ROTARY_VERSION_STRING; }

std::int32_t rotary_has_cuda() { return rotary::has_cuda() ? 1 : 0; }

std::int32_t rotary_cuda_device_count() { return rotary::cuda_device_count(); }

const char* rotary_status_name(rotary_status status) {
  switch (status) {
    case ROTARY_OK:
      return "ok";
    case ROTARY_INVALID_ARGUMENT:
      return "invalid argument";
    case ROTARY_IO_ERROR:
      return "io error";
    case ROTARY_OUT_OF_MEMORY:
      return "out of memory";
    case ROTARY_INTERNAL_ERROR:
      return "internal error";
    case ROTARY_CUDA_ERROR:
      return "cuda error";
    default:
      return "unknown status";
  }
}

const char* rotary_last_error() { return rotary::c_api::last_error().message; }
