// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which format a file has, by the ending of its name.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rotary::internal {

enum class FileFormat : std::uint8_t { kNpy, kSafetensors };

/// Throws std::invalid_argument, in the name of `function`, for any other ending.
FileFormat format_of(const std::filesystem::path& path, const char* function);

}  // namespace rotary::internal
