// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A model with positions added to its input becomes one that turns queries and keys: every weight
/// is kept but the table of positions. It is then to be tuned with a small step.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"

namespace rotary::roformer {

struct Conversion {
  Config config{};
  /// Under their new names.
  TensorMap tensors{};
  struct Dropped {
    std::string name;
    std::string reason;
  };
  std::vector<Dropped> dropped{};
  /// Old and new name, where they are not the same.
  std::vector<std::pair<std::string, std::string>> renamed{};
};

/// Of a BERT (model_type "bert"), or of a RoFormer whose position_encoding is "learned" or
/// "sinusoidal"; of one with RoPE everything stays. Throws IoError for another model, and for one
/// that lacks a tensor.
Conversion convert_to_rope(const std::filesystem::path& path);

}  // namespace rotary::roformer
