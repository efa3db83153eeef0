// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Masking for masked language models.
#pragma once

#include <cstdint>
#include <span>

#include "roformer/data/random.h"

namespace rotary::roformer {

enum class MaskUnit : std::uint8_t { kWord, kToken };

/// A fraction `rate` of the words (or tokens) is selected. Each of their tokens becomes [MASK], a
/// random token (not the first of the vocabulary), or is kept. The defaults are RoFormer's.
struct Masking {
  double rate = 0.15;
  double mask_share = 0.8;
  double random_share = 0.1;
  MaskUnit unit = MaskUnit::kWord;
};

/// The role of a token in masking.
enum class MaskRole : std::uint8_t {
  kNever,         // [CLS], [SEP], padding
  kContinuation,  // continues a word
  kWordStart,     // first token of a word
};

/// Replaces selected `ids`. `labels` are the original ids of selected tokens, kIgnoreIndex
/// elsewhere. All spans have the same length.
void mask_tokens(const Masking& masking, std::int32_t mask_id, std::uint32_t vocabulary_size,
                 Random& random, std::span<const MaskRole> roles, std::span<std::int64_t> ids,
                 std::span<std::int64_t> labels);

}  // namespace rotary::roformer
