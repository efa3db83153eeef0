// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Checkpoints of a run: models that transformers can load, with the state needed to resume.
//
//   run/checkpoints/step-00001000/config.json, model.safetensors    the model
//                                 optimizer.safetensors             first.NAME, second.NAME, steps
//                                 trainer.json                      step, tokens, position in the
//                                                                   data, checksums of the files
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
#include "roformer/model/parameter_store.h"

namespace rotary::roformer {

struct TrainState {
  std::int64_t step = 0;
  /// Tokens and seconds of the run so far.
  std::int64_t tokens = 0;
  double seconds = 0.0;
  std::optional<StreamState> data{};
};

/// Moments of AdamW, in the layout of the parameter store, and their number of steps.
struct Moments {
  at::Tensor first;
  at::Tensor second;
  at::Tensor steps;
};

/// In the order of their steps, complete ones only.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);
/// Empty if there is none.
std::filesystem::path last_checkpoint(const std::filesystem::path& run);

/// Advice to append to an error: "; run/checkpoints/step-00000004 is complete: " and `how` to
/// resume from there; or, if the error is in that checkpoint, that it must be removed first. Empty
/// if there is no checkpoint.
std::string what_is_left(const std::filesystem::path& run, const std::string& error,
                         const std::string& how);

struct CheckpointWriter {
  std::filesystem::path run;
  /// Number of checkpoints that are kept.
  std::int64_t keep = 2;
  /// Adds files to the folder.
  std::function<void(const std::filesystem::path&)> add_files{};

  /// Returns the folder. Throws IoError; earlier checkpoints are then still complete.
  std::filesystem::path write(const ModelImpl& model, const ParameterStore& parameters,
                              const Moments& moments, const TrainState& state) const;
};

/// The state alone. Throws IoError if it or another file of the checkpoint is damaged.
TrainState read_train_state(const std::filesystem::path& checkpoint);
/// Reads into the model and the moments, which must have the size of the store. Throws IoError for
/// a damaged checkpoint, std::invalid_argument for one of another model.
TrainState read_checkpoint(const std::filesystem::path& checkpoint, ModelImpl& model,
                           const ParameterStore& parameters, const Moments& moments);

}  // namespace rotary::roformer
