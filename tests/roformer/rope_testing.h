// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of the model's rotation.
#pragma once

#include <string>
#include <vector>

#include "roformer/model_testing.h"

namespace rotary::roformer {

inline constexpr double kRopeRounding = 2e-5;

struct NamedRope {
  std::string name;
  std::string parameters;
  Task task = Task::kMaskedLm;
};

/// With an effect beyond 8 positions, for heads of 8.
inline const std::vector<NamedRope>& every_rope() {
  static const std::vector<NamedRope> kRopes = {
      {"linear", R"({"rope_type": "linear", "factor": 4})"},
      {"ntk", R"({"rope_type": "ntk", "factor": 4})"},
      {"ntk_mixed", R"({"rope_type": "ntk", "factor": 4, "mixed_b": 0.6})"},
      {"ntk_alpha", R"({"rope_type": "ntk_alpha", "alpha": 8})"},
      {"dynamic",
       R"({"rope_type": "dynamic", "factor": 2, "original_max_position_embeddings": 8})"},
      {"yarn", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8})"},
      {"yarn_paper",
       R"({"rope_type": "yarn_paper", "factor": 4, "original_max_position_embeddings": 8})"},
      {"yarn_walkthrough",
       R"({"rope_type": "yarn_walkthrough", "factor": 4, "original_max_position_embeddings": 8})"},
      {"longrope", R"({"rope_type": "longrope", "short_factor": [1, 1, 1, 1],
         "long_factor": [1, 2, 3, 4], "original_max_position_embeddings": 8})"},
      {"llama3", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
         "high_freq_factor": 4, "original_max_position_embeddings": 8})"},
      {"proportional", R"({"rope_type": "proportional", "partial_rotary_factor": 0.5})"},
      {"divisors", R"({"rope_type": "divisors", "divisor": [1, 2, 3, 4]})"},
      {"learnable", R"({"rope_type": "learnable", "log_gain": [0.1, 0.2, 0.3, 0.4]})"},
      {"receptive_field", R"({"rope_type": "receptive_field", "alpha": 0.3, "rho": 0.5})"},
      {"resonance", R"({"rope_type": "resonance"})"},
      {"resonance_yarn", R"({"rope_type": "yarn", "factor": 4, "resonance": true,
         "original_max_position_embeddings": 8})"},
      {"partial", R"({"rope_type": "default", "partial_rotary_factor": 0.5})"},
      {"xpos", R"({"rope_type": "xpos", "scale_base": 16})", Task::kCausalLm},
  };
  return kRopes;
}

inline Config with_rope(const NamedRope& rope) {
  Config config = small(rope.task);
  config.rope_parameters = rope.parameters;
  return config;
}

}  // namespace rotary::roformer
