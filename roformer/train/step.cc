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

torch::PartNorms norms_of(const FlatParameters& parameters) {
  std::vector<torch::PartNorms::Part> parts;
  for (const auto& part : parameters.parts()) {
    parts.push_back({.offset = part.offset, .size = part.parameter.numel()});
  }
  return {std::move(parts), parameters.values().device()};
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
                 part_of(parameters_, ranks_.get(), sharded_).second),
      part_norms_(norms_of(parameters_)),
      fresh_(parameters_.parts().size(), 1),
      kept_(std::make_shared<NarrowWeights>()) {
  const auto doubles = parameters_.values().options().dtype(at::kDouble);
  step_sums_ = at::zeros({kNumSums}, doubles);
  sums_ = at::zeros({kNumSums}, doubles);
  norms_ = at::zeros({static_cast<std::int64_t>(fresh_.size())}, parameters_.values().options());
  bad_norms_ = at::zeros_like(norms_);
  norm_ = at::zeros({1}, norms_.options());
  divisor_ = at::ones({1}, norms_.options());
  bad_ = at::zeros({1}, norms_.options());
  bad_step_ = at::zeros({1}, doubles);
  if (ranks_) ranks_->broadcast(parameters_.values(), 0);
  parameters_.bump_versions();
  if (options.compute_type != at::kFloat) parameters_.keep_narrow(options.compute_type);
  for (const auto& part : parameters_.parts()) {
    kept_->add(part.parameter,
               FlatParameters::view_of(part, parameters_.narrow().value_or(parameters_.values())));
  }
  kept_->set_current();
  model_.roformer().set_narrow_weights(kept_);
}

StepEngine::~StepEngine() { model_.roformer().set_narrow_weights(nullptr); }

/// Where gradients go: what is the first of a step for its parameters is written, what comes then
/// is added, by one launch after the other where a parameter has several.
class StepEngine::Gathering {
 public:
  explicit Gathering(StepEngine& engine)
      : engine_(engine), parts_(engine.parameters_.parts()), rounds_(parts_.size(), 0) {}

  /// Of the parameter `part`, or of several from it on that lie end to end.
  void place(std::size_t part, const at::Tensor& gradient) {
    const std::int64_t offset = parts_[part].offset;
    std::size_t end = part;
    bool fresh = true;
    for (; end < parts_.size() && parts_[end].offset < offset + gradient.numel(); ++end) {
      fresh = fresh && engine_.fresh_[end] != 0;
    }
    std::size_t round = 0;
    for (std::size_t i = part; i < end; ++i) {
      if (!fresh && engine_.fresh_[i] != 0) parts_[i].gradient.zero_();
      engine_.fresh_[i] = 0;
      if (!fresh) round = std::max(round, rounds_[i]++);
    }
    if (!fresh && added_.size() <= round) added_.resize(round + 1);
    (fresh ? written_ : added_[round]).push_back({.from = gradient, .offset = offset});
  }
  /// Of some rows of the parameter.
  void place_rows(std::size_t part, const NarrowWeights::Gradient& gradient) {
    rows_.emplace_back(part, gradient);
  }
  void run() {
    const at::Tensor& all = engine_.parameters_.gradients();
    torch::gather_pieces(all, written_);
    for (const auto& pieces : added_) torch::gather_pieces(all, pieces, /*adds=*/true);
    for (const auto& [part, one] : rows_) {
      const at::Tensor& sum = parts_[part].gradient;
      if (engine_.fresh_[part] != 0) sum.zero_();
      engine_.fresh_[part] = 0;
      torch::add_rows(sum, one.rows, one.gradient, one.skipped);
    }
  }

 private:
  StepEngine& engine_;
  const std::vector<FlatParameters::Part>& parts_;
  std::vector<std::size_t> rounds_;
  std::vector<torch::Piece> written_{};
  std::vector<std::vector<torch::Piece>> added_{};
  std::vector<std::pair<std::size_t, NarrowWeights::Gradient>> rows_{};
};

/// Autograd hands over tensors of its own, and layers those of weights as they computed them.
void StepEngine::add_gradients(const at::Tensor& loss) {
  const std::vector<FlatParameters::Part>& parts = parameters_.parts();
  for (const auto& part : parts) part.parameter.mutable_grad() = at::Tensor();
  const auto taken = kept_->collect([&] { loss.backward(); });
  const at::NoGradGuard no_grad;
  Gathering gathering(*this);
  const auto* values = parameters_.values().const_data_ptr<float>();
  for (const NarrowWeights::Gradient& one : taken) {
    const auto at = std::ranges::find(parts, one.first_parameter.const_data_ptr<float>() - values,
                                      &FlatParameters::Part::offset);
    const auto part = static_cast<std::size_t>(at - parts.begin());
    if (one.rows.defined()) {
      gathering.place_rows(part, one);
    } else {
      gathering.place(part, one.gradient);
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    at::Tensor& gradient = parts[i].parameter.mutable_grad();
    if (gradient.defined()) gathering.place(i, gradient);
    gradient = parts[i].gradient;
  }
  gathering.run();
}

/// Gradients of parameters that nothing came for are 0.
void StepEngine::finish_gradients() {
  const std::vector<FlatParameters::Part>& parts = parameters_.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (fresh_[i] != 0) parts[i].gradient.zero_();
    fresh_[i] = 1;
  }
}

void StepEngine::add_batch(const Inputs& inputs, std::int64_t labels) {
  if (labels == 0) return;
  const at::Tensor loss = model_.forward(inputs).loss;
  const at::Tensor sum = loss.to(at::kFloat) * static_cast<double>(labels);
  add_gradients(sum);
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
  finish_gradients();
  reduce();
  norms_ = part_norms_.of(parameters_.gradients());
  torch::judge_step({.sums = step_sums_,
                     .norms = norms_,
                     .norm = norm_,
                     .divisor = divisor_,
                     .bad = bad_,
                     .bad_step = bad_step_,
                     .bad_norms = bad_norms_},
                    step, clip_norm_);
  optimizer_.step(learning_rate, divisor_, bad_);
  if (sharded_) {
    ranks_->gather_parts(parameters_.values());
    if (parameters_.narrow()) parameters_.narrow()->copy_(parameters_.values());
  }
  parameters_.bump_versions();
  kept_->set_current();
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
