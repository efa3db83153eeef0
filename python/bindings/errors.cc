// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The library's exceptions as those of rotary/errors.py. nanobind itself maps
// std::invalid_argument to ValueError and std::bad_alloc to MemoryError.
#include <cstdint>
#include <exception>
#include <string_view>

#include "bindings/parts.h"
#include "rotary/error.h"

namespace rotary::python {
namespace {

namespace nb = nanobind;

/// Bytes of a path or a file need not be UTF-8.
nb::object text_of(std::string_view bytes) {
  return nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

template <typename... Arguments>
void raise(const char* name, const Arguments&... arguments) {
  const nb::object type = nb::module_::import_("rotary.errors").attr(name);
  PyErr_SetObject(type.ptr(), type(arguments...).ptr());
}

}  // namespace

void add_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const IoError& e) {
      const bool has_offset = e.offset() != IoError::kNoOffset;
      raise("IoError", text_of(e.what()), text_of(e.path()),
            has_offset ? nb::object(nb::int_(e.offset())) : nb::none());
    } catch (const CudaError& e) {
      raise("CudaError", text_of(e.what()), nb::int_(e.code()));
    }
  });
}

}  // namespace rotary::python
