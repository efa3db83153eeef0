// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/image_training.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "roformer/checkpoint/tensor_files.h"
#include "roformer/train/device_graph.h"
#include "roformer/train/optimizer.h"
#include "roformer/train/schedule.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {
namespace {

using VitClock = std::chrono::steady_clock;

/// One training: parameters, moments and curve, which a checkpoint holds, and what it needs.
class VitTraining {
 public:
  VitTraining(VitImpl& model, const ImageData& data, const VitPlan& plan, const UnitRun& run)
      : model_(model),
        plan_(plan),
        run_(run),
        steps_(plan.plan.options.steps),
        batches_(data, plan.batches, steps_),
        store_(model),
        optimizer_(store_, plan.plan.options.adamw, 0, store_.size()),
        never_(at::zeros({1}, store_.values().options())),
        sum_(at::zeros({}, store_.values().options().dtype(at::kDouble))) {
    model_.train();
  }

  void resume() {
    const std::filesystem::path path = checkpoint();
    if (!std::filesystem::exists(path)) return;
    const at::NoGradGuard no_grad;
    const TensorMap tensors = read_tensors(path);
    for (const auto& [name, to] : state()) {
      const auto found = tensors.find(name);
      if (found == tensors.end() || found->second.sizes() != to.sizes()) {
        throw IoError(path.string(), IoError::kNoOffset, name + " is not that of this model");
      }
      to.copy_(found->second);
    }
    store_.mark_written();
    const at::Tensor curve = tensors.at("curve").to(at::kDouble);
    for (std::int64_t i = 0; i < curve.size(0); ++i) {
      curve_.emplace_back(curve[i][0].item<std::int64_t>(), curve[i][1].item<double>());
    }
    step_ = tensors.at("step").item<std::int64_t>();
  }

  Trained run() {
    const std::int64_t every = std::max<std::int64_t>(1, steps_ / plan_.plan.curve_points);
    const std::int64_t first = step_;
    const auto began = VitClock::now();
    auto saved = began;
    while (step_ < steps_) {
      run_step();
      if (step_ % every == 0 || step_ == steps_) {
        add_point(step_ % every == 0 ? every : step_ % every);
      }
      const bool stop = run_.stop && run_.stop();
      if (step_ == steps_) break;
      if (!stop && VitClock::now() - saved < kSaveInterval) continue;
      save();
      if (stop) throw Stopped();
      saved = VitClock::now();
    }
    const double seconds = std::chrono::duration<double>(VitClock::now() - began).count();
    const auto images = static_cast<double>((steps_ - first) * plan_.batches.rows);
    return {.curve = std::move(curve_), .tokens_per_second = images / std::max(seconds, 1e-9)};
  }

 private:
  std::filesystem::path checkpoint() const {
    return run_.folder / (plan_.plan.name + ".safetensors");
  }

  TensorMap state() const {
    return {{"values", store_.values()},
            {"first", optimizer_.first_moment()},
            {"second", optimizer_.second_moment()},
            {"steps", optimizer_.steps()},
            {"sum", sum_}};
  }

  void save() const {
    const at::NoGradGuard no_grad;
    TensorMap tensors;
    for (const auto& [name, tensor] : state()) tensors.emplace(name, tensor.detach().cpu());
    at::Tensor curve = at::empty({static_cast<std::int64_t>(curve_.size()), 2}, at::kDouble);
    for (std::size_t i = 0; i < curve_.size(); ++i) {
      const at::Tensor point = curve[static_cast<std::int64_t>(i)];
      point[0].fill_(static_cast<double>(curve_[i].first));
      point[1].fill_(curve_[i].second);
    }
    tensors.emplace("curve", curve);
    tensors.emplace("step", at::full({1}, step_, at::kLong));
    std::filesystem::create_directories(run_.folder);
    write_tensors(checkpoint(), tensors);
  }

  void run_step() {
    const TrainOptions& options = plan_.plan.options;
    const std::int64_t step = step_ + 1;
    const ImageBatches::Batch batch = batches_.at(step);
    const double rate = options.learning_rate * schedule_share(options.schedule, step, steps_);
    if (has_graph(batch)) {
      const at::NoGradGuard no_grad;
      batch_.pixels.copy_(batch.pixels);
      batch_.labels.copy_(batch.labels);
      rate_.fill_(rate);
      graph_.launch();
      store_.mark_written();
    } else {
      compute(batch, rate, {});
    }
    step_ = step;
  }

  /// Whether a step is a CUDA graph (device_graph.h): from the third one of this process on.
  bool has_graph(const ImageBatches::Batch& batch) {
    constexpr std::int64_t kStepsBefore = 2;
    if (!tries_graph_ || !plan_.plan.graphs || !run_.graphs ||
        !DeviceGraph::is_possible(batch.pixels.device()) || num_steps_++ < kStepsBefore) {
      return false;
    }
    if (rate_.defined()) return true;
    batch_ = {.pixels = at::empty_like(batch.pixels), .labels = at::empty_like(batch.labels)};
    rate_ = at::zeros({1}, sum_.options());
    tries_graph_ = graph_.try_record(batch_.pixels.device(), "a training step",
                                     [this] { compute(batch_, 1.0, rate_); });
    if (!tries_graph_) {
      const at::NoGradGuard no_grad;
      store_.finish_gradients();
    }
    return tries_graph_;
  }

  /// A step; `factor` of the learning rate: transformer::AdamWOptions::rate.
  void compute(const ImageBatches::Batch& batch, double rate, const at::Tensor& factor) {
    const at::ScalarType type = plan_.plan.options.compute_type;
    const at::Tensor logits = model_.forward(normalized(batch.pixels, type));
    const at::Tensor loss = at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean,
                                                   /*ignore_index=*/-100, plan_.label_smoothing);
    store_.accumulate_gradients(loss);
    const at::NoGradGuard no_grad;
    store_.finish_gradients();
    // Gradients of a norm above 1 are divided by it.
    const at::Tensor norm = at::linalg_vector_norm(store_.gradients()).clamp_min(1.0).view({1});
    optimizer_.step(rate, norm, never_, factor);
    store_.mark_written();
    sum_ += loss.detach();
  }

  void add_point(std::int64_t count) {
    const double loss = sum_.item<double>() / static_cast<double>(count);
    if (!std::isfinite(loss)) {
      throw std::runtime_error("the loss is not finite at step " + std::to_string(step_));
    }
    curve_.emplace_back(step_, loss);
    sum_.zero_();
    const auto [first, last] = plan_.plan.progress;
    const double share = static_cast<double>(step_) / static_cast<double>(steps_);
    if (run_.progress) run_.progress(first + share * (last - first));
  }

  VitImpl& model_;
  const VitPlan& plan_;
  const UnitRun& run_;
  std::int64_t steps_;
  ImageBatches batches_;
  ParameterStore store_;
  AdamW optimizer_;
  at::Tensor never_;
  /// Of the losses since the last point.
  at::Tensor sum_;
  std::int64_t step_ = 0;
  std::vector<std::pair<std::int64_t, double>> curve_;
  /// Steps of this process, while there may be a graph; its inputs.
  std::int64_t num_steps_ = 0;
  bool tries_graph_ = true;
  ImageBatches::Batch batch_{};
  at::Tensor rate_;
  DeviceGraph graph_;
};

}  // namespace

Trained train_vit(VitImpl& model, const ImageData& data, const VitPlan& plan, const UnitRun& run) {
  VitTraining training(model, data, plan, run);
  training.resume();
  Trained trained = training.run();
  model.eval();
  return trained;
}

}  // namespace rotary::roformer::lab
