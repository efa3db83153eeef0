// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Freezing: parameters that are not trained, or only from some step on.
//
//   embeddings, encoding, head   as in reports (layer_of() in step.h)
//   layer.3, layer.0-5           layers of the encoder, by number
//   attention.self, LayerNorm    parameters with these parts, whole ones, in their names
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/parameter_store.h"

namespace rotary::roformer {

/// For each segment of the store, whether one of these patterns names it. Throws
/// std::invalid_argument for a pattern that names none, and if they name all.
std::vector<bool> frozen_segments(const ParameterStore& store,
                                  const std::vector<std::string>& patterns);

/// Ranges [begin, end) of a flat buffer, multiples of 64.
using FlatRanges = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The ranges of the segments of which `chosen` is `value`, adjacent ones joined, within
/// [begin, end).
FlatRanges ranges_of(const ParameterStore& store, const std::vector<bool>& chosen, bool value,
                     std::int64_t begin, std::int64_t end);

}  // namespace rotary::roformer
