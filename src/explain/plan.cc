// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

namespace rotary::explain {
namespace {

bool differs(double a, double b) { return std::fabs(a - b) > 1e-9 * std::fabs(a); }

/// The effects of a recipe on a model that was trained as `trained`.
void add_effects(PlanOption& option, const Recipe& trained, const Plan& plan) {
  const Frequencies before = make_frequencies(trained, plan.trained);
  const Frequencies now = make_frequencies(option.recipe, plan.trained);
  const Frequencies at_end = make_frequencies(option.recipe, plan.context);
  option.score_factor =
      std::pow(now.scale / before.scale, 2.0) * (now.softmax_scale / before.softmax_scale);
  for (std::int64_t pair = 0; pair < before.pairs; ++pair) {
    if (differs(before(pair), now(pair))) ++option.pairs_changed;
    // Angles seen in training: up to a whole turn.
    const double seen = std::fabs(before(pair)) * static_cast<double>(plan.trained);
    const double reached = std::fabs(at_end(pair)) * static_cast<double>(plan.context);
    if (seen < 2.0 * std::numbers::pi && reached > seen * (1.0 + 1e-9)) ++option.pairs_unseen;
  }
}

PlanOption make_option(std::string name, const Recipe& base, Scaling scaling, Json keys,
                       std::int64_t max_positions) {
  PlanOption option{.name = std::move(name), .recipe = base};
  option.recipe.scaling = std::move(scaling);
  option.rope_parameters = std::move(keys);
  option.rope_parameters["rope_theta"] = option.recipe.theta;
  option.max_position_embeddings = max_positions;
  return option;
}

/// YaRN with the model's own betas, mscales and rounding, if it is scaled by YaRN already.
PlanOption make_yarn(const Recipe& base, const Scaling& own, double factor, const Plan& plan) {
  const Yarn* model = std::get_if<Yarn>(&own);
  Yarn yarn = model != nullptr ? *model : Yarn{};
  yarn.factor = factor;
  yarn.original_context = plan.original;
  Json keys = {{"rope_type", "yarn"},
               {"factor", factor},
               {"original_max_position_embeddings", plan.original},
               {"beta_fast", yarn.beta_fast},
               {"beta_slow", yarn.beta_slow}};
  if (!yarn.truncate) keys["truncate"] = false;
  if (yarn.attention_factor) keys["attention_factor"] = *yarn.attention_factor;
  if (yarn.mscale) keys["mscale"] = *yarn.mscale;
  if (yarn.mscale_all_dim) keys["mscale_all_dim"] = *yarn.mscale_all_dim;
  return make_option("yarn", base, yarn, std::move(keys), plan.context);
}

std::vector<PlanOption> make_options(const Recipe& base, const Scaling& own, const Plan& plan) {
  const std::int64_t original = plan.original;
  const double factor = static_cast<double>(plan.context) / static_cast<double>(original);
  const auto d = static_cast<double>(base.ladder_dim != 0 ? base.ladder_dim : base.rotary_dim);
  std::vector<PlanOption> options;
  options.push_back(make_yarn(base, own, factor, plan));
  options.push_back(make_option("llama3", base,
                                Llama3{.factor = factor, .original_context = original},
                                {{"rope_type", "llama3"},
                                 {"factor", factor},
                                 {"original_max_position_embeddings", original},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0}},
                                plan.context));
  options.push_back(make_option("linear", base, Linear{.factor = factor},
                                {{"rope_type", "linear"}, {"factor", factor}}, 0));
  if (d > 2.0) {  // another base does nothing to a single pair
    options.push_back(make_option("dynamic", base,
                                  DynamicNtk{.factor = factor, .original_context = original},
                                  {{"rope_type", "dynamic"}, {"factor", factor}}, original));
    // NTK-aware: the lowest frequency is divided by the factor.
    Recipe larger = base;
    larger.theta = base.theta * std::pow(factor, d / (d - 2.0));
    options.push_back(
        make_option("base", larger, Plain{}, {{"rope_type", "default"}}, plan.context));
  }
  return options;
}

/// Whether a scaling for a longer context can take the place of this one. Others are part of what
/// the model is, and no engine combines two.
bool can_be_replaced(const Scaling& scaling) {
  return std::visit(
      []<typename T>(const T&) {
        return std::is_same_v<T, Plain> || std::is_same_v<T, Linear> || std::is_same_v<T, Yarn> ||
               std::is_same_v<T, YarnPaper> || std::is_same_v<T, YarnWalkthrough> ||
               std::is_same_v<T, LongRope> || std::is_same_v<T, Llama3> ||
               std::is_same_v<T, DynamicNtk>;
      },
      scaling);
}

/// The ladder that the model was trained with, without its scaling.
Recipe unscaled(Recipe recipe) {
  const DynamicNtk* dynamic = std::get_if<DynamicNtk>(&recipe.scaling);
  if (dynamic != nullptr && dynamic->alpha) {  // Hunyuan: a larger base from the start
    const auto d =
        static_cast<double>(recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim);
    if (d > 2.0) recipe.theta *= std::pow(*dynamic->alpha, d / (d - 2.0));
  }
  recipe.scaling = Plain{};
  return recipe;
}

}  // namespace

Plan make_plan(const ModelRope& rope, std::int64_t context) {
  Recipe own = rope.recipe;
  if (std::holds_alternative<Mrope>(own.axes)) own.axes = OneAxis{};  // of text
  if (!std::holds_alternative<OneAxis>(own.axes)) {
    throw std::invalid_argument(
        fmt::format("[plan] rope '{}' is of an image: a context is that of a text", rope.name));
  }
  if (rope.context.trained <= 0) {
    throw std::invalid_argument(
        fmt::format("[plan] rope '{}' has no trained context in the file", rope.name));
  }
  Plan plan{.context = context,
            .trained = rope.context.trained,
            .extended = std::max(rope.context.trained, rope.context.extended)};
  plan.pairs = own.rotary_dim / 2;
  plan.coverage = context <= plan.trained    ? Coverage::kTrained
                  : context <= plan.extended ? Coverage::kExtended
                                             : Coverage::kBeyond;
  Recipe trained = own;
  // A model whose file states an original context was trained there without the scaling; linear
  // scaling states none, and its frequencies are those of training.
  const Linear* linear = std::get_if<Linear>(&own.scaling);
  if (linear == nullptr && plan.extended > plan.trained) trained = unscaled(own);
  plan.original = plan.trained;
  if (linear != nullptr && linear->factor > 1.0) {
    plan.original =
        std::max<std::int64_t>(1, std::llround(static_cast<double>(plan.trained) / linear->factor));
  }
  plan.now = {.name = "none", .recipe = own};
  add_effects(plan.now, trained, plan);
  if (plan.coverage != Coverage::kBeyond) return plan;
  if (!can_be_replaced(own.scaling)) {
    plan.no_options = fmt::format(
        "The rope type {} is part of the model: no engine combines it with one for a longer "
        "context.",
        name_of(own.scaling));
    return plan;
  }
  plan.options = make_options(unscaled(own), own.scaling, plan);
  for (PlanOption& option : plan.options) add_effects(option, trained, plan);
  return plan;
}

}  // namespace rotary::explain
