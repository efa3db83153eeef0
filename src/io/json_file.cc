// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/json_file.h"

#include "io/file_reader.h"

namespace rotary::internal {

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_small_file(path), path.string());
}

}  // namespace rotary::internal
