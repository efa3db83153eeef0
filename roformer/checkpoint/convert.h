// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Converts a model with position embeddings into one with RoPE: every weight is kept except the
/// position table. The model then needs fine-tuning with a small learning rate.
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
  /// Old and new name, where they differ.
  std::vector<std::pair<std::string, std::string>> renamed{};
};

/// Takes a BERT (model_type "bert"), or a RoFormer whose position_encoding is "learned" or
/// "sinusoidal"; one with RoPE is kept as it is. Throws IoError for another model, and for a
/// missing tensor.
Conversion convert_to_rope(const std::filesystem::path& path);

}  // namespace rotary::roformer
