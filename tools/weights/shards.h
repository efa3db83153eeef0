// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The files of a model's folder, as Hugging Face lays them out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rotary::cli {

struct ModelFiles {
  /// Names of the .safetensors files with the weights: those that the index lists, else
  /// model.safetensors, else all. Sorted.
  std::vector<std::string> shards;
  /// Other files that go with any weights: config.json, the index, the tokeniser. Sorted.
  std::vector<std::string> others;
  /// Weights in other files, and folders. Sorted.
  std::vector<std::string> left_out;
};

/// Throws IoError for a folder without config.json or .safetensors files, and for an index that
/// names what is no file of the folder.
ModelFiles list_model_files(const std::filesystem::path& folder);

}  // namespace rotary::cli
