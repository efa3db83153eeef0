// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace rotary::roformer {
namespace {

constexpr std::int64_t kNumSums = 3;
constexpr std::int64_t kFirstNorm = kNumSums + 2;

std::pair<std::int64_t, std::int64_t> part_of(const FlatParameters& parameters, const Ranks* ranks,
                                              bool sharded) {
  if (ranks == nullptr || !sharded) return {0, parameters.size()};
  const std::int64_t part = parameters.size() / ranks->size();
  return {ranks->rank() * part, (ranks->rank() + 1) * part};
}

std::int64_t size_of(const RanksPtr& ranks) { return ranks ? ranks->size() : 1; }

/// Adds to the gradients. Autograd hands over tensors of its own, and a few launches add them all,
/// where it would take one for each parameter.
void add_gradients(const at::Tensor& loss, const FlatParameters& parameters) {
  for (const auto& part : parameters.parts()) part.parameter.mutable_grad() = at::Tensor();
  loss.backward();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  std::vector<at::Tensor> found;
  for (const auto& part : parameters.parts()) {
    at::Tensor& gradient = part.parameter.mutable_grad();
    if (gradient.defined()) {
      sums.push_back(part.gradient);
      found.push_back(gradient);
    }
    gradient = part.gradient;
  }
  if (!sums.empty()) at::_foreach_add_(sums, found);
}

}  // namespace

std::string layer_of(const std::string& parameter) {
  constexpr std::string_view kLayer = "encoder.layer.";
  const std::size_t at = parameter.find(kLayer);
  if (at != std::string::npos) {
    const std::size_t number = at + kLayer.size();
    return "layer." + parameter.substr(number, parameter.find('.', number) - number);
  }
  return parameter.find("embeddings") != std::string::npos  ? "embeddings"
         : parameter.find(".encoding") != std::string::npos ? "encoding"
                                                            : "head";
}

// ---- Packet -------------------------------------------------------------------------------------

Packet::Packet(const at::Tensor& figures, std::int64_t num_norms) : num_norms_(num_norms) {
  if (figures.is_cpu()) {
    host_ = figures;
    return;
  }
  host_ = at::empty(figures.sizes(), at::TensorOptions(figures.scalar_type()).pinned_memory(true));
  host_.copy_(figures, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard(figures.device().type());
  arrived_.emplace(figures.device().type());
  arrived_->record(guard.getStream(figures.device()));
}

Packet::Figures Packet::read() {
  if (arrived_) arrived_->synchronize();
  const auto* values = host_.const_data_ptr<double>();
  const double* norms = values + kFirstNorm;
  return {.loss_sum = values[0],
          .labels = values[1],
          .votes = values[2],
          .gradient_norm = values[kNumSums],
          .first_bad_step = static_cast<std::int64_t>(values[kNumSums + 1]),
          .norms = {norms, norms + num_norms_},
          .bad_norms = {norms + num_norms_, norms + 2 * num_norms_}};
}

// ---- StepEngine ---------------------------------------------------------------------------------

StepEngine::StepEngine(ModelImpl& model, const TrainOptions& options, RanksPtr ranks)
    : model_(model),
      ranks_(std::move(ranks)),
      clip_norm_(options.clip_norm),
      sharded_(options.shard_optimizer && ranks_ != nullptr),
      parameters_(model, size_of(ranks_)),
      optimizer_(parameters_, options.adamw, part_of(parameters_, ranks_.get(), sharded_).first,
                 part_of(parameters_, ranks_.get(), sharded_).second) {
  for (const auto& part : parameters_.parts()) gradients_.push_back(part.gradient);
  const auto doubles = parameters_.values().options().dtype(at::kDouble);
  step_sums_ = at::zeros({kNumSums}, doubles);
  sums_ = at::zeros({kNumSums}, doubles);
  norms_ =
      at::zeros({static_cast<std::int64_t>(gradients_.size())}, parameters_.values().options());
  bad_norms_ = at::zeros_like(norms_);
  norm_ = at::zeros({1}, norms_.options());
  bad_ = at::zeros({1}, norms_.options());
  bad_step_ = at::zeros({1}, doubles);
  if (ranks_) ranks_->broadcast(parameters_.values(), 0);
  parameters_.bump_versions();
}

void StepEngine::add_batch(const Inputs& inputs, std::int64_t labels) {
  if (labels == 0) return;
  const at::Tensor loss = model_.forward(inputs).loss;
  const at::Tensor sum = loss.to(at::kFloat) * static_cast<double>(labels);
  add_gradients(sum, parameters_);
  const at::NoGradGuard no_grad;
  step_sums_.select(0, 0).add_(sum.detach());
  step_sums_.select(0, 1).add_(labels);
}

void StepEngine::reduce() {
  if (!ranks_) return;
  ranks_->sum(parameters_.gradients());
  ranks_->sum(step_sums_);
}

void StepEngine::update(std::int64_t step, double learning_rate, bool vote) {
  const at::NoGradGuard no_grad;
  if (vote) step_sums_.select(0, 2).add_(1);
  reduce();
  norms_ = at::stack(at::_foreach_norm(gradients_));
  const at::Tensor labels = step_sums_.narrow(0, 1, 1).clamp_min(1).to(at::kFloat);
  norms_.div_(labels);
  norm_ = at::norm(norms_).view({1});
  const at::Tensor bad_now =
      at::isfinite(norm_).logical_and_(at::isfinite(step_sums_.narrow(0, 0, 1))).logical_not_();
  const at::Tensor first = bad_now.logical_and(bad_.eq(0));
  bad_step_ = at::where(first, static_cast<double>(step), bad_step_);
  bad_norms_ = at::where(first, norms_, bad_norms_);
  bad_ = at::where(first, 1.0, bad_).to(at::kFloat);
  const at::Tensor divisor =
      clip_norm_ > 0.0 ? labels * (norm_ / clip_norm_).clamp_min(1.0) : labels;
  optimizer_.step(learning_rate, divisor, bad_);
  if (sharded_) ranks_->gather_parts(parameters_.values());
  parameters_.bump_versions();
  parameters_.gradients().zero_();
  sums_.add_(step_sums_);
  step_sums_.zero_();
}

at::Tensor StepEngine::figures() const {
  return at::cat({sums_, norm_.to(at::kDouble), bad_step_, norms_.to(at::kDouble),
                  bad_norms_.to(at::kDouble)});
}

Packet StepEngine::make_packet() {
  const at::NoGradGuard no_grad;
  Packet packet(figures(), norms_.numel());
  sums_.zero_();
  return packet;
}

Packet::Figures StepEngine::peek() const {
  const at::NoGradGuard no_grad;
  return Packet(figures(), norms_.numel()).read();
}

at::Tensor StepEngine::gather(const at::Tensor& part) {
  if (!sharded_) return part;
  at::Tensor whole = at::zeros_like(parameters_.values());
  whole.narrow(0, optimizer_.begin(), part.numel()).copy_(part);
  ranks_->gather_parts(whole);
  return whole;
}

std::pair<at::Tensor, at::Tensor> StepEngine::gather_moments() {
  std::pair<at::Tensor, at::Tensor> moments;
  moments.first = gather(optimizer_.first_moment()).to(at::kCPU);
  moments.second = gather(optimizer_.second_moment()).to(at::kCPU);
  return moments;
}

}  // namespace rotary::roformer
