// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A plan with the lines to type, as JSON and as text: `rotary plan` and Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "explain/plan.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"

namespace rotary::explain {

struct PlanReport {
  std::string rope{};
  Plan plan{};
  /// Of each option.
  std::vector<std::vector<EngineLines>> lines{};
};

/// `config`: the text of a config.json, `source` its name in errors. `rope`: empty for the one that
/// Model::rope() takes. `engine`: one of plan_engines(), or empty for all. Throws as
/// Model::from_config(), make_plan() and engine_lines() do.
PlanReport report_plan(const std::string& config, const std::string& source, std::string_view rope,
                       std::int64_t context, const std::string& engine);

/// Whether the model covers the plan's context, in a sentence.
std::string coverage_text(const Plan& plan);

Json plan_json(const PlanReport& report);

/// The report for people; `title` names the model.
std::string plan_text(const PlanReport& report, std::string_view title, const Terminal& terminal);

}  // namespace rotary::explain
