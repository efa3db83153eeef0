// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A TensorBoard event file of scalars. Records, little endian:
//
//   length, 64 bits | its checksum, 32 bits | Event (Protocol Buffers) | its checksum, 32 bits
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary::roformer {

class EventFile {
 public:
  /// A new file "events.out.tfevents.TIME.HOST.PROCESS" in the folder, which must exist. Points at
  /// `first_step` and later in the folder's other files are void: TensorBoard drops them.
  /// Throws IoError, as all functions do.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// One event; it is in the file when this returns.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// CRC-32C (Castagnoli) of bytes.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace rotary::roformer
