// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer pretrain: from texts to a model.
#include "roformer/train/pretrain.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "roformer/cli/commands.h"
#include "roformer/cli/config_flags.h"
#include "roformer/cli/progress.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/interrupt.h"
#include "roformer/train/ranks.h"
#include "rotary/error.h"
#include "tools/words.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;

struct PretrainOptions {
  std::string folder;
  ConfigFlags flags;
  bool resume = false;
};

constexpr const char* kPretrainFooter =
    R"(RUN is a folder. It gets config.json (all that was decided), metrics.jsonl and event files
for TensorBoard, checkpoints/step-N (models that every verb opens), and at the end model/.

Every flag is a key of the config file too, with _ for -; flags win. Ctrl-C ends the step, saves and
leaves; a second one leaves at once. --resume goes on from the last checkpoint as if nothing had
been, and begins where there is none.

Stages follow one another: --stages 512x256x200000,1536x256x12500 is 200,000 steps of 256 rows of
512 tokens, then 12,500 steps of rows of 1536.

Several processes, one a GPU, share each step:
  torchrun --no-python --nproc-per-node 8 roformer pretrain run/ --config pretrain.json

Examples:
  roformer pretrain run/ --corpus zhwiki.txt --vocab vocab.txt --dict dict.txt --model small
  roformer pretrain run/ --config pretrain.json --learning-rate 2e-4
  roformer pretrain run/ --resume)";

/// The config of the run, changed by what was typed.
RunConfig config_from(const PretrainOptions& options) {
  const fs::path kept = fs::path(options.folder) / "config.json";
  const bool there = holds_run(options.folder);
  if (there && !options.resume) {
    throw UsageError(
        fmt::format("{} holds a run already: go on with it (--resume), or choose another folder",
                    options.folder));
  }
  RunConfig config;
  if (!options.flags.file().empty()) {
    config = read_run_config(options.flags.file());
  } else if (options.resume && fs::exists(kept)) {
    config = read_run_config(kept);
  }
  options.flags.apply_to(keys_of(config));
  return config;
}

std::string resume_command(const PretrainOptions& options) {
  return fmt::format("roformer pretrain {} --resume", options.folder);
}

/// How to go on, behind the error itself.
std::string with_advice(const PretrainOptions& options, const std::string& error) {
  return error + what_is_left(options.folder, error, resume_command(options));
}

void report_end(const PretrainOptions& options, const TrainOutcome& outcome, Progress& progress) {
  switch (outcome.ending) {
    case Ending::kStopped:
      progress.say(fmt::format("stopped after step {}, saved in {}; to go on: {}", outcome.step,
                               outcome.checkpoint.string(), resume_command(options)));
      break;
    case Ending::kNoMoreData:
      progress.say(fmt::format("the corpus ended at step {}, saved in {}", outcome.step,
                               outcome.checkpoint.string()));
      break;
    case Ending::kDone:
      break;
  }
}

void run_pretrain(const PretrainOptions& options) {
  const RunConfig config = config_from(options);
  const bool speaks = read_rank_environment().rank == 0;
  const InterruptGuard interrupts;
  Progress progress;
  bool told = !speaks;
  RunEvents events;
  events.say = [&](const std::string& line) { progress.say(line); };
  events.on_tokens = [&](std::uint64_t documents, std::uint64_t tokens) {
    progress.show(fmt::format("tokenizing: {} documents, {} tokens",
                              rotary::cli::brief(static_cast<double>(documents)),
                              rotary::cli::brief(static_cast<double>(tokens))));
  };
  events.on_report = [&](const StepReport& report) { progress.show(report); };
  events.on_measures = [&](std::int64_t step, const Measures& measures) {
    std::string line = fmt::format("validation after step {}:", step);
    for (const auto& [name, value] : measures) line += fmt::format("  {} {:.4f}", name, value);
    progress.say(line);
  };
  events.stop = [&] {
    const bool stop = InterruptGuard::requested();
    if (stop && !told) progress.say("stopping: the step is finished and saved");
    told = told || stop;
    return stop;
  };
  try {
    const TrainOutcome outcome = pretrain(config, options.folder, events);
    if (speaks) report_end(options, outcome, progress);
  } catch (const NotFinite& error) {
    throw std::runtime_error(with_advice(options, error.what()));
  } catch (const IoError& error) {
    throw std::runtime_error(with_advice(options, error.what()));
  }
}

}  // namespace

void add_pretrain(CLI::App& app) {
  auto options = std::make_shared<PretrainOptions>();
  CLI::App* verb = app.add_subcommand("pretrain", "Train a model on texts, from the beginning");
  verb->footer(kPretrainFooter);
  verb->add_option("RUN", options->folder, "The folder of the run")->required()->type_name("");
  verb->add_flag("--resume", options->resume, "Go on from the last checkpoint");
  RunConfig keys;
  options->flags.add_to(*verb, keys_of(keys));
  verb->callback([options] { run_pretrain(*options); });
}

}  // namespace rotary::roformer::cli
