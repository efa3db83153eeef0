// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary.analysis: scores by distance, bounds on bases, errors of angles.
#include "rotary/analysis.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/convert.h"
#include "bindings/parts.h"

namespace rotary::python {
namespace {

using Values = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

std::span<const double> span_of(const Values& values) { return {values.data(), values.size()}; }

AngleMethod method_of(const std::string& name) {
  if (name == "float32") return AngleMethod::kFloat32;
  if (name == "bfloat16_table") return AngleMethod::kBfloat16Table;
  if (name == "bfloat16_angle") return AngleMethod::kBfloat16Angle;
  if (name == "fast_math") return AngleMethod::kFastMath;
  throw std::invalid_argument(
      "[angle_errors] method must be float32, bfloat16_table, "
      "bfloat16_angle or fast_math, got " +
      name);
}

nb::list errors_of(const Frequencies& f, const std::string& method,
                   const std::vector<std::int64_t>& positions) {
  nb::list rows;
  for (const AngleError& error : angle_errors(f, method_of(method), positions)) {
    rows.append(nb::make_tuple(error.angle, error.value, error.pair));
  }
  return rows;
}

nb::dict base_of(nb::handle recipe, std::int64_t context) {
  const Recipe given = recipe_of(recipe);
  BaseBound bound;
  {
    const nb::gil_scoped_release release;
    bound = smallest_base(given, context);
  }
  nb::dict result;
  result["base"] = bound.base;
  result["lower"] = bound.lower;
  result["distance"] = bound.distance;
  result["interval_proof"] = bound.interval_proof;
  result["undecided"] = bound.undecided;
  return result;
}

}  // namespace

void add_analysis(nb::module_& m) {
  m.def("wavelengths", &wavelengths, nb::arg("frequencies"));
  m.def("turns", &turns, nb::arg("frequencies"), nb::arg("context"));
  m.def(
      "decay",
      [](const Frequencies& f, const Values& offsets) { return decay(f, span_of(offsets)); },
      nb::arg("frequencies"), nb::arg("offsets"));
  m.def(
      "relative_scores",
      [](const Frequencies& f, const Values& offsets, const std::optional<Values>& weights) {
        return relative_scores(f, span_of(offsets),
                               weights ? span_of(*weights) : std::span<const double>{});
      },
      nb::arg("frequencies"), nb::arg("offsets"), nb::arg("weights").none());
  m.def(
      "position_plane",
      [](const Frequencies& f, const Values& at) { return position_plane(f, span_of(at)); },
      nb::arg("frequencies"), nb::arg("positions"));
  m.def("critical_dim", &critical_dim, nb::arg("frequencies"), nb::arg("trained_context"));
  m.def("negative_distance", &negative_distance, nb::arg("frequencies"), nb::arg("context"));
  m.def("smallest_base", &base_of, nb::arg("recipe"), nb::arg("context"),
        nb::sig("def smallest_base(recipe: object, context: int) -> dict[str, typing.Any]"));
  m.def("angle_errors", &errors_of, nb::arg("frequencies"), nb::arg("method"), nb::arg("positions"),
        nb::sig("def angle_errors(frequencies: Frequencies, method: str, "
                "positions: collections.abc.Sequence[int]) -> list[tuple[float, float, int]]"));
}

}  // namespace rotary::python
