// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The checkpoints of a run: models as transformers reads them, with what it takes to go on.
//
//   run/checkpoints/step-00001000/config.json, model.safetensors    the model
//                                 optimizer.safetensors             first.NAME, second.NAME, steps
//                                 trainer.json                      step, tokens, place in the data
//
// A folder has such a name only when it is complete and on the disk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/model/model.h"
#include "roformer/train/optimizer.h"

namespace rotary::roformer {

struct TrainState {
  std::int64_t step = 0;
  /// Tokens and seconds of the run so far.
  std::int64_t tokens = 0;
  double seconds = 0.0;
  std::optional<StreamState> data{};
};

/// Averages that AdamW keeps, laid end to end as the parameters are, and their steps.
struct Moments {
  at::Tensor first;
  at::Tensor second;
  at::Tensor steps;
};

/// In the order of their steps. What a killed process left unfinished is not among them.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);
/// Empty where there is none.
std::filesystem::path last_checkpoint(const std::filesystem::path& run);

/// What an error leaves, to be said behind it: "; run/checkpoints/step-00000004 is whole: " and
/// `how` to go on from there. Where the error is in that checkpoint, that it must be removed first.
/// Empty where there is none.
std::string what_is_left(const std::filesystem::path& run, const std::string& error,
                         const std::string& how);

struct CheckpointWriter {
  std::filesystem::path run;
  /// How many stay.
  std::int64_t keep = 2;
  /// Adds files to the folder.
  std::function<void(const std::filesystem::path&)> add_files{};

  /// Returns the folder. Throws IoError; those that were there before are then whole.
  std::filesystem::path write(const ModelImpl& model, const FlatParameters& parameters,
                              const Moments& moments, const TrainState& state) const;
};

/// Into the model and the moments (which must be of the size of the parameters). Throws IoError for
/// a checkpoint that is damaged or of another model.
TrainState read_checkpoint(const std::filesystem::path& checkpoint, ModelImpl& model,
                           const FlatParameters& parameters, const Moments& moments);

}  // namespace rotary::roformer
