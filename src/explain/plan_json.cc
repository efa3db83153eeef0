// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A plan as JSON, and whether the model covers its context, in a sentence.

#include <fmt/core.h>

#include "explain/plan.h"

namespace rotary::explain {
namespace {

Json effects_json(const PlanOption& option) {
  return {{"recipe", option.name},
          {"short_prompts",
           {{"pairs_changed", option.pairs_changed}, {"score_factor", option.score_factor}}},
          {"pairs_unseen", option.pairs_unseen}};
}

}  // namespace

std::string coverage_text(const Plan& plan) {
  switch (plan.coverage) {
    case Coverage::kTrained:
      return fmt::format("{} tokens are within the trained context of {}: nothing to do.",
                         plan.context, plan.trained);
    case Coverage::kExtended:
      return fmt::format(
          "{} tokens are within the extended context of {}, for which the model has its scaling: "
          "nothing to do, but `rotary diff MODEL --all` shows which engines read it otherwise.",
          plan.context, plan.extended);
    case Coverage::kBeyond:
      break;
  }
  return fmt::format("{} tokens exceed the {} context of {}.", plan.context,
                     plan.extended > plan.trained ? "extended" : "trained", plan.extended);
}

Json plan_json(const Plan& plan, const std::vector<std::vector<EngineLines>>& lines,
               const std::string& rope_name) {
  static constexpr const char* kWords[] = {"trained", "extended", "beyond"};
  Json json = {{"rope", rope_name},
               {"context", plan.context},
               {"trained", plan.trained},
               {"extended", plan.extended},
               {"coverage", kWords[static_cast<int>(plan.coverage)]},
               {"pairs", plan.pairs},
               {"now", effects_json(plan.now)},
               {"options", Json::array()}};
  for (std::size_t i = 0; i < plan.options.size(); ++i) {
    const PlanOption& option = plan.options[i];
    Json entry = effects_json(option);
    entry["rope_parameters"] = option.rope_parameters;
    entry["max_position_embeddings"] =
        option.max_position_embeddings > 0 ? Json(option.max_position_embeddings) : Json(nullptr);
    entry["engines"] = Json::array();
    for (const EngineLines& line : lines[i]) {
      entry["engines"].push_back(Json{{"dialect", line.dialect},
                                      {"line", line.text},
                                      {"checked", line.checked},
                                      {"problem", line.problem}});
    }
    json["options"].push_back(entry);
  }
  return json;
}

}  // namespace rotary::explain
