// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which tensors of a checkpoint hold heads of q or k, by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "tools/weights/attention_shape.h"
#include "tools/weights/head_rows.h"

namespace rotary::cli {

/// A tensor whose rows move with the pairing.
struct Projection {
  /// Name of the attention that it belongs to: the part of the tensor's name before the module.
  std::string attention;
  /// Whether it projects to q, to k; a fused one to both, a norm to neither.
  bool makes_q = false;
  bool makes_k = false;
  /// Rows of the tensor: elements of a bias or norm.
  std::int64_t num_rows = 0;
  std::vector<HeadRows> heads;
};

/// None for a tensor that no rotation sees. Throws IoError for one that cannot be permuted: not
/// floating-point, not a plain weight or bias, not of the size that the config states, or a fused
/// projection of an unknown layout. num_rows is at most the number of the tensor's bytes.
std::optional<Projection> find_projection(const internal::SafetensorsEntry& entry,
                                          const AttentionShape& shape, const std::string& source);

/// What else an attention may hold: modules and buffers that no order of q and k matters to.
enum class Beside : std::uint8_t { kUnknown, kHarmless, kValue };

/// Of the component of a tensor's name that follows the name of its attention.
Beside beside_projections(std::string_view component);

}  // namespace rotary::cli
