// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Scores of a language model on held-out texts by context length.
//
// Every length predicts the same tokens of the same texts: only their context differs.
//
//   kDisjoint   |----|----|----|    rows follow one another: contexts of 1 to `length` tokens
//   kSliding    |----|              rows overlap by half, and only the second half of each counts
//                 --|----|          (of the first row, all): contexts of length / 2 to `length`
//
// A masked model sees both sides: of its sliding rows the middle half counts (of the first row what
// is before it, too, and of the last what is after it), with a quarter of a row on each side.
#pragma once

#include <cstdint>

#include "roformer/lab/text_data.h"
#include "roformer/model/model.h"

namespace rotary::roformer::lab {

enum class Windows : std::uint8_t { kDisjoint, kSliding };

/// Perplexity of a causal model. The length must divide that of the texts.
double perplexity_at(ModelImpl& model, const TextData& data, std::int64_t length, Windows windows);
/// Share of masked tokens that a masked model finds; the masks are the same for every length.
double masked_accuracy_at(ModelImpl& model, const TextData& data, std::int64_t length, double rate,
                          Windows windows = Windows::kDisjoint);

/// Whether the model has no position embeddings for this length: those of learned tables.
bool is_beyond_table(const Config& config, std::int64_t length);
inline constexpr const char* kBeyondTable = "beyond its table";

}  // namespace rotary::roformer::lab
