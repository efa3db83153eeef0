// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary._core.Rope.norm_rotate.
#include "rotary/norm.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "bindings/positions.h"
#include "rotary/rope.h"

namespace rotary::python {
namespace {

template <typename Enum, std::size_t kCount>
Enum find(const char* argument, const std::string& given,
          const std::array<std::pair<std::string_view, Enum>, kCount>& known) {
  for (const auto& [name, value] : known) {
    if (name == given) return value;
  }
  throw std::invalid_argument(std::string("[norm_rotate] ") + argument +
                              " must be one of rotary.Norm's, got " + given);
}

}  // namespace

HeadNorm norm_of(const GivenNorm& given) {
  const auto& [kind, eps, rounding, scope, order, inverse] = given;
  using Kind = std::pair<std::string_view, NormKind>;
  using Rounding = std::pair<std::string_view, NormRounding>;
  using Scope = std::pair<std::string_view, NormScope>;
  using Order = std::pair<std::string_view, NormOrder>;
  return {.kind = find("kind", kind,
                       std::array{Kind{"none", NormKind::kNone}, Kind{"rms", NormKind::kRms},
                                  Kind{"rms_one_plus", NormKind::kRmsOnePlus},
                                  Kind{"layer", NormKind::kLayer}}),
          .eps = eps,
          .rounding = find("rounding", rounding,
                           std::array{Rounding{"tensor", NormRounding::kTensor},
                                      Rounding{"float32", NormRounding::kFloat32},
                                      Rounding{"every_step", NormRounding::kEveryStep}}),
          .scope = find("scope", scope,
                        std::array{Scope{"head", NormScope::kHead},
                                   Scope{"all_heads", NormScope::kAllHeads}}),
          .order = find("order", order,
                        std::array{Order{"before", NormOrder::kBeforeRotation},
                                   Order{"after", NormOrder::kAfterRotation}}),
          .rotation = inverse ? NormRotation::kInverse : NormRotation::kForward};
}

namespace {

void call_norm_rotate(const Rope& self, const nb::tuple& ins, nb::handle outs,
                      const nb::tuple& weights, const nb::tuple& biases, const GivenNorm& given,
                      const HeldPositions& at) {
  constexpr const char* kName = "norm_rotate";
  const HeadNorm norm = norm_of(given);
  Memory memory;
  const std::vector<Operand> operands = operands_of(kName, ins, outs, memory);
  const auto row = [&memory](nb::handle x) {
    return x.is_none() ? ConstTensorView{} : readable(kName, x, memory);
  };
  std::vector<NormOperand> normed;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    normed.emplace_back(operands[i], row(weights[i]), row(biases[i]));
  }
  const nb::gil_scoped_release release;
  self.norm_rotate(normed, norm, at.value);
}

}  // namespace

void add_norm(nb::class_<Rope>& rope) {
  rope.def(
      "norm_rotate", &call_norm_rotate, nb::arg("ins"), nb::arg("outs").none(), nb::arg("weights"),
      nb::arg("biases"), nb::arg("norm"), nb::arg("positions"),
      nb::sig("def norm_rotate(self, ins: tuple[object, ...], outs: tuple[object, ...] | None, "
              "weights: tuple[object, ...], biases: tuple[object, ...], "
              "norm: tuple[str, float, str, str, str, bool], positions: Positions) -> None"));
}

}  // namespace rotary::python
