// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The heads of a model's attention, as its config.json has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "rotary/pairing.h"

namespace rotary::cli {

struct AttentionShape {
  std::string model_type;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  /// A head of q and k, and its rotary slice.
  std::int64_t head_dim = 0;
  std::int64_t rotary_offset = 0;
  std::int64_t rotary_dim = 0;
  /// Of multi-head latent attention: the rows before the key's rotary slice in
  /// kv_a_proj_with_mqa. 0 elsewhere.
  std::int64_t kv_lora_rank = 0;
  Pairing pairing = Pairing::kHalf;
  /// Key of the config that says whether pairs are interleaved; empty if the family has none.
  std::string interleave_key;
};

/// Throws IoError for a file that cannot be read, and std::invalid_argument for a model whose
/// heads are not known from its config: an unknown model_type, a composite config, layers with
/// heads of their own, quantised weights.
AttentionShape read_attention_shape(const std::filesystem::path& config);

}  // namespace rotary::cli
