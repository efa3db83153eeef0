// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/rope_report.h"

#include <string>
#include <vector>

#include "explain/describe.h"
#include "explain/dialect.h"
#include "explain/wavelengths.h"

namespace rotary::explain {

Json rope_report(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context_in_use,
                 const DialectRope* dialect) {
  const std::vector<PairWavelength> pairs = pair_wavelengths(rope, frequencies);
  Json wavelengths = Json::array();
  Json unscaled = Json::array();
  Json axes = Json::array();
  for (const PairWavelength& pair : pairs) {
    wavelengths.push_back(pair.rotates() ? Json(pair.wavelength) : Json(nullptr));
    unscaled.push_back(pair.unscaled < 1e18 ? Json(pair.unscaled) : Json(nullptr));
    axes.push_back(pair.axis);
  }
  std::vector<Property> properties = describe(rope, frequencies, context_in_use);
  Json json = {{"rope", rope_json(rope, frequencies, context_in_use)},
               {"properties", Json::array()},
               {"sentences", explain_wavelengths(pairs, rope.context.trained)},
               {"wavelengths", wavelengths},
               {"unscaled", unscaled},
               {"pair_axes", axes},
               {"depends_on_context", depends_on_context(rope.recipe)},
               {"context_threshold", context_threshold(rope.recipe)},
               {"dialect", nullptr}};
  if (dialect != nullptr) {
    add_dialect(properties, *dialect);
    add_dialect(json["rope"], *dialect);
    json["dialect"] = {{"dropped_keys", dialect->dropped_keys},
                       {"refused", dialect->refused},
                       {"notes", dialect->notes}};
  }
  for (const Property& property : properties) {
    json["properties"].push_back(
        Json(std::vector<std::string>{property.name, property.value, property.meaning}));
  }
  return json;
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

}  // namespace rotary::explain
