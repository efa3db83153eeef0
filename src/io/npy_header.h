// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The .npy format (NumPy NEP 1, versions 1.0 to 3.0):
//
//   "\x93NUMPY" major minor | header length, 2 or 4 bytes | header | elements
//
// The header is the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/tensor.h"

namespace rotary::internal {

enum class ElementOrder : std::uint8_t { kRowMajor, kColumnMajor };

struct NpyHeader {
  DType dtype = DType::kFloat32;
  std::endian endian = std::endian::native;
  ElementOrder order = ElementOrder::kRowMajor;
  std::vector<std::int64_t> shape;
  /// Byte offset of the elements.
  std::size_t data_offset = 0;
};

/// Throws IoError unless the header has the three keys above, each once, with supported values. The
/// size of the file is not checked against the shape.
NpyHeader parse_npy_header(std::string_view bytes, const std::string& source);

/// The bytes before the elements, identical to np.save. `dtype` must be one of NumPy (no bfloat16).
std::string make_npy_header(DType dtype, std::span<const std::int64_t> shape);

}  // namespace rotary::internal
