// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary map: pictures of a rotation: scores by position, phases, positions in the plane.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "rotary/analysis.h"
#include "tools/commands.h"
#include "tools/picture.h"
#include "tools/rope_argument.h"

namespace rotary::cli {
namespace {

using explain::Json;

struct MapOptions {
  RopeArgument rope;
  std::string kind = "scores";
  std::int64_t size = 64;
  std::string out;
  bool json = false;
};

constexpr const char* kMapFooter =
    R"(KIND is one of
  scores  the score of equal vectors: query position against key position; for ropes of several axes
          the offset on the last two axes, from -size/2 to size/2
  phases  cos of the angle of each pair (down) at each position
  plane   position vectors in the plane of their two principal components

Examples:
  rotary map config.json
  rotary map config.json --kind phases --size 128 -o phases.svg
  rotary map --dim 64 --base 10000 --kind plane -o plane.png)";

HeatMap score_map(const ModelRope& rope, const Frequencies& f, std::int64_t size) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<double> offsets;
  HeatMap map{.title = "Score of equal vectors"};
  if (f.axes == 1) {
    for (std::int64_t m = 1 - size; m < size; ++m) offsets.push_back(static_cast<double>(m));
    const std::vector<double> line = relative_scores(f, offsets);
    map = {map.title, "query position", "key position", n, n, {}};
    for (std::size_t query = 0; query < n; ++query) {
      for (std::size_t key = 0; key < n; ++key) map.values.push_back(line[query + n - 1 - key]);
    }
    return map;
  }
  const std::int64_t half = size / 2;
  const auto axes = static_cast<std::size_t>(f.axes);
  for (std::int64_t row = -half; row <= half; ++row) {
    for (std::int64_t column = -half; column <= half; ++column) {
      offsets.resize(offsets.size() + axes, 0.0);
      offsets[offsets.size() - 2] = static_cast<double>(row);
      offsets[offsets.size() - 1] = static_cast<double>(column);
    }
  }
  const auto side = static_cast<std::size_t>(2 * half + 1);
  const std::string down = rope.axes[axes - 2];
  const std::string across = rope.axes[axes - 1];
  return {map.title, down + " apart", across + " apart", side, side, relative_scores(f, offsets)};
}

HeatMap phase_map(const Frequencies& f, std::int64_t size) {
  HeatMap map{"cos of the angle",
              "pair",
              "position",
              static_cast<std::size_t>(f.pairs),
              static_cast<std::size_t>(size),
              {}};
  for (std::int64_t pair = 0; pair < f.pairs; ++pair) {
    double speed = 0.0;  // the same position on every axis
    for (std::int64_t axis = 0; axis < f.axes; ++axis) speed += f(pair, axis);
    for (std::int64_t m = 0; m < size; ++m) {
      map.values.push_back(std::cos(speed * static_cast<double>(m)));
    }
  }
  return map;
}

PointMap plane_map(const ModelRope& rope, const Frequencies& f, std::int64_t size) {
  if (f.axes != 1) {
    throw std::invalid_argument(
        fmt::format("[map] rope '{}' has {} axes; --kind plane needs one", rope.name, f.axes));
  }
  std::vector<double> positions;
  for (std::int64_t m = 0; m < size; ++m) positions.push_back(static_cast<double>(m));
  return {"Positions in the plane of their two principal components", position_plane(f, positions)};
}

Json map_json(const HeatMap& map) {
  return {{"kind", map.title},
          {"rows", map.rows},
          {"columns", map.columns},
          {"row_label", map.row_label},
          {"column_label", map.column_label},
          {"values", map.values}};
}

Json map_json(const PointMap& map) { return {{"kind", map.title}, {"points", map.points}}; }

std::string labels_of(const HeatMap& map) {
  return fmt::format("{} down, {} across; dark (@, red) is 1, light (blank, blue) is -1\n",
                     map.row_label, map.column_label);
}

std::string labels_of(const PointMap&) { return "digits: tenths of the positions, 0 the first\n"; }

template <typename Map>
void output_map(const Map& map, const ModelRope& rope, const MapOptions& options) {
  if (!options.out.empty()) write_picture(options.out, map);
  if (options.json) {
    console::print_out(explain::to_text(map_json(map)));
    return;
  }
  if (!options.out.empty()) return;
  const explain::Terminal terminal = console::detect_terminal();
  std::string text =
      explain::paint(terminal, explain::Style::kTitle, title_of(options.rope, rope)) + "\n" +
      map.title + ": " + labels_of(map);
  for (const std::string& line : draw(map, terminal)) text += "  " + line + "\n";
  console::print_out(text);
}

void show_map(const MapOptions& options) {
  if (options.size < 2 || options.size > 1024) {
    throw UsageError(fmt::format("--size must be 2 to 1024, got {}", options.size));
  }
  if (options.kind != "scores" && options.kind != "phases" && options.kind != "plane") {
    throw UsageError(fmt::format("--kind must be scores, phases or plane, got '{}'", options.kind));
  }
  if (!options.out.empty()) require_picture_name(options.out);
  const ModelRope rope = read_rope(options.rope);
  const Frequencies f = rope.make_frequencies(context_or_trained(options.rope, rope));
  if (options.kind == "plane") {
    output_map(plane_map(rope, f, options.size), rope, options);
  } else {
    output_map(
        options.kind == "phases" ? phase_map(f, options.size) : score_map(rope, f, options.size),
        rope, options);
  }
}

}  // namespace

void add_map(CLI::App& app) {
  auto options = std::make_shared<MapOptions>();
  CLI::App* verb = app.add_subcommand("map", "Draw scores or phases of a rotation as a map");
  verb->footer(kMapFooter);
  add_rope_argument(*verb, options->rope);
  verb->add_option("--kind", options->kind, "scores, phases or plane")->type_name("KIND");
  verb->add_option("--size", options->size, "Positions (64)")->type_name("N");
  verb->add_option("-o,--out", options->out, "Write an .svg or .png file instead")
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "Print the values as JSON");
  verb->callback([options] { show_map(*options); });
}

}  // namespace rotary::cli
