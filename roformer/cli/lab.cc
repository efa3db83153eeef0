// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer lab: experiments that compare position encodings.
#include "roformer/lab/lab.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "roformer/cli/commands.h"
#include "roformer/cli/progress.h"
#include "roformer/cli/task_options.h"
#include "roformer/lab/report.h"
#include "roformer/lab/runner.h"
#include "roformer/train/interrupt.h"

namespace rotary::roformer::cli {
namespace {

struct LabVerb {
  std::string name;
  /// Of `report`.
  std::string results;
  std::string device;
  /// Plots as PNG, too.
  bool png = true;
  lab::LabOptions options{};
};

std::string lab_footer() {
  std::string footer = "NAME is one of\n";
  for (const lab::LabInfo& info : lab::labs()) {
    footer += fmt::format("  {:<10} {}\n", info.name, info.about);
  }
  return footer + R"(
or `report`, which draws the report of a folder again: roformer lab report DIR

DIR gets results.json (every number with its variant, seed and coordinates, and the settings),
report.md (tables, published figures beside them) and plots as SVG and PNG. Ctrl-C ends the units
that run with a checkpoint; the same command continues. With --quick a lab needs only the texts
that come with rotary and minutes on a CPU. --config names a JSON file that changes settings: those
in results.json are the keys, and a list of encodings gets the file's entries in addition.

Examples:
  roformer lab length -o lab/length --quick
  roformer lab length -o lab/length --data data/ --device cuda --variants rope,alibi --seeds 3
  roformer lab report lab/length)";
}

void draw_report(const std::filesystem::path& folder, bool png, Progress& progress) {
  progress.say("report: " + lab::write_report(folder, png).string());
}

void run_lab_verb(const LabVerb& verb) {
  Progress progress;
  if (verb.name == "report") {
    const auto& folder = verb.results.empty() ? verb.options.folder.string() : verb.results;
    if (folder.empty()) throw UsageError("lab report needs the folder of the results");
    return draw_report(folder, verb.png, progress);
  }
  if (!verb.results.empty()) throw UsageError("only `lab report` takes a folder; use -o DIR");
  if (verb.options.folder.empty()) throw UsageError("-o DIR is needed: the folder of the results");
  if (verb.options.rerun && verb.options.variants.empty()) {
    throw UsageError("--rerun needs --variants: what to run again");
  }
  lab::LabOptions options = verb.options;
  options.device = device_of({.device = verb.device});
  const InterruptGuard interrupts;
  lab::LabEvents events;
  events.say = [&](const std::string& line) { progress.say(line); };
  events.show = [&](const std::string& line) { progress.show(line); };
  events.stop = [] { return InterruptGuard::requested(); };
  bool done = false;
  try {
    const lab::LabInfo& info = lab::find_lab(verb.name);
    const std::unique_ptr<lab::Lab> experiment = info.make(options);
    done = lab::run_lab(info.name, *experiment, options, events);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  if (!done) {
    progress.say(fmt::format("stopped; the same command continues in {}", options.folder.string()));
    return;
  }
  draw_report(options.folder, verb.png, progress);
}

}  // namespace

void add_lab(CLI::App& app) {
  auto verb = std::make_shared<LabVerb>();
  CLI::App* lab = app.add_subcommand("lab", "Compare position encodings by experiments");
  lab->footer(lab_footer());
  lab::LabOptions& o = verb->options;
  lab->add_option("NAME", verb->name, "The lab, or `report`")->required()->type_name("");
  lab->add_option("DIR", verb->results, "Of `report`: the folder with results.json")->type_name("");
  lab->add_option("-o,--output", o.folder, "The folder of the results")->type_name("DIR");
  lab->add_option("--data", o.data, "The folder of the data for the full setting")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  lab->add_flag("--quick", o.quick, "The small setting: minutes on a CPU, with bundled data");
  lab->add_option("--seeds", o.seeds, "Seeds of each variant; default: as the settings say")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  lab->add_option("--device", verb->device, "cpu, cuda or cuda:N; default: the GPU if there is one")
      ->type_name("DEVICE");
  lab->add_option("--config", o.config, "A JSON file that changes settings")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  lab->add_option("--variants", o.variants, "Only these variants: rope,alibi, or 'encoder *'")
      ->type_name("NAME,...")
      ->delimiter(',');
  lab->add_option("--jobs", o.jobs, "Units at once on a GPU; default: as the lab says")
      ->type_name("N")
      ->check(CLI::Range(1, 32));  // PyTorch has so many streams
  lab->add_flag(
      "!--no-graphs", o.graphs,
      "Launch the kernels of a training step one by one: on a GPU it is a CUDA graph, with "
      "the same numbers where kernels sum in a fixed order");
  lab->add_flag("--retry", o.retry, "Run units again that failed");
  lab->add_flag("--rerun", o.rerun,
                "Run the units of --variants again: their rows are dropped first, and the settings "
                "that they alone depend on may have changed");
  lab->add_flag("!--no-png", verb->png, "Plots as SVG alone, which takes a tenth of the time");
  lab->callback([verb] { run_lab_verb(*verb); });
}

}  // namespace rotary::roformer::cli
