// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Training of a lab's models: a lean loop over TrainStep, whose batches are made on the device.
///
///   Model model = make_seeded_model(config, seed, run.device);
///   Trained trained = train_model(*model, plan_of(settings, run.device), make_batch, run);
///
/// The batch of a step depends on the step alone, and models have no dropout (its generator would
/// be shared by the threads of a lab): on a CPU, a run that is continued gives the same bits. On a
/// GPU, steps whose batches have the same sizes are CUDA graphs (TrainStep::run()).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/lab/lab.h"
#include "roformer/lab/settings.h"
#include "roformer/model/model.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer::lab {

/// A model with weights drawn from the seed, without dropout. From any thread.
Model make_seeded_model(Config config, std::uint64_t seed, at::Device device);
/// A saved model (checkpoint.h) with a changed config, on the device. From any thread.
Model load_lab_model(const std::filesystem::path& path, const ConfigChange& change,
                     at::Device device);
std::int64_t num_parameters(const ModelImpl& model);
/// bfloat16 on a GPU, float32 on a CPU.
at::ScalarType compute_type_of(at::Device device);

/// Between checkpoints: a unit that is killed loses less than this.
inline constexpr std::chrono::seconds kSaveInterval{60};

struct TrainingBatch {
  Inputs inputs{};
  /// How many labels the loss is the mean of.
  std::int64_t num_labels = 0;
};
/// The batch of a step, from 1 on, on the device.
using MakeBatch = std::function<TrainingBatch(std::int64_t step)>;

struct TrainPlan {
  /// steps, learning_rate, schedule, adamw, encoding_rate and compute_type are used.
  TrainOptions options{};
  /// Points of the loss curve.
  std::int64_t curve_points = 50;
  /// Where checkpoints go, under the unit's folder; of an interrupted run.
  std::string name = "model";
  /// CUDA graphs, on a GPU.
  bool graphs = true;
  /// The part of the unit's progress that this training is: [first, last].
  std::pair<double, double> progress = {0.0, 1.0};
};
/// From the settings steps, learning_rate, warmup_steps, weight_decay and beta2; the rate falls
/// along a cosine to a tenth.
TrainPlan plan_of(const Settings& settings, at::Device device);
/// Throws std::invalid_argument that names the key, unless these are the settings of plan_of() and
/// no others; `name` is that of the object.
void check_training(const internal::Json& training, const std::string& name);
/// The default of the setting `model`: 6 layers of 512 (19 M parameters without the vocabulary), or
/// 2 of 64.
internal::Json default_model(bool quick);
/// The same with the standard deviation of the initial weights: BERT's 0.02, or for the narrow one
/// 1 / sqrt(width), with which heads that look a token up form far sooner. From such weights layers
/// of 512 learn worse, or nothing, at these learning rates (docs/lab.md).
internal::Json text_model(bool quick);
/// An entry of a list of encodings: {"name": .., "position_encoding": .., "seeds": ..}, and an
/// `encoding_rate` for numbers that are added to scores (T5, KERPLE, a bias by distance) and for
/// relative vectors.
internal::Json encoding_entry(std::string name, std::string_view encoding, std::int64_t seeds);
/// The defaults of these settings.
internal::Json training_defaults(std::int64_t steps, double learning_rate);

struct Trained {
  /// Step, and the mean loss since the point before.
  std::vector<std::pair<std::int64_t, double>> curve{};
  /// Of the run until here, without checkpoints; interrupted ones measure their last part.
  double tokens_per_second = 0.0;
};

/// Trains to the last step, continuing from a checkpoint of the unit's folder. The model is left in
/// evaluation mode. Throws Stopped after writing a checkpoint, NotFinite.
Trained train_model(ModelImpl& model, const TrainPlan& plan, const MakeBatch& make_batch,
                    const UnitRun& run);

/// Rows "training_loss" by step.
void add_curve(const Trained& trained, const UnitRun& run, std::vector<Row>& rows);

}  // namespace rotary::roformer::lab
