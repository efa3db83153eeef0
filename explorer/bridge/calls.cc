// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/bridge/calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "explain/compare.h"
#include "explain/describe.h"
#include "explain/plan_report.h"
#include "explain/rope_json.h"
#include "explain/text_rope.h"
#include "explain/wavelengths.h"
#include "rotary/analysis.h"
#include "rotary/dialect.h"

namespace rotary::explorer {
namespace {

using internal::Json;

const OpenRope& rope_of(const OpenRopes& ropes, const Json& request, const char* key = "rope") {
  return ropes.rope(request.at(key).as_int64());
}

template <typename T>
std::vector<T> list_of(const Json& request, const char* key) {
  std::vector<T> values;
  for (const Json& value : request.at(key).elements()) {
    if constexpr (std::is_integral_v<T>) {
      values.push_back(value.as_int64());
    } else {
      values.push_back(value.as_double());
    }
  }
  return values;
}

/// The frequencies of a text token. `verb`: see explain::text_rope().
Frequencies text_frequencies(const OpenRope& shown, const std::string& verb) {
  if (shown.frequencies.axes == 1) return shown.frequencies;
  return explain::text_rope(shown.rope, verb).make_frequencies(shown.context);
}

// ---- Models and ropes ---------------------------------------------------------------------------

/// The name of the rope that Model::rope() returns, else of the first one.
std::string default_rope(const Model& model) {
  try {
    return model.rope().name;
  } catch (const std::invalid_argument&) {
    return model.ropes.front().name;
  }
}

Json model_json(OpenRopes& ropes, const Json& request) {
  const Model& model = ropes.model(request.at("model").as_int64()).model;
  Json names = Json::array();
  for (const ModelRope& rope : model.ropes) names.push_back(rope.name);
  return {{"model_type", model.model_type}, {"ropes", names}, {"default", default_rope(model)}};
}

Json dialect_json(const DialectRope& dialect) {
  return {{"dropped_keys", dialect.dropped_keys},
          {"refused", dialect.refused},
          {"notes", dialect.notes}};
}

Json open_rope_json(OpenRopes& ropes, const Json& request) {
  const std::int64_t number = ropes.make(request);
  const OpenRope& shown = ropes.rope(number);
  const auto pairs = explain::pair_wavelengths(shown.rope, shown.frequencies);
  Json wavelengths = Json::array();
  Json unscaled = Json::array();
  Json axes = Json::array();
  for (const explain::PairWavelength& pair : pairs) {
    wavelengths.push_back(pair.rotates() ? Json(pair.wavelength) : Json(nullptr));
    unscaled.push_back(pair.unscaled < 1e18 ? Json(pair.unscaled) : Json(nullptr));
    axes.push_back(pair.axis);
  }
  Json properties = Json::array();
  for (const auto& [name, value, meaning] :
       explain::describe(shown.rope, shown.frequencies, shown.context)) {
    properties.push_back(Json(std::vector<std::string>{name, value, meaning}));
  }
  return {{"number", number},
          {"rope", explain::rope_json(shown.rope, shown.frequencies, shown.context)},
          {"properties", properties},
          {"sentences", explain::explain_wavelengths(pairs, shown.rope.context.trained)},
          {"wavelengths", wavelengths},
          {"unscaled", unscaled},
          {"pair_axes", axes},
          {"depends_on_context", depends_on_context(shown.rope.recipe)},
          {"context_threshold", explain::context_threshold(shown.rope.recipe)},
          {"dialect", shown.dialect ? dialect_json(*shown.dialect) : Json(nullptr)}};
}

Json dialects_json() {
  Json dialects = Json::array();
  for (const Dialect& dialect : known_dialects()) {
    dialects.push_back(Json{{"name", dialect.full_name()},
                            {"source", dialect.source},
                            {"evidence", dialect.evidence},
                            {"angle", dialect.rounding.angle},
                            {"table", dialect.rounding.table},
                            {"rotation", dialect.rounding.rotation}});
  }
  return dialects;
}

// ---- Analysis -----------------------------------------------------------------------------------

Json curves_json(OpenRopes& ropes, const Json& request) {
  const Frequencies f = text_frequencies(rope_of(ropes, request), "decay");
  const auto distances = list_of<double>(request, "distances");
  return {{"bound", decay(f, distances)}, {"score", relative_scores(f, distances)}};
}

Json bounds_json(OpenRopes& ropes, const Json& request) {
  const OpenRope& shown = rope_of(ropes, request);
  const Frequencies f = text_frequencies(shown, "bounds");
  const std::int64_t context = request.at("context").as_int64();
  const std::int64_t trained =
      shown.rope.context.trained > 0 ? shown.rope.context.trained : context;
  Json json = {{"critical_dim", critical_dim(f, trained)},
               {"trained_context", trained},
               {"turns", turns(f, context)},
               {"cosine_sum", nullptr}};
  if (!f.growth.empty()) return json;
  const CosineMinimum minimum = smallest_cosine_sum(f, context);
  const auto negative = negative_distance(f, context);
  json["cosine_sum"] = {{"smallest", minimum.value},
                        {"error", minimum.error},
                        {"distance", minimum.distance},
                        {"first_negative", negative ? Json(*negative) : Json(nullptr)}};
  return json;
}

Json base_json(OpenRopes& ropes, const Json& request) {
  const OpenRope& shown = rope_of(ropes, request);
  const BaseBound bound = smallest_base(explain::text_rope(shown.rope, "bounds").recipe,
                                        request.at("context").as_int64());
  return {{"base", bound.base},
          {"every_base_fails_up_to", bound.lower},
          {"fails_at_distance", bound.distance},
          {"proof", bound.interval_proof ? "interval" : "grid"},
          {"undecided", bound.undecided}};
}

Json precision_json(OpenRopes& ropes, const Json& request) {
  constexpr std::array<std::pair<const char*, AngleMethod>, 4> kMethods{
      {{"float32", AngleMethod::kFloat32},
       {"bf16 table", AngleMethod::kBfloat16Table},
       {"bf16 angle", AngleMethod::kBfloat16Angle},
       {"fast math", AngleMethod::kFastMath}}};
  const Frequencies f = text_frequencies(rope_of(ropes, request), "precision");
  const auto positions = list_of<std::int64_t>(request, "positions");
  Json methods = Json::array();
  for (const auto& [name, method] : kMethods) {
    std::vector<double> angles;
    std::vector<double> values;
    std::vector<std::int64_t> pairs;
    for (const AngleError& error : angle_errors(f, method, positions)) {
      angles.push_back(error.angle);
      values.push_back(error.value);
      pairs.push_back(error.pair);
    }
    methods.push_back(
        Json{{"method", name}, {"angle_error", angles}, {"value_error", values}, {"pair", pairs}});
  }
  return {{"methods", methods}};
}

Json comparison_of(OpenRopes& ropes, const Json& request) {
  const OpenRope& a = rope_of(ropes, request, "a");
  const OpenRope& b = rope_of(ropes, request, "b");
  return explain::comparison_json(explain::compare(a.rope, b.rope, std::max(a.context, b.context)));
}

Json plan_of(OpenRopes& ropes, const Json& request) {
  const OpenModel& opened = ropes.model(request.at("model").as_int64());
  const ModelRope& rope = opened.model.rope(request.at("rope").as_string());
  explain::PlanReport report{.rope = rope.name,
                             .plan = explain::make_plan(rope, request.at("context").as_int64())};
  if (opened.text.empty()) {
    throw std::invalid_argument(
        fmt::format("[plan] {} is a GGUF file; give the config.json of the model", opened.source));
  }
  for (const explain::PlanOption& option : report.plan.options) {
    report.lines.push_back(explain::engine_lines(option, report.plan, opened.text, rope.name, ""));
  }
  Json json = explain::plan_json(report);
  json["sentence"] = explain::coverage_text(report.plan);
  return json;
}

}  // namespace

Json call(OpenRopes& ropes, const Json& request) {
  const std::string& name = request.at("call").as_string();
  if (name == "model") return model_json(ropes, request);
  if (name == "rope") return open_rope_json(ropes, request);
  if (name == "curves") return curves_json(ropes, request);
  if (name == "bounds") return bounds_json(ropes, request);
  if (name == "base") return base_json(ropes, request);
  if (name == "precision") return precision_json(ropes, request);
  if (name == "compare") return comparison_of(ropes, request);
  if (name == "plan") return plan_of(ropes, request);
  if (name == "dialects") return dialects_json();
  throw std::invalid_argument(fmt::format("[explorer] there is no call '{}'", name));
}

}  // namespace rotary::explorer
