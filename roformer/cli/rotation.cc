// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer rotation: what a model has learned of its rotation.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/text_table.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/rotation_plot.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

struct RotationOptions {
  std::string checkpoint;
  std::string output;
  bool json = false;
};

constexpr const char* kRotationFooter =
    R"(For models that were trained with rope_learn. The change of a pair is the distance of its
learned frequency from the one that it began with, divided by that. --output draws the learned
frequency of every pair and layer relative to the first one. --json prints the learned frequencies
themselves, in radians per position, as ropes that rotary.torch takes: one for each layer, or one
for each head.

Examples:
  roformer rotation run/model -o rotation.svg
  roformer rotation run/model --json | jq .layers[0].ropes[0].frequencies)";

std::string to_text(const std::vector<LearnedLayer>& layers) {
  explain::TextTable table({"layer", "mean change", "largest", "at pair", "at head"});
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerChange change = change_of(layers[l]);
    const bool by_head = layers[l].learned.size() > 1;
    table.add_row({std::to_string(l), fmt::format("{:.3g} %", 100.0 * change.mean),
                   fmt::format("{:.3g} %", 100.0 * change.max), std::to_string(change.pair),
                   by_head ? std::to_string(change.head) : "all"});
  }
  return table.text(console::detect_terminal());
}

std::string to_json(const Config& config, const std::vector<LearnedLayer>& layers) {
  Json json = {{"rope_learn", name_of(config.rope_learn)}, {"layers", Json::array()}};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerChange change = change_of(layers[l]);
    Json ropes = Json::array();
    for (const std::vector<double>& frequencies : layers[l].learned) {
      Json rope = {{"head_dim", config.head_dim()}, {"pairing", "interleaved"}};
      rope["axes"] = layers[l].axes;
      rope["frequencies"] = frequencies;
      ropes.push_back(std::move(rope));
    }
    Json layer = {{"layer", static_cast<std::int64_t>(l)},
                  {"mean_change", change.mean},
                  {"max_change", change.max}};
    layer["first_frequencies"] = layers[l].base;
    layer["ropes"] = std::move(ropes);
    json["layers"].push_back(std::move(layer));
  }
  return json.dump_lines();
}

void rotation(const RotationOptions& options) {
  const Model model = load_complete_model(options.checkpoint);
  const Config& config = model->config();
  const std::vector<LearnedLayer> layers = learned_layers(model->roformer());
  if (layers.empty()) {
    throw IoError(options.checkpoint, IoError::kNoOffset,
                  "the model has learned nothing of its rotation: rope_learn is none");
  }
  if (!options.output.empty()) {
    write_text(options.output,
               draw_rotation(layers, fmt::format("Learned frequencies ({}), relative to the first",
                                                 name_of(config.rope_learn))));
  }
  console::print_out(options.json ? to_json(config, layers) : to_text(layers));
}

}  // namespace

void add_rotation(CLI::App& app) {
  auto options = std::make_shared<RotationOptions>();
  CLI::App* verb = app.add_subcommand("rotation", "Show what a model has learned of its rotation");
  verb->footer(kRotationFooter);
  verb->add_option("CHECKPOINT", options->checkpoint, "A folder or a .safetensors file")
      ->required()
      ->type_name("");
  verb->add_option("-o,--output", options->output, "Draw the learned frequencies: an SVG file")
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "Print JSON, with the frequencies");
  verb->callback([options] { rotation(*options); });
}

}  // namespace rotary::roformer::cli
