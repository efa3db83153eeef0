// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Everything that `rotary inspect` says of one rope, as JSON: for programs that show it to people.
#pragma once

#include <cstdint>

#include "explain/rope_json.h"
#include "rotary/dialect.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

/// An object with
///   rope               the element of "ropes" of `rotary inspect --json`
///   properties         [name, value, meaning] of each line of its table
///   sentences          on its wavelengths
///   wavelengths        [pairs] positions per turn; null for a pair that does not rotate
///   unscaled           [pairs] the same without the recipe's scaling
///   pair_axes          [pairs] the axis that rotates the pair; -1: several or none
///   depends_on_context, context_threshold
///   dialect            null, or dropped_keys, refused and notes of a dialect's rope
/// `dialect`: null for a rope as the library reads it.
Json rope_report(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context_in_use,
                 const DialectRope* dialect);

/// All dialects: name, source, evidence, and how they round.
Json dialects_json();

}  // namespace rotary::explain
