// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Training loop, for pretraining and fine-tuning.
///
///   namespace rf = rotary::roformer;
///   rf::Model model = rf::load_model("base", rf::Task::kSequenceClassification).model;
///   rf::ExampleBatches batches(examples, tokenizer, {.rows = 32, .epochs = 0});
///
///   rf::Trainer trainer(model, {.steps = 1000, .learning_rate = 2e-5, .folder = "run"});
///   trainer.on_evaluation([&] { return rf::Metrics{{"accuracy", accuracy_of(*model)}}; }, 200);
///   trainer.resume();                            // from the folder's last checkpoint, if any
///   rf::TrainOutcome end = trainer.run(rf::source_of(batches));
///   rf::save_model("tuned", *model);
///
/// A step: forward and backward passes of `accumulate` batches, gradients summed over ranks,
/// clipping, AdamW. The loss is the mean over all labels of the step, on all ranks. Dropout
/// generators are seeded for every step, so that a run resumed from a checkpoint continues bit for
/// bit (on CUDA: as far as TrainOptions::deterministic promises).
///
/// The host does not synchronise with the device: it reads losses and norms one step late.
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

/// Named metrics, for the log: {"accuracy", 0.93}.
using Metrics = std::map<std::string, double>;

/// A source of batches. The sources of all ranks end at the same call.
struct BatchSource {
  /// Replaces the batch; false at the end. A batch may be empty for one rank. Called by a prefetch
  /// thread; run() rethrows its exceptions.
  std::function<bool(Batch&)> next{};
  /// Continues at a state from a batch's `next`. Called before the first next() of a resumed run.
  std::function<void(const StreamState&)> restore{};
};

/// For a BatchStream, an ExampleBatches, or anything with their next() and restore(). Keeps a
/// reference.
template <typename Stream>
BatchSource source_of(Stream& stream) {
  return {.next = [&stream](Batch& batch) { return stream.next(batch); },
          .restore = [&stream](const StreamState& state) { stream.restore(state); }};
}

/// A batch as inputs of a model for this task, on the device: ids, types, the mask (if a row has
/// padding) or cu_seqlens, and labels: those of tokens for language models and
/// kTokenClassification, else `targets` or `numbers`. Copied asynchronously through pinned memory.
Inputs to_inputs(const Batch& batch, Task task, at::Device device);
/// Number of labels in a batch, of which its loss is the mean.
std::int64_t count_labels(const Batch& batch, Task task);

struct TrainOptions {
  /// Of the whole run, and of the schedule.
  std::int64_t steps = 1000;
  double learning_rate = 1e-4;
  ScheduleOptions schedule{};
  AdamWOptions adamw{};
  /// Gradients are clipped to this norm over all parameters; 0: no clipping.
  double clip_norm = 1.0;
  /// Gradient accumulation: batches per step and rank.
  std::int64_t accumulate = 1;
  /// kFloat, or kBFloat16: mixed precision with float32 parameters and gradients.
  at::ScalarType compute_type = at::kFloat;
  /// Activation checkpointing: layers are recomputed in the backward pass. Less memory, more time.
  bool checkpointing = false;
  /// ModelImpl::set_deterministic().
  bool deterministic = true;
  /// Of dropout.
  std::uint64_t seed = 0;
  /// Parameters that are not trained before step `thaw_at` (0: never), by layer or name: see
  /// freeze.h. They and their optimizer state keep their bits until then.
  std::vector<std::string> freeze{};
  std::int64_t thaw_at = 0;
  /// Factor of the learning rate of the position encoding's own parameters (T5's biases, a table,
  /// learned frequencies). Biases on scores must move by whole units, weights by hundredths.
  double encoding_rate = 1.0;
  /// Each rank keeps the optimizer state of its shard of the parameters (ZeRO stage 1).
  bool shard_optimizer = false;

  /// Steps between reports; 0: none.
  std::int64_t report_every = 10;
  /// Steps between reports of the gradient of every layer; 0: none.
  std::int64_t gradients_every = 0;

  /// Folder of checkpoints and metrics; empty: none are written.
  std::filesystem::path folder{};
  /// Steps between checkpoints; 0: only at the end.
  std::int64_t save_every = 0;
  /// Number of checkpoints kept; older ones are removed.
  std::int64_t keep = 2;
};

/// Progress of a run, over all ranks.
struct StepReport {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  /// Mean over the labels since the last report.
  double loss = 0.0;
  /// Of the last step, before clipping.
  double gradient_norm = 0.0;
  double learning_rate = 0.0;
  /// Since the last report, padding included.
  double tokens_per_second = 0.0;
  /// Of the whole run, including those before it was resumed.
  std::int64_t tokens = 0;
  double seconds_left = 0.0;
  /// Peak memory (memory.h).
  std::int64_t memory_bytes = 0;
  /// Gradient norm of each layer ("embeddings", "layer.0", ...), every `gradients_every` steps.
  std::vector<std::pair<std::string, double>> layers{};
};

enum class Ending : std::uint8_t {
  kDone,        // all steps
  kNoMoreData,  // the source ended
  kStopped,     // by on_stop(); a checkpoint was written
};
struct TrainOutcome {
  Ending ending = Ending::kDone;
  std::int64_t step = 0;
  /// The last checkpoint; empty without a folder.
  std::filesystem::path checkpoint{};
};

/// A loss or gradient is not finite. The text names the step, the layers and the last checkpoint;
/// parameters are those of the step before.
class NotFinite : public std::runtime_error {
 public:
  NotFinite(std::int64_t step, const std::string& text) : std::runtime_error(text), step_(step) {}
  std::int64_t step() const noexcept { return step_; }

 private:
  std::int64_t step_;
};

/// Used by one thread. The model must be on its device; its parameters move into a parameter store.
/// It is left in training mode.
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
  /// gradients; the result is logged. The model is in training mode again afterwards.
  void on_evaluation(std::function<Metrics()> call, std::int64_t every);
  /// Called after each step, on all ranks: true from any of them ends the run with a checkpoint.
  void on_stop(std::function<bool()> call);
  /// Called on rank 0 with the temporary folder of each checkpoint, to add files (a vocabulary).
  void on_save(std::function<void(const std::filesystem::path&)> call);

  /// Restores parameters, optimizer and data position from the folder's last complete checkpoint;
  /// false if there is none. Throws IoError for one that is damaged or of another model.
  bool resume();

  /// Trains up to step `until` (0: options.steps). May be called again with another source, for a
  /// stage of another length: the data continues at the same position. Throws NotFinite, and
  /// IoError if a checkpoint cannot be written; the last one is then still complete.
  TrainOutcome run(const BatchSource& source, std::int64_t until = 0);
  /// Changes TrainOptions::accumulate; throws std::invalid_argument if it is not positive.
  void set_accumulate(std::int64_t batches);

  /// Steps done.
  std::int64_t step() const noexcept;
  /// Data position of the next step; none before the first.
  const std::optional<StreamState>& data_state() const noexcept;
  ModelImpl& model() noexcept;
  /// Writes a checkpoint now. Returns its folder.
  std::filesystem::path save();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rotary::roformer
