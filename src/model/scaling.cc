// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/scaling.h"

#include <cmath>

#include "model/recipe_json.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// The original context length. A top-level key has precedence over the dictionary, as in Phi-3;
/// max_position_embeddings comes last.
std::int64_t original_context(const RopeDict& dict, const ScalingContext& context,
                              ModelRope& rope) {
  const Json* inside = dict.find("original_max_position_embeddings");
  const std::optional<std::int64_t> own =
      inside == nullptr
          ? std::nullopt
          : std::optional(as_integer(*inside, "original_max_position_embeddings", dict.source()));
  if (context.top_level_original) {
    if (own && *own != *context.top_level_original) {
      rope.warnings.push_back(concat("original_max_position_embeddings is ",
                                     *context.top_level_original, " at the top and ", *own,
                                     " in the rope dictionary; the one at the top is used"));
    }
    return *context.top_level_original;
  }
  if (own) return *own;
  if (context.default_original) {
    note(rope.assumed, concat("original_max_position_embeddings = ", *context.default_original,
                              " (the default of this model_type)"));
    return *context.default_original;
  }
  if (!context.max_position_embeddings) {
    reject("[Model] ", dict.source(), ": rope_type ", quote(dict.type()),
           " needs original_max_position_embeddings or max_position_embeddings");
  }
  note(rope.assumed, concat("original_max_position_embeddings = ", *context.max_position_embeddings,
                            " (max_position_embeddings)"));
  return *context.max_position_embeddings;
}

/// Extended over original context, for dictionaries without a factor.
double context_ratio(const RopeDict& dict, const ScalingContext& context, std::int64_t original) {
  if (!context.max_position_embeddings) {
    reject("[Model] ", dict.source(), ": rope_type ", quote(dict.type()),
           " needs the key \"factor\" or max_position_embeddings");
  }
  return static_cast<double>(*context.max_position_embeddings) / static_cast<double>(original);
}

void set_context(ModelRope& rope, const ScalingContext& context, std::int64_t original,
                 double factor) {
  const std::int64_t max_positions = context.max_position_embeddings.value_or(0);
  rope.context.trained = original;
  rope.context.extended = max_positions > original
                              ? max_positions
                              : static_cast<std::int64_t>(std::llround(
                                    std::fmin(factor * static_cast<double>(original), 0x1p53)));
}

void warn_on_factor(ModelRope& rope, const ScalingContext& context, std::int64_t original,
                    double factor) {
  if (factor < 1.0) rope.warnings.push_back(concat("factor ", factor, " is below 1"));
  if (!context.max_position_embeddings || original <= 0) return;
  const double ratio =
      static_cast<double>(*context.max_position_embeddings) / static_cast<double>(original);
  if (ratio != 1.0 && std::fabs(ratio / factor - 1.0) > 1e-6) {
    rope.warnings.push_back(concat("factor ", factor, " contradicts max_position_embeddings / ",
                                   "original_max_position_embeddings = ", ratio,
                                   "; the factor is used"));
  }
}

/// Defaults to true; null is false, as in transformers.
bool truncate_of(const RopeDict& dict) {
  if (!dict.has("truncate")) return true;
  const Json* truncate = dict.find("truncate");
  if (truncate == nullptr) return false;
  if (!truncate->is_boolean()) {
    reject("[Model] ", dict.source(), ": truncate must be true or false, got ",
           quote(truncate->dump()));
  }
  return truncate->as_bool();
}

Scaling make_yarn(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  Yarn yarn{.original_context = original_context(dict, context, rope)};
  if (dict.find("factor") != nullptr) {
    yarn.factor = dict.required("factor");
    warn_on_factor(rope, context, yarn.original_context, yarn.factor);
  } else {
    yarn.factor = context_ratio(dict, context, yarn.original_context);
    note(rope.assumed, concat("factor = ", yarn.factor,
                              " (max_position_embeddings / original_max_position_embeddings)"));
  }
  yarn.beta_fast = dict.nonzero("beta_fast").value_or(yarn.beta_fast);
  yarn.beta_slow = dict.nonzero("beta_slow").value_or(yarn.beta_slow);
  yarn.truncate = truncate_of(dict);
  yarn.attention_factor = dict.number("attention_factor");
  if (!yarn.attention_factor) yarn.attention_factor = context.attention_factor;
  yarn.mscale = dict.nonzero("mscale");
  yarn.mscale_all_dim = dict.nonzero("mscale_all_dim");
  yarn.softmax_correction = context.softmax_correction;
  if (const Json* word = dict.find("softmax_correction")) {
    yarn.softmax_correction =
        word_of_json<SoftmaxCorrection>(*word, "softmax_correction", dict.source());
  }
  if (!yarn.attention_factor && yarn.mscale.has_value() != yarn.mscale_all_dim.has_value()) {
    rope.warnings.push_back(
        concat(yarn.mscale ? "mscale" : "mscale_all_dim",
               " alone does not change the scale on cos and sin; both together do"));
  }
  set_context(rope, context, yarn.original_context, yarn.factor);
  return yarn;
}

std::vector<double> required_list(const RopeDict& dict, const char* key) {
  const Json* list = dict.find(key);
  if (list == nullptr) {
    reject("[Model] ", dict.source(), ": rope_type ", quote(dict.type()), " needs the key ",
           quote(key));
  }
  return as_numbers(*list, key, dict.source());
}

