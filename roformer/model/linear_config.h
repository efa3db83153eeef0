// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Keys of config.json for attention_type "linear". docs/attention.md has the formulas.
///
///   {"attention_type": "linear", "linear_kernel": "favor", "favor_rotation": "before",
///    "linear_decay": true}
///
/// Needs no PyTorch.
#pragma once

#include <cstdint>
#include <string>

namespace rotary::internal {
class Json;
}

namespace rotary::roformer {

/// Attention weights; R rotates, phi is the feature map.
enum class LinearKernel : std::uint8_t {
  kElu,      // "elu"      (R phi(q)).(R phi(k)) over the sum of phi(q).phi(k), phi = elu + 1
  kRelu,     // "relu"     the same, phi = max(x, 0)
  kCosine,   // "cosine"   1 + cos(R q, R k)
  kRotated,  // "rotated"  (R phi(q)).(R phi(k)) over its own sum, kept from 0; phi = elu + 1
  kFavor,    // "favor"    FAVOR+: positive orthogonal random features
};
/// kBefore: phi(R q).phi(R k), an estimate of softmax attention with RoPE; kAfter: as kElu.
enum class FavorRotation : std::uint8_t { kBefore, kAfter };

/// Weights fall by e^(-decay_h |i - j|) in head h.
enum class DecayKind : std::uint8_t {
  kNone,      // false
  kSlopes,    // true: ALiBi's slopes, 2^(-8 h / heads) for h = 1, 2, ..
  kConstant,  // a number: the same in all heads
  kLearned,   // "learned": a parameter per head, from the slopes on
};

struct LinearConfig {
  LinearKernel kernel = LinearKernel::kElu;
  FavorRotation favor_rotation = FavorRotation::kAfter;
  /// Random features of a head; 0: head_dim ln(head_dim), to the nearest multiple of 64.
  std::int64_t favor_features = 0;
  DecayKind decay = DecayKind::kNone;
  /// Of kConstant.
  double decay_value = 0.0;

  friend bool operator==(const LinearConfig&, const LinearConfig&) = default;
};

/// Takes the keys out of `object`. Throws IoError that names `source`, the key, the rule and the
/// value.
LinearConfig take_linear_config(internal::Json& object, const std::string& source);
/// Adds the keys that have not their defaults.
void add_linear_config(const LinearConfig& config, internal::Json& object);
/// Throws std::invalid_argument. `is_linear`: attention_type is "linear".
void check_linear_config(const LinearConfig& config, bool is_linear, std::int64_t head_dim);

}  // namespace rotary::roformer
