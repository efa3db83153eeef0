// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer pretrain: trains a model on texts.
#include "roformer/tasks/pretrain.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "explain/format.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/config_flags.h"
#include "roformer/cli/progress.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/interrupt.h"
#include "roformer/train/ranks.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;

struct PretrainOptions {
  std::string folder;
  ConfigFlags flags;
  bool resume = false;
};

constexpr const char* kPretrainFooter =
    R"(RUN is a folder. It gets config.json (the full config), metrics.jsonl and event files for
TensorBoard, checkpoints/step-N (models that every verb can open), and at the end model/.

Every flag is also a key of the config file, with _ for -; flags take precedence. Ctrl-C finishes
the step, saves and exits; a second one exits at once. --resume continues from the last checkpoint
as if there had been no interruption, or starts if there is none. Flags that would make it another
run are refused; with --schedule constant, more steps are accepted.

Stages follow one another: --stages 512x256x200000,1536x256x12500 is 200,000 steps of 256 rows of
512 tokens, then 12,500 steps of rows of 1536.

Data parallel, one process per GPU:
  torchrun --no-python --nproc-per-node 8 roformer pretrain run/ --config pretrain.json

Examples:
  roformer pretrain run/ --corpus zhwiki.txt --vocab vocab.txt --dict dict.txt --model small
  roformer pretrain run/ --config pretrain.json --learning-rate 2e-4
  roformer pretrain run/ --resume)";

/// The config of the run, overridden by flags.
RunConfig config_from(const PretrainOptions& options) {
  const fs::path kept = fs::path(options.folder) / "config.json";
  const bool there = holds_run(options.folder);
  if (there && !options.resume) {
    throw UsageError(fmt::format(
        "{} holds a run already: resume it (--resume), or choose another folder", options.folder));
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

/// How to resume, appended to the error.
std::string with_advice(const PretrainOptions& options, const std::string& error) {
  return error + what_is_left(options.folder, error, resume_command(options));
}

void report_end(const PretrainOptions& options, const TrainOutcome& outcome, Progress& progress) {
  switch (outcome.ending) {
    case Ending::kStopped:
      progress.say(fmt::format("stopped after step {}, saved in {}; to resume: {}", outcome.step,
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
  bool announced = !speaks;
  RunEvents events;
  events.say = [&](const std::string& line) { progress.say(line); };
  events.on_tokens = [&](std::uint64_t documents, std::uint64_t tokens) {
    progress.show(fmt::format("tokenizing: {} documents, {} tokens",
                              explain::format_si(static_cast<double>(documents)),
                              explain::format_si(static_cast<double>(tokens))));
  };
  events.on_report = [&](const StepReport& report) { progress.show(report); };
  events.on_metrics = [&](std::int64_t step, const Metrics& metrics) {
    std::string line = fmt::format("validation after step {}:", step);
    for (const auto& [name, value] : metrics) line += fmt::format("  {} {:.4f}", name, value);
    progress.say(line);
  };
  events.stop = [&] {
    const bool stop = InterruptGuard::requested();
    if (stop && !announced) progress.say("stopping: the step is finished and saved");
    announced = announced || stop;
    return stop;
  };
  try {
    const TrainOutcome outcome = pretrain(config, options.folder, events);
    if (speaks) report_end(options, outcome, progress);
  } catch (const OtherRun& error) {
    throw UsageError(error.what());
  } catch (const NotFinite& error) {
    throw std::runtime_error(with_advice(options, error.what()));
  } catch (const IoError& error) {
    throw std::runtime_error(with_advice(options, error.what()));
  }
}

}  // namespace

void add_pretrain(CLI::App& app) {
  auto options = std::make_shared<PretrainOptions>();
  CLI::App* verb = app.add_subcommand("pretrain", "Train a model on texts, from scratch");
  verb->footer(kPretrainFooter);
  verb->add_option("RUN", options->folder, "The folder of the run")->required()->type_name("");
  verb->add_flag("--resume", options->resume, "Continue from the last checkpoint");
  RunConfig keys;
  options->flags.add_to(*verb, keys_of(keys));
  verb->callback([options] { run_pretrain(*options); });
}

}  // namespace rotary::roformer::cli
