// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The .safetensors format:
//
//   header length, 8 bytes, little endian | header, JSON padded with spaces | elements
//
//   {"__metadata__": {"key": "text"}, "q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}}
//
// Offsets count from the end of the header; the tensors lie end to end, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/io.h"

namespace rotary::internal {

struct SafetensorsEntry {
  std::string name;
  /// As the file spells it; need not be one that the library can read.
  std::string dtype;
  std::vector<std::int64_t> shape;
  /// First byte and the byte after the last, from the beginning of the file.
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Where in the header the entry stands, for errors.
  std::size_t header_offset = 0;
};

/// The entries of a file, in the order of their offsets. Everything the format demands of them is
/// checked; for a dtype that it does not define, all but the size.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view bytes,
                                                       const std::string& source);

/// Copies one tensor out of the file that the entry comes from. Throws IoError for a dtype that the
/// library does not have.
Tensor extract_tensor(std::string_view bytes, const std::string& source,
                      const SafetensorsEntry& entry);

/// Everything up to the elements of a file with one tensor. Throws std::invalid_argument for a name
/// that is not UTF-8 or that the format reserves.
std::string make_safetensors_header(std::string_view name, DType dtype,
                                    std::span<const std::int64_t> shape);

}  // namespace rotary::internal
