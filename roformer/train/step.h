// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A training step on the device. The host reads its statistics later, from a StatisticsCopy, so
// that it can launch the next step meanwhile.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/model.h"
#include "roformer/model/parameter_store.h"
#include "roformer/train/optimizer.h"
#include "roformer/train/ranks.h"
#include "roformer/train/trainer.h"
#include "rotary/transformer/optimizer.h"

namespace rotary::roformer {

/// The layer of a parameter in reports: "embeddings", "layer.0", "encoding", or "head" for the
/// output head, which is everything else.
std::string layer_of(const std::string& parameter);

/// Asynchronous copy of a TrainStep's statistics to the host.
class StatisticsCopy {
 public:
  /// Starts the copy. A CPU tensor is not copied but kept: the caller must not write to it again.
  StatisticsCopy(const at::Tensor& statistics, std::int64_t num_segments);

  /// Sums are over all ranks and the steps of an interval, see TrainStep::take_statistics(). Norms
  /// are those of the gradient of the mean loss, before clipping.
  struct Statistics {
    double loss_sum = 0.0;
    double num_labels = 0.0;
    /// How often a rank asked to stop the run, see TrainStep::update().
    double stop_requests = 0.0;
    /// Norm over all segments, of the last step.
    double gradient_norm = 0.0;
    /// The first step with a loss or gradient that is not finite; 0: none.
    std::int64_t nonfinite_step = 0;
    /// Norm of each segment of the store: of the last step, and of nonfinite_step (0: none).
    std::vector<double> norms{};
    std::vector<double> nonfinite_norms{};
  };
  /// Waits for the copy.
  Statistics read();

 private:
  at::Tensor host_;
  std::int64_t num_segments_;
  /// Recorded after the copy; none for a CPU tensor.
  std::optional<c10::Event> copied_;
};

/// Losses are summed over the batches and ranks of a step; the optimizer divides their gradient by
/// the number of labels. After a loss or gradient that is not finite, parameters change no more.
class TrainStep {
 public:
  /// The model's compute type must be the options'. Collective: every rank calls it, and all start
  /// from the parameters of rank 0.
  TrainStep(ModelImpl& model, const TrainOptions& options, RanksPtr ranks);
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// Before the batches of a step: freezes and thaws what the options say.
  void begin_step(std::int64_t step);
  /// Forward and backward pass. `num_labels`: how many the loss is the mean of; 0: no effect.
  void add_batch(const Inputs& inputs, std::int64_t num_labels);
  /// Ends the step: reduces gradients over ranks, clips and updates. `stop_requested`: this rank
  /// wants to stop the run; all ranks see it in Statistics::stop_requests. Collective: every rank
  /// calls it, with or without batches.
  void update(std::int64_t step, double learning_rate, bool stop_requested);
  /// begin_step(), add_batch() and update() of a step with one batch. On a GPU, one CUDA graph is
  /// captured, of the first sizes that three steps in succession have, and replayed for batches of
  /// these sizes, with the same numbers; other batches are launched kernel by kernel. A step of a
  /// small model then takes as long as the host takes to launch its hundreds of kernels, those of
  /// the backward pass in a thread that all models of a process share. Not with several ranks,
  /// frozen parameters, masks, packed sequences, labels without their indices (LogitsAt::kLabels),
  /// nor on the default stream.
  void run(std::int64_t step, const Inputs& inputs, std::int64_t num_labels, double learning_rate);
  /// Whether the last run() launched a graph.
  bool launched_graph() const noexcept { return launched_graph_; }
  /// Starts a copy of the statistics, and a new interval: its sums begin at 0.
  StatisticsCopy take_statistics();
  /// The statistics so far: waits for the device, and does not end the interval.
  StatisticsCopy::Statistics peek() const;
  /// The sums of the interval are those of an earlier peek().
  void restore_sums(double loss_sum, double num_labels);

  const ParameterStore& parameters() const noexcept { return *store_; }
  AdamW& optimizer() noexcept { return optimizer_; }
  /// After the optimizer's state was restored from a checkpoint.
  void restore_frozen_state() {
    if (thaw_at_ > 0) optimizer_.restore_late_steps(thaw_at_ - 1);
  }
  /// The first and second moments of all parameters, on the CPU of rank 0; undefined tensors on the
  /// other ranks. Collective: every rank calls it.
  std::pair<at::Tensor, at::Tensor> gather_moments();

 private:
  /// What the host decides in each step, for a graph: on the device, float64.
  struct StepNumbers {
    at::Tensor step{};           // [1]
    at::Tensor learning_rate{};  // [1]
    at::Tensor num_labels{};     // []
  };
  /// A recorded step, with its inputs.
  struct Recorded;
  /// Sizes of inputs of which a graph can be made; empty for others.
  std::vector<std::int64_t> graph_sizes(const Inputs& inputs) const;
  /// Makes recorded_; false, and never again, if a step cannot be recorded.
  bool record(const Inputs& inputs);
  /// Backward pass of the sum of losses, which counts for `num_labels`, a number or a tensor.
  template <typename Number>
  void accumulate(const at::Tensor& sum, const Number& num_labels);
  /// update() with the step's number and learning rate, or, where `numbers` is not null, with
  /// those.
  void finish(std::int64_t step, double learning_rate, const StepNumbers* numbers);

  /// The parameters of the options' `freeze` need no gradient, or all do.
  void set_frozen(bool on);
  /// Sums gradients and step_sums_ over ranks. Collective.
  void reduce();
  /// A new tensor, in the layout of StatisticsIndex (step.cc).
  at::Tensor statistics() const;
  /// All-gather of a tensor that is sharded as the optimizer's state is. Collective.
  at::Tensor gather(const at::Tensor& shard);

  ModelImpl& model_;
  RanksPtr ranks_;
  double clip_norm_;
  /// Each rank holds the optimizer's state of its shard of the store only, and updates that.
  bool sharded_;
  std::shared_ptr<ParameterStore> store_;
  AdamW optimizer_;
  /// [segments]; empty where nothing is ever frozen.
  std::vector<bool> freezable_;
  std::int64_t thaw_at_ = 0;
  bool frozen_ = false;
  transformer::SegmentNorms segment_norms_;
  /// False where a graph has been tried in vain.
  bool tries_graphs_ = true;
  bool launched_graph_ = false;
  /// Of the last run(), and how many in succession had the same.
  std::vector<std::int64_t> sizes_;
  std::int64_t num_same_sizes_ = 0;
  std::unique_ptr<Recorded> recorded_;

  /// [loss, number of labels, stop requests], float64: of the step that is being accumulated, and
  /// of the completed steps since take_statistics().
  at::Tensor step_sums_;
  at::Tensor interval_sums_;

  // The tensors of transformer::GradNormState. They are the same on all ranks.

  /// [segments]: gradient norm of each segment in the last step. First of the summed loss, then
  /// clip_and_check() divides it by the number of labels.
  at::Tensor norms_;
  /// [1]: norm over all segments, before clipping.
  at::Tensor norm_;
  /// [1]: gradients are divided by it: number of labels of all ranks, times the clipping factor
  /// max(1, norm_ / clip_norm_).
  at::Tensor grad_divisor_;
  /// [1]: 1 from the first step on whose loss or gradient is not finite. The optimizer then skips
  /// the update.
  at::Tensor nonfinite_;
  /// [1], float64, and [segments]: number and norms_ of that step; 0: none.
  at::Tensor nonfinite_step_;
  at::Tensor nonfinite_norms_;
};

}  // namespace rotary::roformer
