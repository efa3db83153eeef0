// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Named PyTorch tensors in files: .safetensors, and read only those of torch.save().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rotary::roformer {

using TensorMap = std::map<std::string, at::Tensor>;

/// The tensors of a .safetensors file, as read-only views of its memory mapping, which lives as
/// long as one of them. Throws IoError.
TensorMap read_tensors(const std::filesystem::path& path);

/// The same for a dict of tensors that torch.save() wrote, as an archive or before PyTorch 1.6; no
/// code of the file is run (io/torch_file.h). What the file does not align is copied.
TensorMap read_torch_tensors(const std::filesystem::path& path);

/// The type that .safetensors calls so; none if it is not supported.
std::optional<at::ScalarType> scalar_type_of(std::string_view dtype) noexcept;

/// The file appears under its name only when it is complete and on the disk. Throws IoError.
void write_tensors(const std::filesystem::path& path, const TensorMap& tensors);

/// The same for text.
void write_text(const std::filesystem::path& path, const std::string& text);

/// Throws IoError about the file as a whole.
[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& message);

/// Bytes of the elements.
std::int64_t bytes_of(const TensorMap& tensors);

}  // namespace rotary::roformer
