// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Dialects and plans: what the commands `inspect --dialect`, `diff --dialect` and `plan` print.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/convert.h"
#include "bindings/described.h"
#include "bindings/parts.h"
#include "explain/dialect.h"
#include "explain/dialect_report.h"
#include "explain/plan_report.h"
#include "explain/terminal.h"
#include "rotary/dialect.h"

namespace rotary::python {
namespace {

explain::Terminal plain_terminal(std::size_t columns) {
  return {.columns = columns, .colour = false, .unicode = true};
}

nb::dict to_dict(const Dialect& dialect) {
  nb::dict result;
  result["name"] = dialect.name;
  result["version"] = dialect.version;
  result["source"] = dialect.source;
  result["evidence"] = dialect.evidence;
  result["angle"] = dialect.rounding.angle;
  result["table"] = dialect.rounding.table;
  result["rotation"] = dialect.rounding.rotation;
  return result;
}

nb::list dialects() {
  nb::list result;
  for (const Dialect& dialect : known_dialects()) result.append(to_dict(dialect));
  return result;
}

/// The model in a dialect, and each rope as describe_rope() has it, with what the dialect adds.
nb::dict inspect_dialect(const std::string& config, const std::string& source,
                         const std::string& name, std::int64_t context, std::size_t columns) {
  const DialectModel read = dialect_from_config(config, name, source);
  Model model{.model_type = read.model_type};
  nb::list ropes;
  for (const DialectRope& rope : read.ropes) {
    const Frequencies frequencies = rope.make_frequencies(context);
    std::vector<explain::Property> properties = explain::describe(rope.rope, frequencies, context);
    explain::Json json = explain::rope_json(rope.rope, frequencies, context);
    explain::add_dialect(properties, rope);
    explain::add_dialect(json, rope);
    ropes.append(described(rope.rope, frequencies, properties, json, columns));
    model.ropes.push_back(rope.rope);
  }
  nb::dict result;
  result["dialect"] = to_dict(read.dialect);
  result["sentences"] = explain::dialect_sentences(read.dialect);
  result["model"] = to_python(model);
  result["ropes"] = ropes;
  return result;
}

nb::tuple report(const explain::Json& json, const std::string& text) {
  return nb::make_tuple(explain::to_text(json), text);
}

nb::tuple diff_dialects(const std::string& config, const std::string& source, const std::string& a,
                        const std::string& b, const std::string& rope, std::int64_t context,
                        std::size_t columns) {
  const explain::DialectPair pair =
      explain::compare_models(dialect_from_config(config, a, source),
                              dialect_from_config(config, b, source), rope, context);
  return report(explain::pair_json(pair),
                explain::pair_text(pair, source, plain_terminal(columns)));
}

nb::tuple plan(const std::string& config, const std::string& source, const std::string& rope,
               std::int64_t context, const std::string& engine, std::size_t columns) {
  const explain::PlanReport made = explain::report_plan(config, source, rope, context, engine);
  return report(explain::plan_json(made),
                explain::plan_text(made, source, plain_terminal(columns)));
}

}  // namespace

void add_dialects(nb::module_& m) {
  m.def("known_dialects", &dialects, nb::sig("def known_dialects() -> list[dict[str, str]]"));
  m.def("inspect_dialect", &inspect_dialect, nb::arg("config"), nb::arg("source"),
        nb::arg("dialect"), nb::arg("context"), nb::arg("columns"),
        nb::sig("def inspect_dialect(config: str, source: str, dialect: str, context: int, "
                "columns: int) -> dict[str, typing.Any]"));
  m.def("diff_dialects", &diff_dialects, nb::arg("config"), nb::arg("source"), nb::arg("a"),
        nb::arg("b"), nb::arg("rope"), nb::arg("context"), nb::arg("columns"),
        nb::sig("def diff_dialects(config: str, source: str, a: str, b: str, rope: str, "
                "context: int, columns: int) -> tuple[str, str]"));
  m.def("plan", &plan, nb::arg("config"), nb::arg("source"), nb::arg("rope"), nb::arg("context"),
        nb::arg("engine"), nb::arg("columns"),
        nb::sig("def plan(config: str, source: str, rope: str, context: int, engine: str, "
                "columns: int) -> tuple[str, str]"));
}

}  // namespace rotary::python
