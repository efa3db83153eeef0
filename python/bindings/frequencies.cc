// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary.Frequencies and make_frequencies().
#include "rotary/frequencies.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/convert.h"
#include "bindings/parts.h"
#include "rotary/recipe_json.h"

namespace rotary::python {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NumpyMatrix = nb::ndarray<nb::numpy, const double, nb::ndim<2>>;

std::vector<double> values_of(const Matrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

void make(Frequencies* self, const Matrix& values, double scale, double softmax_scale,
          const std::optional<Matrix>& growth, double growth_origin) {
  if (growth && (growth->shape(0) != values.shape(0) || growth->shape(1) != values.shape(1))) {
    throw std::invalid_argument("[Frequencies] growth must have the shape of values");
  }
  new (self) Frequencies{.pairs = static_cast<std::int64_t>(values.shape(0)),
                         .axes = static_cast<std::int64_t>(values.shape(1)),
                         .values = values_of(values),
                         .scale = scale,
                         .softmax_scale = softmax_scale,
                         .growth = growth ? values_of(*growth) : std::vector<double>{},
                         .growth_origin = growth_origin};
}

/// A read-only view that keeps its owner alive.
NumpyMatrix matrix_of(const Frequencies& f, const std::vector<double>& values) {
  return {values.data(),
          {static_cast<std::size_t>(f.pairs), static_cast<std::size_t>(f.axes)},
          nb::find(f)};
}

bool equal(const Frequencies& a, const Frequencies& b) {
  return a.pairs == b.pairs && a.axes == b.axes && a.values == b.values && a.scale == b.scale &&
         a.softmax_scale == b.softmax_scale && a.growth == b.growth &&
         a.growth_origin == b.growth_origin;
}

}  // namespace

void add_frequencies(nb::module_& m) {
  nb::class_<Frequencies>(
      m, "Frequencies",
      "Frequencies of the pairs: a matrix [pairs, axes] of radians per unit of\n"
      "position, in float64, with scale, softmax scale and growth.")
      .def("__init__", &make, nb::arg("values"), nb::kw_only(), nb::arg("scale") = 1.0,
           nb::arg("softmax_scale") = 1.0, nb::arg("growth") = nb::none(),
           nb::arg("growth_origin") = 0.0)
      .def_ro("pairs", &Frequencies::pairs)
      .def_ro("axes", &Frequencies::axes)
      .def_prop_ro("rotary_dim", &Frequencies::rotary_dim)
      .def_prop_ro(
          "values", [](const Frequencies& f) { return matrix_of(f, f.values); },
          "[pairs, axes], read-only: radians per unit of position.")
      .def_ro("scale", &Frequencies::scale, "Multiplies cos and sin, hence scores by its square.")
      .def_ro("softmax_scale", &Frequencies::softmax_scale,
              "Factor of attention scores besides 1/sqrt(d); not part of the rotation.")
      .def_prop_ro(
          "growth",
          [](const Frequencies& f) -> std::optional<NumpyMatrix> {
            if (f.growth.empty()) return std::nullopt;
            return matrix_of(f, f.growth);
          },
          "[pairs, axes] or None: logarithm by which a pair grows per unit of position (xPos).")
      .def_ro("growth_origin", &Frequencies::growth_origin)
      .def(
          "with_inverse_growth", [](const Frequencies& f) { return with_inverse_growth(f); },
          "The frequencies of keys, where these are those of queries: xPos lets one grow as the "
          "other decays.")
      .def(
          "__eq__",
          [](const Frequencies& a, nb::handle b) {
            return nb::isinstance<Frequencies>(b) && equal(a, nb::cast<const Frequencies&>(b));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__reduce__",
          [](nb::handle self) {
            return nb::make_tuple(
                nb::module_::import_("rotary.rope").attr("_frequencies"),
                nb::make_tuple(self.attr("values"), self.attr("scale"), self.attr("softmax_scale"),
                               self.attr("growth"), self.attr("growth_origin")));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__repr__", [](const Frequencies& f) {
        return "Frequencies(pairs=" + std::to_string(f.pairs) + ", axes=" + std::to_string(f.axes) +
               ")";
      });

  m.def(
      "make_frequencies",
      [](nb::handle recipe, std::int64_t context) {
        return make_frequencies(recipe_of(recipe), context);
      },
      nb::arg("recipe"), nb::arg("context") = 0,
      nb::sig("def make_frequencies(recipe: object, context: int = 0) -> Frequencies"));
  m.def(
      "depends_on_context", [](nb::handle recipe) { return depends_on_context(recipe_of(recipe)); },
      nb::arg("recipe"), nb::sig("def depends_on_context(recipe: object) -> bool"));
  m.def(
      "recipe_to_json", [](nb::handle recipe) { return to_json(recipe_of(recipe)); },
      nb::arg("recipe"), nb::sig("def recipe_to_json(recipe: object) -> str"));
  m.def(
      "recipe_from_json", [](const std::string& json) { return to_python(recipe_from_json(json)); },
      nb::arg("json"), nb::sig("def recipe_from_json(json: str) -> typing.Any"));
}

}  // namespace rotary::python
