// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary export: written in Python, for the package that writes ONNX. The script `rotary` of the
// Python package runs it; this program says how to get there.
#include <CLI/CLI.hpp>
#include <stdexcept>

#include "tools/commands.h"

namespace rotary::cli {

void add_export(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("export", "Write the rotation of a model for another runtime (Python)");
  verb->footer(
      "Needs the Python package: pip install '.[onnx]' in rotary's source, then\n"
      "  python -m rotary export onnx MODEL -o FILE");
  verb->allow_extras();
  verb->callback([] {
    throw std::runtime_error(
        "export needs the Python package: pip install '.[onnx]' in rotary's source, then python -m "
        "rotary export onnx MODEL -o FILE");
  });
}

}  // namespace rotary::cli
