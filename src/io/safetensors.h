// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The .safetensors format:
//
//   header length, 8 bytes, little endian | header, JSON padded with spaces | elements
//
//   {"__metadata__": {"key": "text"}, "q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}}
//
// Offsets are relative to the end of the header; the tensors are contiguous, without gaps.
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
  /// As in the file; not necessarily one that the library supports.
  std::string dtype;
  std::vector<std::int64_t> shape;
  /// Byte range [begin, end) in the file.
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Byte offset of the entry, for errors.
  std::size_t header_offset = 0;
};

/// The entries of a file, by offset. Validates everything that the format requires; for a dtype
/// that the format does not define, all but the size.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view bytes,
                                                       const std::string& source);

/// The entry of that name; with an empty name, the only one. Throws IoError if there is none.
const SafetensorsEntry& select_entry(const std::vector<SafetensorsEntry>& entries,
                                     std::string_view name, const std::string& source);

/// Throws IoError for a dtype that the library does not support.
DType dtype_of(const SafetensorsEntry& entry, const std::string& source);

/// Copies one tensor out of the file. Throws IoError for a dtype that the library does not support.
Tensor extract_tensor(std::string_view bytes, const std::string& source,
                      const SafetensorsEntry& entry);

/// The bytes before the elements of a file with one tensor. Throws std::invalid_argument for a name
/// that is not UTF-8 or that the format reserves.
std::string make_safetensors_header(std::string_view name, DType dtype,
                                    std::span<const std::int64_t> shape);

}  // namespace rotary::internal
