// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What happens on the device in a step. The host learns of it through a Packet, later.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/mixed.h"
#include "roformer/model/model.h"
#include "roformer/train/optimizer.h"
#include "roformer/train/ranks.h"
#include "roformer/train/trainer.h"
#include "rotary/torch_optimizer.h"

namespace rotary::roformer {

/// "embeddings", "layer.0", "head".
std::string layer_of(const std::string& parameter);

/// Figures on their way from the device.
class Packet {
 public:
  Packet(const at::Tensor& figures, std::int64_t num_norms);

  struct Figures {
    double loss_sum = 0.0;
    double labels = 0.0;
    double votes = 0.0;
    double gradient_norm = 0.0;
    /// 0: all steps so far were finite.
    std::int64_t first_bad_step = 0;
    /// One for each parameter: of the last step, and of the first bad one.
    std::vector<double> norms{};
    std::vector<double> bad_norms{};
  };
  /// Waits until they are here.
  Figures read();

 private:
  at::Tensor host_;
  std::int64_t num_norms_;
  std::optional<c10::Event> arrived_;
};

/// Losses are added, not averaged, over the batches and ranks of a step; the sum of labels divides
/// the gradient when it is used. Once a loss or gradient was not finite, nothing changes any more.
class StepEngine {
 public:
  /// The model's compute type must be the options'.
  StepEngine(ModelImpl& model, const TrainOptions& options, RanksPtr ranks);
  ~StepEngine();
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  /// `labels`: how many the loss is the mean of. Nothing happens where there are none.
  void add_batch(const Inputs& inputs, std::int64_t labels);
  /// `vote`: this rank wishes to stop.
  void update(std::int64_t step, double learning_rate, bool vote);
  /// Of the losses since the packet before, and of the last step.
  Packet make_packet();
  /// The same at once: waits for the device, and starts no new sums.
  Packet::Figures peek() const;

  const FlatParameters& parameters() const noexcept { return parameters_; }
  AdamW& optimizer() noexcept { return optimizer_; }
  /// The moments of all parameters, on the CPU, on rank 0; undefined elsewhere.
  std::pair<at::Tensor, at::Tensor> gather_moments();

 private:
  class Gathering;
  /// Adds to the gradients of the step.
  void add_gradients(const at::Tensor& loss);
  void finish_gradients();
  void reduce();
  at::Tensor figures() const;
  at::Tensor gather(const at::Tensor& part);

  ModelImpl& model_;
  RanksPtr ranks_;
  double clip_norm_;
  bool sharded_;
  FlatParameters parameters_;
  AdamW optimizer_;
  torch::PartNorms part_norms_;
  /// For each parameter: nothing was added to its gradient in this step; what is there is old.
  std::vector<char> fresh_;
  std::shared_ptr<NarrowWeights> kept_;
  /// [loss, labels, votes], of the step and since the last packet; float64.
  at::Tensor step_sums_;
  at::Tensor sums_;
  /// [parameters]
  at::Tensor norms_;
  at::Tensor bad_norms_;
  /// [1]: norm of the gradient; what that is divided by; 1 once a step was not finite; which step
  /// that was.
  at::Tensor norm_;
  at::Tensor divisor_;
  at::Tensor bad_;
  at::Tensor bad_step_;
};

}  // namespace rotary::roformer
