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
  /// Where the elements begin.
  std::size_t data_offset = 0;
};

/// Throws IoError for anything but the three keys above, each once, with values that are supported.
/// The size of the elements is not checked.
NpyHeader parse_npy_header(std::string_view bytes, const std::string& source);

/// Everything up to the elements, byte for byte what np.save writes. `dtype` is one that NumPy has.
std::string make_npy_header(DType dtype, std::span<const std::int64_t> shape);

}  // namespace rotary::internal