Scaling make_longrope(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  LongRope longrope{.short_factor = required_list(dict, "short_factor"),
                    .long_factor = required_list(dict, "long_factor"),
                    .original_context = original_context(dict, context, rope)};
  const std::optional<double> factor = dict.number("factor");
  longrope.factor = factor ? *factor : context_ratio(dict, context, longrope.original_context);
  longrope.attention_factor = dict.number("attention_factor");
  longrope.short_mscale = dict.number("short_mscale");
  longrope.long_mscale = dict.number("long_mscale");
  set_context(rope, context, longrope.original_context, longrope.factor);
  return longrope;
}

Scaling make_llama3(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  const Llama3 llama3{.factor = dict.required("factor"),
                      .original_context = original_context(dict, context, rope),
                      .low_freq_factor = dict.required("low_freq_factor"),
                      .high_freq_factor = dict.required("high_freq_factor")};
  if (llama3.factor < 1.0) {
    rope.warnings.push_back(concat("factor ", llama3.factor, " is below 1"));
  }
  set_context(rope, context, llama3.original_context, llama3.factor);
  return llama3;
}

Scaling make_dynamic(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  if (!context.max_position_embeddings) {
    reject("[Model] ", dict.source(), ": rope_type \"dynamic\" needs max_position_embeddings");
  }
  std::optional<double> alpha = dict.nonzero("alpha");
  if (alpha && !context.alpha_honoured) {
    rope.warnings.emplace_back("key \"alpha\" is ignored: only Hunyuan's models use it");
    alpha.reset();
  }
  const bool has_original = dict.find("original_max_position_embeddings") != nullptr;
  // rotary's own name for it means what it says.
  const bool honoured = context.dynamic_original_honoured || dict.has("original_context");
  const DynamicNtk dynamic{
      .factor = alpha ? dict.number("factor").value_or(1.0) : dict.required("factor"),
      .original_context = has_original && honoured ? original_context(dict, context, rope)
                                                   : *context.max_position_embeddings,
      .alpha = alpha};
  if (has_original && !honoured) {
    rope.warnings.emplace_back(
        "original_max_position_embeddings is ignored: rope_type \"dynamic\" counts from "
        "max_position_embeddings");
  }
  rope.context.extended = static_cast<std::int64_t>(std::llround(
      std::fmin(dynamic.factor * static_cast<double>(dynamic.original_context), 0x1p53)));
  return dynamic;
}

Scaling make_yarn_paper(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  YarnPaper yarn{.factor = dict.required("factor"),
                 .original_context = original_context(dict, context, rope)};
  yarn.alpha = dict.number("alpha").value_or(yarn.alpha);
  yarn.beta = dict.number("beta").value_or(yarn.beta);
  set_context(rope, context, yarn.original_context, yarn.factor);
  return yarn;
}

Scaling make_yarn_walkthrough(const RopeDict& dict, const ScalingContext& context,
                              ModelRope& rope) {
  YarnWalkthrough yarn{.factor = dict.required("factor"),
                       .original_context = original_context(dict, context, rope)};
  yarn.beta_fast = dict.number("beta_fast").value_or(yarn.beta_fast);
  yarn.beta_slow = dict.number("beta_slow").value_or(yarn.beta_slow);
  if (const Json* word = dict.find("ramp")) {
    yarn.ramp = word_of_json<WalkthroughRamp>(*word, "ramp", dict.source());
  }
  set_context(rope, context, yarn.original_context, yarn.factor);
  return yarn;
}

Scaling make_xpos(const RopeDict& dict) {
  Xpos xpos;
  xpos.scale_base = dict.number("scale_base").value_or(xpos.scale_base);
  xpos.gamma = dict.number("gamma").value_or(xpos.gamma);
  xpos.origin = dict.number("origin").value_or(xpos.origin);
  return xpos;
}

}  // namespace

Scaling make_scaling(const RopeDict& dict, const ScalingContext& context, ModelRope& rope) {
  const std::int64_t max_positions = context.max_position_embeddings.value_or(0);
  rope.context = {.trained = max_positions, .extended = max_positions};
  const std::string& type = dict.type();
  if (type == "yarn") return make_yarn(dict, context, rope);
  if (type == "longrope") return make_longrope(dict, context, rope);
  if (type == "llama3") return make_llama3(dict, context, rope);
  if (type == "dynamic") return make_dynamic(dict, context, rope);
  if (type == "linear") {
    if (max_positions > 0) {
      note(rope.assumed,
           "trained context = max_position_embeddings (linear scaling does not "
           "record the length before it)");
    }
    return Linear{.factor = dict.required("factor")};
  }
  if (type == "ntk") {
    return Ntk{.factor = dict.required("factor"), .mixed_b = dict.number("mixed_b")};
  }
  if (type == "ntk_alpha") return NtkAlpha{.alpha = dict.required("alpha")};
  if (type == "yarn_paper") return make_yarn_paper(dict, context, rope);
  if (type == "yarn_walkthrough") return make_yarn_walkthrough(dict, context, rope);
  if (type == "divisors") return Divisors{required_list(dict, "divisor")};
  if (type == "learnable") return Learnable{required_list(dict, "log_gain")};
  if (type == "receptive_field") {
    return ReceptiveField{.alpha = dict.required("alpha"),
                          .rho = dict.number("rho").value_or(ReceptiveField{}.rho)};
  }
  if (type == "xpos") return make_xpos(dict);
  if (type == "proportional") {
    return Proportional{.fraction = dict.number("fraction").value_or(context.partial),
                        .factor = dict.number("factor").value_or(1.0)};
  }
  return Plain{};
}

}  // namespace rotary::internal
