// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/exact_bounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "roformer/lab/settings.h"
#include "rotary/analysis.h"
#include "rotary/model.h"
#include "rotary/recipe_json.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
namespace fs = std::filesystem;

void add_model(const std::string& name, const std::vector<std::int64_t>& contexts,
               const LabOptions& options, std::vector<ExactRotation>& all) {
  const fs::path in_data = options.data / name;
  const rotary::Model model = rotary::Model::read(fs::exists(in_data) ? in_data : fs::path(name));
  for (const ModelRope& rope : model.ropes) {
    ExactRotation one{.variant = "exact " + name, .recipe = rope.recipe, .contexts = {}};
    if (model.ropes.size() > 1) one.variant += " " + rope.name;
    for (const std::int64_t context : {rope.context.trained, rope.context.extended}) {
      if (context > 0 && std::ranges::find(one.contexts, context) == one.contexts.end()) {
        one.contexts.push_back(context);
      }
    }
    if (one.contexts.empty()) one.contexts = contexts;
    all.push_back(std::move(one));
  }
}

/// A row of the value; of a bound that does not apply, with the reason.
template <typename Bound>
Row bound_row(const char* metric, const Coordinates& at, const UnitRun& run, const Bound& bound) {
  try {
    const std::optional<double> value = bound();
    return value ? run.row(metric, *value, at)
                 : run.missing(metric, fmt::format("none up to {}", at.at("context")), at);
  } catch (const std::invalid_argument& error) {
    return run.missing(metric, error.what(), at);
  }
}

}  // namespace

std::vector<ExactRotation> exact_rotations(const Json& exact,
                                           const std::vector<std::int64_t>& contexts,
                                           const LabOptions& options) {
  std::vector<ExactRotation> all;
  const Settings settings(exact);
  for (const auto& [key, value] : exact.members()) {
    if (key != "models" && key != "recipes") internal::reject("[lab] exact has no key ", key);
  }
  for (const Json& name : settings.at("models").elements()) {
    if (!name.is_string()) internal::reject("[lab] models must be paths, got ", name.excerpt());
    add_model(name.as_string(), contexts, options, all);
  }
  for (const Json& entry : settings.list("recipes")) {
    check_keys(entry, {"name", "recipe", "contexts"});
    const std::string name = entry.at("name").as_string();
    ExactRotation one{.variant = "exact " + name, .recipe = {}, .contexts = contexts};
    one.recipe = recipe_from_json(Settings(entry).at("recipe").dump(), "recipe of " + name);
    if (entry.contains("contexts")) one.contexts = Settings(entry).integers("contexts");
    make_frequencies(one.recipe, one.contexts.front());  // finds what does not fit
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<Row> exact_rows(const ExactRotation& rotation, const UnitRun& run) {
  std::vector<Row> rows = {run.row("theta", rotation.recipe.theta)};
  for (const std::int64_t context : rotation.contexts) {
    if (run.stop && run.stop()) throw Stopped();
    const Coordinates at = {{"context", static_cast<double>(context)}};
    const Frequencies frequencies = make_frequencies(rotation.recipe, context);
    rows.push_back(bound_row("critical_dim", at, run, [&]() -> std::optional<double> {
      return static_cast<double>(critical_dim(frequencies, context));
    }));
    rows.push_back(bound_row("negative_distance", at, run, [&]() -> std::optional<double> {
      const auto first = negative_distance(frequencies, context);
      return first ? std::optional(static_cast<double>(*first)) : std::nullopt;
    }));
    std::string proof;
    Row base = bound_row("smallest_base", at, run, [&]() -> std::optional<double> {
      const BaseBound found = smallest_base(rotation.recipe, context);
      proof = found.interval_proof ? "interval proof" : "grid proof";
      return found.base;
    });
    if (base.has_value()) base.note = proof;
    rows.push_back(std::move(base));
    add_decay(frequencies, context, at, run, rows);
  }
  return rows;
}

void add_decay(const Frequencies& frequencies, std::int64_t longest, const Coordinates& at,
               const UnitRun& run, std::vector<Row>& rows) {
  std::vector<std::int64_t> distances;
  for (std::int64_t distance = 1; distance < longest; distance *= 2) distances.push_back(distance);
  distances.push_back(longest);
  for (const std::int64_t distance : distances) {
    const auto offset = static_cast<double>(distance);
    Coordinates there = at;
    there["distance"] = offset;
    rows.push_back(bound_row("decay", there, run, [&]() -> std::optional<double> {
      return decay(frequencies, std::vector{offset}).front();
    }));
  }
}

}  // namespace rotary::roformer::lab
