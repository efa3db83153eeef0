// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A pretraining run: from texts to a model in a folder.
///
///   run/config.json            the config
///   run/corpus.tokens          the tokenised corpus, unless `cache` names another file
///   run/metrics.jsonl, run/events.out.tfevents.*
///   run/checkpoints/step-N/    models with the state needed to resume
///   run/model/                 the model at the end, with its vocabulary
///
///   namespace rf = rotary::roformer;
///   rf::RunConfig config = rf::read_run_config("pretrain.json");
///   rf::pretrain(config, "run", {.say = [](const std::string& line) { ... }});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "roformer/train/run_config.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {

/// Called on rank 0 only, except `stop`.
struct RunEvents {
  /// A line of text for the user.
  std::function<void(const std::string& line)> say{};
  /// While a corpus is tokenised.
  std::function<void(std::uint64_t documents, std::uint64_t tokens)> on_tokens{};
  std::function<void(const StepReport&)> on_report{};
  std::function<void(std::int64_t step, const Metrics&)> on_metrics{};
  std::function<bool()> stop{};
};

/// The config of a folder's run and the one given would not make the same run.
class OtherRun : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Whether a folder holds a run that may be resumed.
bool holds_run(const std::filesystem::path& folder);

/// Starts a run, or resumes it from the folder's last checkpoint. Ranks are those of the
/// environment. Nothing of the folder changes before the config, the checkpoint and the data are
/// checked. Throws IoError, std::invalid_argument, OtherRun, NotFinite.
TrainOutcome pretrain(const RunConfig& config, const std::filesystem::path& folder,
                      const RunEvents& events = {});

}  // namespace rotary::roformer
