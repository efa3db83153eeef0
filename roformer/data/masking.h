// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which tokens a masked LM has to guess, and what it sees in their place.
#pragma once

#include <cstdint>
#include <span>

#include "roformer/data/random.h"

namespace rotary::roformer {

enum class MaskUnit : std::uint8_t { kWord, kToken };

/// Of the words (or tokens) `rate` are chosen. Each token of them becomes [MASK], stays, or becomes
/// any token but the first of the vocabulary, in RoFormer's own shares.
struct Masking {
  double rate = 0.15;
  double mask_share = 0.8;
  double random_share = 0.1;
  MaskUnit unit = MaskUnit::kWord;
};

/// What a token is to the masking.
enum class MaskPlace : std::uint8_t {
  kNever,      // [CLS], [SEP], padding
  kWithin,     // of a word that began before
  kWordBegin,  // the first of a word
};

/// Changes `ids` where a token is chosen; `labels` are what stood there, and kIgnore elsewhere.
/// All spans are of one length.
void mask_tokens(const Masking& masking, std::int32_t mask_id, std::uint32_t vocabulary_size,
                 Random& random, std::span<const MaskPlace> places, std::span<std::int64_t> ids,
                 std::span<std::int64_t> labels);

}  // namespace rotary::roformer
