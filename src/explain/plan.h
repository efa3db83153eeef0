// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What to do for a context that is longer than the trained one, as `rotary plan` reports it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/rope_json.h"
#include "rotary/model.h"

namespace rotary::explain {

enum class Coverage { kTrained, kExtended, kBeyond };

/// One way to serve the context, and what it does.
struct PlanOption {
  std::string name{};  // "none", "yarn", "linear", ...
  Recipe recipe{};
  /// For config.json: the rope dictionary, and max_position_embeddings where the recipe needs
  /// another (0: as it is).
  Json rope_parameters{};
  std::int64_t max_position_embeddings = 0;
  /// For prompts within the original context, against the model before any scaling: pairs with
  /// other frequencies, and the factor on attention scores.
  std::int64_t pairs_changed = 0;
  double score_factor = 1.0;
  /// Pairs that reach angles within the context that they never had in training: those without a
  /// whole turn there.
  std::int64_t pairs_unseen = 0;
};

struct Plan {
  std::int64_t context = 0;
  std::int64_t trained = 0;
  std::int64_t extended = 0;
  /// Positions over which the ladder without any scaling has the angles of training: the trained
  /// context, divided by the factor of a linear scaling that the model was trained with.
  std::int64_t original = 0;
  Coverage coverage = Coverage::kTrained;
  std::int64_t pairs = 0;
  /// As the model is, without any change.
  PlanOption now{};
  /// Empty unless the context exceeds the extended one.
  std::vector<PlanOption> options{};
  /// Why there are none all the same; empty: there are.
  std::string no_options{};
};

/// Throws std::invalid_argument for a rope with several axes other than M-RoPE's, or without a
/// trained context.
Plan make_plan(const ModelRope& rope, std::int64_t context);

/// Lines for an engine, checked by reading them back in its dialect.
struct EngineLines {
  std::string dialect{};  // "vllm@0.32"
  std::string text{};     // what to type
  bool checked = false;   // the dialect gives the recipe's rotation
  std::string problem{};  // why not
};

/// `config`: the text of the model's config.json; `rope_name`: the rope that the plan is for.
/// Engines are hf, vllm, sglang and llama.cpp; empty: all of them. Throws std::invalid_argument for
/// others.
std::vector<EngineLines> engine_lines(const PlanOption& option, const Plan& plan,
                                      const std::string& config, const std::string& rope_name,
                                      const std::string& engine);

/// Engines that engine_lines() knows.
const std::vector<std::string>& plan_engines();

}  // namespace rotary::explain
