// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The directory of a .zip file whose entries are stored, not compressed, as torch.save() writes it:
//
//   local header | name | extra | bytes | [descriptor]   for each entry
//   central directory: a header for each entry
//   [zip64 end of central directory | zip64 locator] end of central directory
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::internal {

struct ZipEntry {
  std::string_view name;
  /// Byte range [begin, end) in the file.
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The first bytes of a .zip file.
inline constexpr std::string_view kZipMagic{"PK\x03\x04", 4};

/// The entries in the order of the central directory; views of `bytes`. Throws IoError for entries
/// that are compressed or encrypted, share bytes or a name, have another name in their local
/// header, or a name that leads out of the archive; and for more than 2^17 entries. Checksums are
/// not computed.
std::vector<ZipEntry> read_zip_directory(std::string_view bytes, const std::string& source);

}  // namespace rotary::internal
