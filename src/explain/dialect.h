// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What two dialects make of the same rope, as `rotary diff --dialect` reports it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/describe.h"
#include "explain/rope_json.h"
#include "rotary/dialect.h"

namespace rotary::explain {

/// b against a. Differences of less than 1e-6, relative, are rounding and count as none.
struct DialectDifference {
  std::string name{};
  std::vector<std::string> dropped_by_a{};
  std::vector<std::string> dropped_by_b{};
  double scale_a = 1.0;  // on cos and sin
  double scale_b = 1.0;
  /// Attention scores of b over those of a: the square of the scales' ratio, times that of the
  /// softmax scales.
  double score_factor = 1.0;
  /// Why one of them refuses the config; empty if neither does.
  std::string refused{};
  /// False if the numbers of pairs or axes differ.
  bool comparable = true;
  /// Pairs whose frequency differs, the largest |b / a - 1| of them and its pair.
  std::vector<std::int64_t> pairs{};
  double relative = 0.0;
  std::int64_t relative_pair = 0;
  /// The first position at which some pair is 0.1 rad apart.
  std::optional<std::int64_t> position{};
  Pairing cache_a = Pairing::kHalf;
  Pairing cache_b = Pairing::kHalf;
  /// Whether keys that one has cached are what the other would have cached.
  bool cache_compatible = true;
  /// What a user will notice, in one sentence.
  std::string notice{};

  bool is_same() const noexcept {
    return refused.empty() && comparable && pairs.empty() && score_factor == 1.0 &&
           cache_compatible;
  }
};

/// `context`: the context length that frequencies are made for; 0 is the trained length.
DialectDifference compare_dialects(const DialectRope& a, const DialectRope& b,
                                   std::int64_t context);

/// Appends what a dialect adds to a described rope: keys that it drops, the order of cached keys.
void add_dialect(std::vector<Property>& properties, const DialectRope& rope);
void add_dialect(Json& rope_json, const DialectRope& rope);

/// Where a dialect is from and how it rounds, in two sentences.
std::string dialect_sentences(const Dialect& dialect);

Json difference_json(const DialectDifference& difference);

}  // namespace rotary::explain
