// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "roformer/train/device_graph.h"

namespace rotary::roformer {
namespace {

/// Layout of the statistics, float64. With n segments in the store:
///
///   [ sums: 3 | gradient norm: 1 | non-finite step: 1 | norms: n | non-finite norms: n ]
///
/// The sums alone are step_sums_ and interval_sums_; GradNormState::sums has the same order.
enum StatisticsIndex : std::uint8_t {
  kLossSum,
  kNumLabels,
  kStopRequests,
  kNumSums,
  kGradientNorm = kNumSums,
  kNonfiniteStep,
  kFirstNorm,
};

/// [begin, end) of the elements whose optimizer state this rank holds. The store's size is a
/// multiple of the number of ranks (ModelImpl::make_store()), so shards have equal size.
std::pair<std::int64_t, std::int64_t> shard_of(const ParameterStore& store, const Ranks* ranks,
                                               bool sharded) {
  if (ranks == nullptr || !sharded) return {0, store.size()};
  const std::int64_t size = store.size() / ranks->size();
  return {ranks->rank() * size, (ranks->rank() + 1) * size};
}

constexpr const char* kEncodingLayer = "encoding";
/// Relative vectors are modules of the layers' attention.
constexpr const char* kRelativePart = ".relative.";
/// What a layer learns of its rotation (rope_learn).
constexpr const char* kRotationPart = ".self.rotation.";

/// Steps before one is recorded: they load kernels and fill caches.
constexpr std::int64_t kStepsBeforeGraph = 2;

std::int64_t num_ranks(const RanksPtr& ranks) { return ranks ? ranks->size() : 1; }

transformer::SegmentNorms make_segment_norms(const ParameterStore& store) {
  std::vector<transformer::Segment> segments;
  for (const auto& segment : store.segments()) {
    segments.push_back({.offset = segment.offset, .size = segment.parameter.numel()});
  }
  return {std::move(segments), store.values().device()};
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
         : parameter.find(".encoding") != std::string::npos ? kEncodingLayer
                                                            : "head";
}

// ---- StatisticsCopy -----------------------------------------------------------------------------

StatisticsCopy::StatisticsCopy(const at::Tensor& statistics, std::int64_t num_segments)
    : num_segments_(num_segments) {
  if (statistics.is_cpu()) {
    host_ = statistics;
    return;
  }
  host_ = at::empty(statistics.sizes(),
                    at::TensorOptions(statistics.scalar_type()).pinned_memory(true));
  host_.copy_(statistics, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard(statistics.device().type());
  copied_.emplace(statistics.device().type());
  copied_->record(guard.getStream(statistics.device()));
}

StatisticsCopy::Statistics StatisticsCopy::read() {
  if (copied_) copied_->synchronize();
  const auto* values = host_.const_data_ptr<double>();
  const double* norms = values + kFirstNorm;
  const double* nonfinite_norms = norms + num_segments_;
  return {.loss_sum = values[kLossSum],
          .num_labels = values[kNumLabels],
          .stop_requests = values[kStopRequests],
          .gradient_norm = values[kGradientNorm],
          .nonfinite_step = static_cast<std::int64_t>(values[kNonfiniteStep]),
          .norms = {norms, norms + num_segments_},
          .nonfinite_norms = {nonfinite_norms, nonfinite_norms + num_segments_}};
}

// ---- TrainStep ----------------------------------------------------------------------------------

struct TrainStep::Recorded {
  /// A step reads its batch and numbers from here.
  Inputs inputs{};
  StepNumbers numbers{};
  std::vector<std::int64_t> sizes{};
  DeviceGraph graph{};
};

TrainStep::TrainStep(ModelImpl& model, const TrainOptions& options, RanksPtr ranks)
    : model_(model),
      ranks_(std::move(ranks)),
      clip_norm_(options.clip_norm),
      sharded_(options.shard_optimizer && ranks_ != nullptr),
      store_(model.make_store(num_ranks(ranks_))),
      optimizer_(*store_, options.adamw, shard_of(*store_, ranks_.get(), sharded_).first,
                 shard_of(*store_, ranks_.get(), sharded_).second),
      segment_norms_(make_segment_norms(*store_)) {
  model.set_deterministic(options.deterministic);
  const at::TensorOptions floats = store_->values().options();
  const at::TensorOptions doubles = floats.dtype(at::kDouble);
  step_sums_ = at::zeros({kNumSums}, doubles);
  interval_sums_ = at::zeros({kNumSums}, doubles);
  norms_ = at::zeros({static_cast<std::int64_t>(store_->segments().size())}, floats);
  norm_ = at::zeros({1}, floats);
  grad_divisor_ = at::ones({1}, floats);
  nonfinite_ = at::zeros({1}, floats);
  nonfinite_step_ = at::zeros({1}, doubles);
  nonfinite_norms_ = at::zeros_like(norms_);
  if (ranks_) ranks_->broadcast(store_->values(), 0);
  if (options.compute_type != at::kFloat) store_->add_low_precision(options.compute_type);
  // Autograd did not see the broadcast.
  store_->mark_written();
  if (options.encoding_rate != 1.0) {
    std::vector<bool> of_encoding;
    for (const auto& segment : store_->segments()) {
      of_encoding.push_back(layer_of(segment.name) == kEncodingLayer ||
                            segment.name.find(kRelativePart) != std::string::npos ||
                            segment.name.find(kRotationPart) != std::string::npos);
    }
    optimizer_.scale_rate(
        ranges_of(*store_, of_encoding, true, optimizer_.begin(), optimizer_.end()),
        options.encoding_rate);
  }
  if (options.freeze.empty()) return;
  freezable_ = frozen_segments(*store_, options.freeze);
  thaw_at_ = options.thaw_at;
  const auto ranges = [this](bool frozen) {
    return ranges_of(*store_, freezable_, frozen, optimizer_.begin(), optimizer_.end());
  };
  optimizer_.split(ranges(false), ranges(true));
  set_frozen(true);
}

TrainStep::~TrainStep() {
  if (frozen_) set_frozen(false);
  // A later TrainStep of the same model has replaced the store by its own, which must stay.
  if (model_.roformer().store() == store_) model_.drop_store();
}

void TrainStep::set_frozen(bool on) {
  frozen_ = on;
  optimizer_.freeze(on);
  for (std::size_t i = 0; i < freezable_.size(); ++i) {
    if (freezable_[i]) store_->segments()[i].parameter.set_requires_grad(!on);
  }
}

void TrainStep::begin_step(std::int64_t step) {
  if (freezable_.empty()) return;
  const bool frozen = thaw_at_ == 0 || step < thaw_at_;
  if (frozen != frozen_) set_frozen(frozen);
}

void TrainStep::add_batch(const Inputs& inputs, std::int64_t num_labels) {
  if (num_labels == 0) return;
  const at::Tensor loss = model_.forward(inputs).loss;
  accumulate(loss.to(at::kFloat) * static_cast<double>(num_labels), num_labels);
}

template <typename Number>
void TrainStep::accumulate(const at::Tensor& sum, const Number& num_labels) {
  // Nothing zeroes the gradients: the first one of a step overwrites that of the step before.
  store_->accumulate_gradients(sum);
  const at::NoGradGuard no_grad;
  step_sums_.select(0, kLossSum).add_(sum.detach());
  step_sums_.select(0, kNumLabels).add_(num_labels);
}

void TrainStep::reduce() {
  if (!ranks_) return;
  ranks_->all_reduce(store_->gradients());
  ranks_->all_reduce(step_sums_);
}

void TrainStep::update(std::int64_t step, double learning_rate, bool stop_requested) {
  const at::NoGradGuard no_grad;
  if (stop_requested) step_sums_.select(0, kStopRequests).add_(1);
  finish(step, learning_rate, nullptr);
}

void TrainStep::finish(std::int64_t step, double learning_rate, const StepNumbers* numbers) {
  const at::NoGradGuard no_grad;
  // Zeroes the gradients of parameters that had none in this step, and lets the next step overwrite
  // all of them.
  store_->finish_gradients();
  // Operations over several parameters compute the gradients of all of them.
  for (std::size_t i = 0; frozen_ && i < freezable_.size(); ++i) {
    if (freezable_[i]) store_->segments()[i].gradient.zero_();
  }
  reduce();
  // In place, as a graph writes the same tensors in every step.
  norms_.copy_(segment_norms_.of(store_->gradients()));
  transformer::clip_and_check({.sums = step_sums_,
                               .norms = norms_,
                               .norm = norm_,
                               .divisor = grad_divisor_,
                               .nonfinite = nonfinite_,
                               .nonfinite_step = nonfinite_step_,
                               .nonfinite_norms = nonfinite_norms_,
                               .step = numbers == nullptr ? at::Tensor() : numbers->step},
                              step, clip_norm_);
  optimizer_.step(learning_rate, grad_divisor_, /*skip=*/nonfinite_,
                  numbers == nullptr ? at::Tensor() : numbers->learning_rate);
  if (sharded_) {
    ranks_->all_gather(store_->values());
    // AdamW writes the low-precision copy along with the weights, but here of its own shard alone.
    if (store_->low_precision()) store_->low_precision()->copy_(store_->values());
  }
  // The optimizer writes the flat buffers, where autograd does not see it: version counters go up
  // here, and the low-precision copy counts as current.
  store_->mark_written();
  interval_sums_.add_(step_sums_);
  step_sums_.zero_();
}

// ---- Graphs -------------------------------------------------------------------------------------

std::vector<std::int64_t> TrainStep::graph_sizes(const Inputs& inputs) const {
  const bool waits = inputs.logits_at == LogitsAt::kLabels && !inputs.label_indices;
  if (!tries_graphs_ || ranks_ || !freezable_.empty() || !inputs.labels || waits || inputs.types ||
      inputs.mask || inputs.cu_seqlens || inputs.cache != nullptr ||
      !DeviceGraph::is_possible(inputs.ids.device())) {
    return {};
  }
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(inputs.causal_labels),
                                     static_cast<std::int64_t>(inputs.logits_at),
                                     static_cast<std::int64_t>(inputs.labels->scalar_type()),
                                     inputs.label_indices ? inputs.label_indices->numel() : -1};
  for (const at::Tensor& x : {inputs.ids, *inputs.labels}) {
    sizes.push_back(x.dim());
    sizes.insert(sizes.end(), x.sizes().begin(), x.sizes().end());
  }
  return sizes;
}

bool TrainStep::record(const Inputs& inputs) {
  auto recorded = std::make_unique<Recorded>();
  recorded->sizes = sizes_;
  Inputs& own = recorded->inputs;
  own.ids = at::empty_like(inputs.ids);
  own.labels = at::empty_like(*inputs.labels);
  if (inputs.label_indices) own.label_indices = at::empty_like(*inputs.label_indices);
  own.causal_labels = inputs.causal_labels;
  own.logits_at = inputs.logits_at;
  StepNumbers& numbers = recorded->numbers;
  numbers = {.step = at::zeros_like(nonfinite_step_),
             .learning_rate = at::zeros_like(nonfinite_step_),
             .num_labels = at::zeros({}, nonfinite_step_.options())};
  tries_graphs_ = recorded->graph.try_record(own.ids.device(), "a training step", [&] {
    const at::Tensor loss = model_.forward(own).loss;
    accumulate(loss.to(at::kFloat) * numbers.num_labels.to(at::kFloat), numbers.num_labels);
    finish(/*step=*/0, /*learning_rate=*/1.0, &numbers);
  });
  if (tries_graphs_) {
    recorded_ = std::move(recorded);
  } else {
    // Nothing has run: no gradient is one of this step.
    const at::NoGradGuard no_grad;
    store_->finish_gradients();
  }
  return tries_graphs_;
}

void TrainStep::run(std::int64_t step, const Inputs& inputs, std::int64_t num_labels,
                    double learning_rate) {
  std::vector<std::int64_t> sizes = graph_sizes(inputs);
  num_same_sizes_ = sizes == sizes_ ? num_same_sizes_ + 1 : 1;
  sizes_ = std::move(sizes);
  const bool fits = !sizes_.empty() && num_labels > 0;
  launched_graph_ = fits && (recorded_ ? recorded_->sizes == sizes_
                                       : num_same_sizes_ > kStepsBeforeGraph && record(inputs));
  if (!launched_graph_) {
    begin_step(step);
    add_batch(inputs, num_labels);
    update(step, learning_rate, /*stop_requested=*/false);
    return;
  }
  const at::NoGradGuard no_grad;
  const Inputs& own = recorded_->inputs;
  own.ids.copy_(inputs.ids);
  own.labels->copy_(*inputs.labels);
  if (own.label_indices) own.label_indices->copy_(*inputs.label_indices);
  const StepNumbers& numbers = recorded_->numbers;
  numbers.step.fill_(step);
  numbers.learning_rate.fill_(learning_rate);
  numbers.num_labels.fill_(num_labels);
  recorded_->graph.launch();
  store_->mark_written();
}

// ---- Statistics and moments ---------------------------------------------------------------------

at::Tensor TrainStep::statistics() const {
  // In the order of StatisticsIndex.
  return at::cat({interval_sums_, norm_.to(at::kDouble), nonfinite_step_, norms_.to(at::kDouble),
                  nonfinite_norms_.to(at::kDouble)});
}

StatisticsCopy TrainStep::take_statistics() {
  const at::NoGradGuard no_grad;
  StatisticsCopy copy(statistics(), norms_.numel());
  interval_sums_.zero_();
  return copy;
}

StatisticsCopy::Statistics TrainStep::peek() const {
  const at::NoGradGuard no_grad;
  return StatisticsCopy(statistics(), norms_.numel()).read();
}

void TrainStep::restore_sums(double loss_sum, double num_labels) {
  const at::NoGradGuard no_grad;
  interval_sums_.select(0, kLossSum).fill_(loss_sum);
  interval_sums_.select(0, kNumLabels).fill_(num_labels);
}

at::Tensor TrainStep::gather(const at::Tensor& shard) {
  if (!sharded_) return shard;
  at::Tensor whole = at::zeros_like(store_->values());
  whole.narrow(0, optimizer_.begin(), shard.numel()).copy_(shard);
  ranks_->all_gather(whole);
  return whole;
}

std::pair<at::Tensor, at::Tensor> TrainStep::gather_moments() {
  const bool is_first = !ranks_ || ranks_->rank() == 0;
  const auto gather_to_host = [&](const at::Tensor& shard) {
    const at::Tensor whole = gather(shard);
    return is_first ? whole.to(at::kCPU) : at::Tensor();
  };
  std::pair<at::Tensor, at::Tensor> moments;
  moments.first = gather_to_host(optimizer_.first_moment());
  moments.second = gather_to_host(optimizer_.second_moment());
  return moments;
}

}  // namespace rotary::roformer
