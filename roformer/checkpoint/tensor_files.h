// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Named PyTorch tensors in .safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace rotary::roformer {

using TensorMap = std::map<std::string, at::Tensor>;

/// The tensors of a file, as read-only views of its memory mapping, which lives as long as one of
/// them. Throws IoError.
TensorMap read_tensors(const std::filesystem::path& path);

/// The file appears under its name only when it is complete and on the disk. Throws IoError.
void write_tensors(const std::filesystem::path& path, const TensorMap& tensors);

/// The same for text.
void write_text(const std::filesystem::path& path, const std::string& text);

/// Throws IoError about the file as a whole.
[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& message);

/// Bytes of the elements.
std::int64_t bytes_of(const TensorMap& tensors);

}  // namespace rotary::roformer
