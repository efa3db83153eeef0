// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Small JSON files: configs, indices, states.
#pragma once

#include <filesystem>

#include "json/json.h"

namespace rotary::internal {

/// Throws IoError for a file that cannot be read, is longer than 16 MiB, or is not valid JSON.
Json read_json_file(const std::filesystem::path& path);

}  // namespace rotary::internal
