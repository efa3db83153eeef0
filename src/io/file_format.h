// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The format of a file, by its extension.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rotary::internal {

enum class FileFormat : std::uint8_t { kNpy, kSafetensors };

/// Throws std::invalid_argument, in the name of `function`, for any other extension.
FileFormat format_of(const std::filesystem::path& path, const char* function);

}  // namespace rotary::internal
