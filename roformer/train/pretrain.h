// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A pretraining run: from texts to a model in a folder.
///
///   run/config.json            what it was told to do
///   run/corpus.tokens          the tokenised corpus, unless it has another place
///   run/metrics.jsonl, run/events.out.tfevents.*
///   run/checkpoints/step-N/    models with what it takes to go on
///   run/model/                 the model at the end, with its vocabulary
///
///   namespace rf = rotary::roformer;
///   rf::RunConfig config = rf::read_run_config("pretrain.json");
///   rf::pretrain(config, "run", {.say = [](const std::string& line) { ... }});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "roformer/train/run_config.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {

/// All are called on rank 0 alone, but `stop`.
struct RunEvents {
  /// A line for people.
  std::function<void(const std::string& line)> say{};
  /// While a corpus is tokenised.
  std::function<void(std::uint64_t documents, std::uint64_t tokens)> on_tokens{};
  std::function<void(const StepReport&)> on_report{};
  std::function<void(std::int64_t step, const Measures&)> on_measures{};
  std::function<bool()> stop{};
};

/// Whether a folder holds a run that may be resumed.
bool holds_run(const std::filesystem::path& folder);

/// Begins, or goes on from the folder's last checkpoint where there is one. Ranks are those of the
/// environment. Throws IoError, std::invalid_argument, NotFinite.
TrainOutcome pretrain(const RunConfig& config, const std::filesystem::path& folder,
                      const RunEvents& events = {});

}  // namespace rotary::roformer
