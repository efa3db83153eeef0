// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rewrites the weights of a model for the other pairing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/weights/attention_shape.h"
#include "tools/weights/projections.h"
#include "tools/weights/shards.h"

namespace rotary::cli {

/// A tensor of a shard whose rows move.
struct PermutedTensor {
  /// Byte range [begin, end) in the file.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t num_rows = 0;
  std::vector<HeadRows> heads;
};

struct PermutedShard {
  std::string name;
  std::uint64_t size = 0;
  /// By offset.
  std::vector<PermutedTensor> tensors;
};

/// What is to be done, made from the config and the headers of all shards alone.
struct PermutePlan {
  std::filesystem::path folder;
  AttentionShape shape;
  ModelFiles files;
  std::vector<PermutedShard> shards;
  /// Attention modules with a q and a k.
  std::int64_t num_attentions = 0;
  std::int64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;
};

/// Throws IoError and std::invalid_argument as read_attention_shape(), list_model_files() and
/// find_projection() do, and for a model in which not every q has its k.
PermutePlan plan_permutation(const std::filesystem::path& folder);

/// Writes the model to the folder `out`, which exists and is empty; each file is on the disk when
/// this returns. Memory: a few buffers of 8 MiB, or of a head of the largest tensor if that is
/// more, and 8 bytes for each of its rows. The config says the new pairing if the family has a key
/// for it. `on_bytes` hears how many bytes of weights have been written. Throws IoError.
void permute_model(const PermutePlan& plan, Pairing from, Pairing to,
                   const std::filesystem::path& out,
                   const std::function<void(std::uint64_t)>& on_bytes);

}  // namespace rotary::cli
