// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Models, and a rope in words: table, chart and sentences of the command `rotary inspect`.
#include "rotary/model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/convert.h"
#include "bindings/described.h"
#include "bindings/parts.h"
#include "explain/describe.h"
#include "explain/rope_json.h"
#include "explorer/embed/page.h"

namespace rotary::python {
namespace {

template <typename Read>
nb::object read(Read make) {
  Model model;
  {
    const nb::gil_scoped_release release;
    model = make();
  }
  return to_python(model);
}

/// The index of the rope that Model::rope() returns.
std::int64_t rope_index(const std::vector<std::string>& names, const std::string& name) {
  Model model;
  for (const std::string& each : names) model.ropes.emplace_back().name = each;
  return &model.rope(name) - model.ropes.data();
}

/// The output of `rotary inspect` for a rope, as a dict of plain values.
nb::dict describe_rope(nb::handle given, std::int64_t context, std::size_t columns) {
  const ModelRope rope = model_rope_of(given);
  const Frequencies frequencies = rope.make_frequencies(context);
  return described(rope, frequencies, explain::describe(rope, frequencies, context),
                   explain::rope_json(rope, frequencies, context), columns);
}

}  // namespace

void add_model(nb::module_& m) {
  m.def(
      "read_model",
      [](const std::filesystem::path& path) { return read([&] { return Model::read(path); }); },
      nb::arg("path"), nb::sig("def read_model(path: str | os.PathLike[str]) -> typing.Any"));
  m.def(
      "model_from_config",
      [](const std::string& json, const std::string& source) {
        return read([&] { return Model::from_config(json, source); });
      },
      nb::arg("json"), nb::arg("source"),
      nb::sig("def model_from_config(json: str, source: str) -> typing.Any"));
  m.def(
      "model_from_gguf",
      [](const nb::bytes& bytes, const std::string& source) {
        const std::string_view view(bytes.c_str(), bytes.size());
        return read([&] { return Model::from_gguf(view, source); });
      },
      nb::arg("data"), nb::arg("source"),
      nb::sig("def model_from_gguf(data: bytes, source: str) -> typing.Any"));
  m.def("rope_index", &rope_index, nb::arg("names"), nb::arg("name"));
  m.def("known_model_types", &known_model_types);
  m.def("explorer_page", &explorer::page_with_model, nb::arg("text"), nb::arg("source"));
  m.def("describe_rope", &describe_rope, nb::arg("rope"), nb::arg("context"), nb::arg("columns"),
        nb::sig("def describe_rope(rope: object, context: int, columns: int) -> "
                "dict[str, typing.Any]"));
}

}  // namespace rotary::python
