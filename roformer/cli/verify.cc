// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer verify: compares a checkpoint with the results of another implementation.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "console/output.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/reference.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

struct VerifyOptions {
  std::string checkpoint;
  std::string reference;
  bool json = false;
};

constexpr const char* kVerifyFooter =
    R"(REFERENCE.json holds inputs and the results of another implementation: input_ids,
attention_mask, token_type_ids, labels, logits, loss, and grad_norms by the names of parameters. The
model runs in float32 on the CPU, without dropout. Prints the largest difference of logits, and the
difference of loss and of each gradient norm. Exit code 1 if one exceeds its tolerance: logits 2e-5,
loss 1e-6, gradient norms 1e-4 of the norm; a difference below 1.2e-7 of the largest norm is
rounding and counts as 0.

Examples:
  roformer verify roformer_chinese_base/ reference.json
  roformer verify model.safetensors reference.json --json | jq .fits)";

bool all_fit(const std::vector<Difference>& all) {
  return std::all_of(all.begin(), all.end(), [](const Difference& one) { return one.fits(); });
}

std::string to_text(const std::vector<Difference>& all) {
  std::size_t width = 0;
  for (const Difference& one : all) width = std::max(width, one.what.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>12}  {:>10}  {:>9}\n", "", width, "here",
                                 "reference", "difference", "tolerance");
  for (const Difference& one : all) {
    text += fmt::format("{:<{}}  {:>12.7g}  {:>12.7g}  {:>10.2e}  {:>9.0e}{}\n", one.what, width,
                        one.ours, one.theirs, one.difference, one.tolerance,
                        one.fits() ? "" : "  beyond");
  }
  return text;
}

std::string to_json(const std::vector<Difference>& all) {
  Json json = {{"fits", all_fit(all)}, {"differences", Json::array()}};
  for (const Difference& one : all) {
    json["differences"].push_back({{"what", one.what},
                                   {"here", one.ours},
                                   {"reference", one.theirs},
                                   {"difference", one.difference},
                                   {"tolerance", one.tolerance},
                                   {"fits", one.fits()}});
  }
  return json.dump_lines();
}

void verify(const VerifyOptions& options) {
  const Reference reference = read_reference(options.reference);
  const Model model = load_complete_model(options.checkpoint);
  const std::vector<Difference> all = compare(*model, reference, options.reference);
  console::print_out(options.json ? to_json(all) : to_text(all));
  const auto beyond =
      std::count_if(all.begin(), all.end(), [](const Difference& one) { return !one.fits(); });
  if (beyond > 0) {
    throw std::runtime_error(
        fmt::format("{}: {} of {} differences from {} are beyond the tolerance", options.checkpoint,
                    beyond, all.size(), options.reference));
  }
  if (!options.json) {
    console::print_out(fmt::format("All {} differences are within the tolerance.\n", all.size()));
  }
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb =
      app.add_subcommand("verify", "Compare a model with the results of another implementation");
  verb->footer(kVerifyFooter);
  verb->add_option("CHECKPOINT", options->checkpoint, "A folder or a .safetensors file")
      ->required()
      ->type_name("");
  verb->add_option("REFERENCE", options->reference, "Inputs and results, as JSON")
      ->required()
      ->type_name("");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { verify(*options); });
}

}  // namespace rotary::roformer::cli
