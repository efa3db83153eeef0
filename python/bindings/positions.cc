// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary.Positions: the factories of positions.h over arrays.
#include "bindings/positions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/parts.h"

namespace rotary::python {
namespace {

HeldPositions ids(nb::handle values) {
  HeldPositions held;
  held.value = Positions::ids(readable("Positions::ids", values, held.memory));
  return held;
}

HeldPositions ranges(nb::handle first) {
  HeldPositions held;
  held.value = Positions::range(readable("Positions::range", first, held.memory));
  return held;
}

HeldPositions each_at(nb::handle position) {
  HeldPositions held;
  held.value = Positions::at(readable("Positions::at", position, held.memory));
  return held;
}

HeldPositions packed(nb::handle boundaries, nb::handle first) {
  HeldPositions held;
  const ConstTensorView ends = readable("Positions::packed", boundaries, held.memory);
  held.value =
      Positions::packed(ends, first.is_none() ? ConstTensorView{}
                                              : readable("Positions::packed", first, held.memory));
  return held;
}

HeldPositions packed_at(nb::handle boundaries, nb::handle position) {
  HeldPositions held;
  const ConstTensorView ends = readable("Positions::packed_at", boundaries, held.memory);
  held.value = Positions::packed_at(ends, readable("Positions::packed_at", position, held.memory));
  return held;
}

HeldPositions on_all_axes(const HeldPositions& held) {
  HeldPositions other = held;
  other.value = held.value.on_all_axes();
  return other;
}

/// -1 of the library is None.
std::optional<std::int64_t> known(std::int64_t count) {
  return count < 0 ? std::nullopt : std::optional(count);
}

std::string describe(const HeldPositions& held) {
  const Positions& p = held.value;
  const std::string start = std::to_string(p.start());
  switch (p.kind()) {
    case Positions::Kind::kIds:
      return "Positions(ids for " + std::to_string(p.tokens()) + " tokens)";
    case Positions::Kind::kPacked:
      return "Positions(packed, " + std::to_string(p.boundaries().shape[0] - 1) + " sequences)";
    case Positions::Kind::kRange:
      break;
  }
  if (p.batch() >= 0) {
    return "Positions(" + std::string(p.step() == 0 ? "at" : "from") + " one for each of " +
           std::to_string(p.batch()) + " batch rows)";
  }
  return p.step() == 0 ? "Positions(at " + start + ")" : "Positions(from " + start + ")";
}

}  // namespace

void add_positions(nb::module_& m) {
  nb::class_<HeldPositions>(
      m, "Positions",
      "The position of every token. Views the arrays it was made from and keeps\n"
      "them alive. Constructed by rotary.positions(), ranges(), at(), packed().")
      .def("on_all_axes", &on_all_axes,
           "The same position on every axis of the rope, as text tokens have in M-RoPE.")
      .def_prop_ro("axes", [](const HeldPositions& p) { return p.value.axes(); })
      .def_prop_ro(
          "batch", [](const HeldPositions& p) { return known(p.value.batch()); },
          "Batch rows given, or None where the positions fit any batch.")
      .def_prop_ro(
          "tokens", [](const HeldPositions& p) { return known(p.value.tokens()); },
          "Tokens given, or None where the positions fit any number.")
      .def("__repr__", &describe);

  m.def(
      "positions_range", [](std::int64_t first) { return HeldPositions{Positions::range(first)}; },
      nb::arg("first"));
  m.def(
      "positions_at", [](std::int64_t at) { return HeldPositions{Positions::at(at)}; },
      nb::arg("position"));
  m.def("positions_ids", &ids, nb::arg("values"));
  m.def("positions_ranges", &ranges, nb::arg("first"));
  m.def("positions_each_at", &each_at, nb::arg("position"));
  m.def("positions_packed", &packed, nb::arg("boundaries"), nb::arg("first").none());
  m.def("positions_packed_at", &packed_at, nb::arg("boundaries"), nb::arg("position"));
}

}  // namespace rotary::python
