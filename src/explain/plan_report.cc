// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/plan_report.h"

#include <fmt/core.h>

#include "explain/describe.h"
#include "explain/format.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/model.h"

namespace rotary::explain {
namespace {

Json effects_json(const PlanOption& option) {
  return {{"recipe", option.name},
          {"short_prompts",
           {{"pairs_changed", option.pairs_changed}, {"score_factor", option.score_factor}}},
          {"pairs_unseen", option.pairs_unseen}};
}

std::string short_text(const PlanOption& option, std::int64_t pairs) {
  if (option.pairs_changed == 0 && option.score_factor == 1.0) return "unchanged";
  std::string text = fmt::format("{} of {} pairs", option.pairs_changed, pairs);
  if (option.score_factor != 1.0) text += fmt::format(", scores x{:.3g}", option.score_factor);
  return text;
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

PlanReport report_plan(const std::string& config, const std::string& source, std::string_view rope,
                       std::int64_t context, const std::string& engine) {
  const Model model = Model::from_config(config, source);
  const ModelRope& chosen = model.rope(rope);
  PlanReport report{.rope = chosen.name, .plan = make_plan(chosen, context), .lines = {}};
  for (const PlanOption& option : report.plan.options) {
    report.lines.push_back(engine_lines(option, report.plan, config, chosen.name, engine));
  }
  return report;
}

Json plan_json(const PlanReport& report) {
  const Plan& plan = report.plan;
  static constexpr const char* kWords[] = {"trained", "extended", "beyond"};
  Json json = {{"rope", report.rope},
               {"context", plan.context},
               {"trained", plan.trained},
               {"extended", plan.extended},
               {"coverage", kWords[static_cast<int>(plan.coverage)]},
               {"sentence", coverage_text(plan)},
               {"pairs", plan.pairs},
               {"now", effects_json(plan.now)},
               {"options", Json::array()}};
  if (!plan.no_options.empty()) json["no_options"] = plan.no_options;
  for (std::size_t i = 0; i < plan.options.size(); ++i) {
    const PlanOption& option = plan.options[i];
    Json entry = effects_json(option);
    entry["rope_parameters"] = option.rope_parameters;
    entry["max_position_embeddings"] =
        option.max_position_embeddings > 0 ? Json(option.max_position_embeddings) : Json(nullptr);
    entry["engines"] = Json::array();
    for (const EngineLines& line : report.lines[i]) {
      entry["engines"].push_back(Json{{"dialect", line.dialect},
                                      {"line", line.text},
                                      {"checked", line.checked},
                                      {"problem", line.problem}});
    }
    json["options"].push_back(entry);
  }
  return json;
}

std::string plan_text(const PlanReport& report, std::string_view title, const Terminal& terminal) {
  const Plan& plan = report.plan;
  std::string text = paint(terminal, Style::kTitle,
                           (title.empty() ? "Rope " : printable(title) + ", rope ") + report.rope) +
                     "\n";
  for (const std::string& line : wrap(coverage_text(plan), terminal.columns)) {
    text += line + "\n";
  }
  if (plan.coverage != Coverage::kBeyond) return text;
  TextTable table({"recipe", "factor", "short", "unseen"});
  const auto add = [&](const PlanOption& option, const std::string& factor) {
    table.add_row({option.name, factor, short_text(option, plan.pairs),
                   fmt::format("{} of {} pairs", option.pairs_unseen, plan.pairs)});
  };
  add(plan.now, "as it is");
  for (const PlanOption& option : plan.options) {
    const Json* factor = option.rope_parameters.find("factor");
    add(option,
        factor != nullptr ? value_text(*factor) : "base " + format_number(option.recipe.theta));
  }
  text += table.text(terminal);
  for (const std::string& line : wrap(plan.no_options, terminal.columns)) text += line + "\n";
  for (std::size_t i = 0; i < plan.options.size(); ++i) {
    text += "\n" + paint(terminal, Style::kTitle, plan.options[i].name) + "\n";
    for (const EngineLines& line : report.lines[i]) {
      text +=
          fmt::format("  {}: {}\n", line.dialect, line.checked ? "checked" : "no: " + line.problem);
      if (line.checked) text += "    " + printable(line.text) + "\n";
    }
  }
  return text;
}

}  // namespace rotary::explain
