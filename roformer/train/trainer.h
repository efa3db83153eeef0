// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Training: batches in, a better model out. The same engine pretrains and fine-tunes.
///
///   namespace rf = rotary::roformer;
///   rf::Model model = rf::load_model("base", rf::Task::kSequenceClassification).model;
///   rf::ExampleBatches batches(examples, tokenizer, {.rows = 32, .epochs = 0});
///
///   rf::Trainer trainer(model, {.steps = 1000, .learning_rate = 2e-5, .folder = "run"});
///   trainer.on_evaluation([&] { return rf::Measures{{"accuracy", accuracy_of(*model)}}; }, 200);
///   trainer.resume();                            // from the folder's last checkpoint, if any
///   rf::TrainOutcome end = trainer.run(rf::source_of(batches));
///   rf::save_model("tuned", *model);
///
/// A step: `accumulate` batches forward and backward, the gradients of all ranks added, clipped and
/// given to AdamW. The loss is the mean over all labels of the step, wherever they were computed.
/// Dropout draws from generators that are seeded anew for every step, so that a run resumed from a
/// checkpoint continues bit for bit (on CUDA: as far as kernels there add in one order).
///
/// The host does not wait for a device: losses and norms are read while a later step runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/model/model.h"
#include "roformer/train/optimizer.h"
#include "roformer/train/schedule.h"

namespace rotary::roformer {

class Ranks;

/// Named figures, for the log: {"accuracy", 0.93}.
using Measures = std::map<std::string, double>;

/// Where batches come from. All ranks' sources end at the same call.
struct BatchSource {
  /// Replaces the batch; false at the end. A batch may be empty for one rank. Called from a thread
  /// of its own, ahead of the steps; what it throws is thrown by run().
  std::function<bool(Batch&)> next{};
  /// To a state that stood in a batch's `next`. Called before the first next() of a resumed run.
  std::function<void(const StreamState&)> restore{};
};

/// A BatchStream, an ExampleBatches, or anything with their next() and restore(). It is referred
/// to, not copied.
template <typename Stream>
BatchSource source_of(Stream& stream) {
  return {.next = [&stream](Batch& batch) { return stream.next(batch); },
          .restore = [&stream](const StreamState& state) { stream.restore(state); }};
}

/// What a batch is to a model of this task, on the device: ids, types, the mask (where a row has
/// padding) or cu_seqlens, and labels: those of tokens for language models and
/// kTokenClassification, else `targets`. Through pinned memory, without a wait.
Inputs to_inputs(const Batch& batch, Task task, at::Device device);
/// Labels in a batch: what its loss is the mean of.
std::int64_t count_labels(const Batch& batch, Task task);

struct TrainOptions {
  /// Of the whole run. The schedule counts to here.
  std::int64_t steps = 1000;
  double learning_rate = 1e-4;
  ScheduleOptions schedule{};
  AdamWOptions adamw{};
  /// Largest norm of the gradient of all parameters; 0: any.
  double clip_norm = 1.0;
  /// Batches a step, of each rank.
  std::int64_t accumulate = 1;
  /// kFloat, or kBFloat16: products in bfloat16, parameters and gradients in float.
  at::ScalarType compute_type = at::kFloat;
  /// Activations of layers are computed again in the backward pass: less memory, more time.
  bool checkpointing = false;
  /// Of dropout.
  std::uint64_t seed = 0;
  /// Each rank keeps the optimizer's state of its part of the parameters.
  bool shard_optimizer = false;

  /// Steps between reports; 0: none.
  std::int64_t report_every = 10;
  /// Steps between reports of the gradient of every layer; 0: none.
  std::int64_t gradients_every = 0;

  /// Where checkpoints and metrics go; empty: nowhere.
  std::filesystem::path folder{};
  /// Steps between checkpoints; 0: at the end alone.
  std::int64_t save_every = 0;
  /// Checkpoints that stay; older ones are removed.
  std::int64_t keep = 2;
};

/// What a report says. Figures are of all ranks.
struct StepReport {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  /// The mean over the labels since the report before.
  double loss = 0.0;
  /// Of the last step, before clipping.
  double gradient_norm = 0.0;
  double learning_rate = 0.0;
  /// Since the report before; padding is counted.
  double tokens_per_second = 0.0;
  /// Of the run, those of earlier processes too.
  std::int64_t tokens = 0;
  double seconds_left = 0.0;
  /// The most that was held: of the device, or of the process where that is the CPU.
  std::int64_t memory_bytes = 0;
  /// Norm of the gradient of each layer ("embeddings", "layer.0", ...); where it was asked for.
  std::vector<std::pair<std::string, double>> layers{};
};

enum class Ending : std::uint8_t {
  kDone,        // all steps
  kNoMoreData,  // the source ended
  kStopped,     // on_stop() said so; a checkpoint was written
};
struct TrainOutcome {
  Ending ending = Ending::kDone;
  std::int64_t step = 0;
  /// The last checkpoint; empty without a folder.
  std::filesystem::path checkpoint{};
};

/// A loss or gradient that is no number. The text names the step, the layers and the last
/// checkpoint; parameters are those of the step before.
class NotFinite : public std::runtime_error {
 public:
  NotFinite(std::int64_t step, const std::string& text) : std::runtime_error(text), step_(step) {}
  std::int64_t step() const noexcept { return step_; }

 private:
  std::int64_t step_;
};

/// Used by one thread. The model must be on its device; its parameters are laid end to end in one
/// piece of memory. It is left in training mode.
class Trainer {
 public:
  /// `ranks`: null for one process. Throws std::invalid_argument for options out of range.
  Trainer(Model model, const TrainOptions& options, std::shared_ptr<Ranks> ranks = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Called with each report, on rank 0.
  void on_report(std::function<void(const StepReport&)> call);
  /// Called every `every` steps and after the last, on all ranks, in inference mode and without
  /// gradients; what it returns goes to the log. The model goes back to training afterwards.
  void on_evaluation(std::function<Measures()> call, std::int64_t every);
  /// Asked after each step, on all ranks: true where one says so ends the run with a checkpoint.
  void on_stop(std::function<bool()> call);
  /// Called on rank 0 with the folder of each checkpoint before it gets its name: what is written
  /// there is a part of it (a vocabulary).
  void on_save(std::function<void(const std::filesystem::path&)> call);

  /// Parameters, optimizer and position of the data of the folder's last complete checkpoint; false
  /// where there is none. Throws IoError for one that is damaged or of another model.
  bool resume();

  /// Steps until `until` (0: options.steps) are done. May be called again with another source, as
  /// stages of other lengths do: the data goes on where it was.
  /// Throws NotFinite, and IoError where a checkpoint cannot be written: the one before is whole.
  TrainOutcome run(const BatchSource& source, std::int64_t until = 0);
  /// Batches a step from now on; throws std::invalid_argument if it is not positive.
  void set_accumulate(std::int64_t batches);

  /// Steps done.
  std::int64_t step() const noexcept;
  /// Where the data goes on; none before the first step.
  const std::optional<StreamState>& data_state() const noexcept;
  ModelImpl& model() noexcept;
  /// A checkpoint of now. Returns its folder.
  std::filesystem::path save();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rotary::roformer
