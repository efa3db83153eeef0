// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>

#include "roformer/data/ordered_workers.h"
#include "roformer/data/random.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/memory.h"
#include "roformer/train/metrics.h"
#include "roformer/train/step.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatchesAhead = 4;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const TrainOptions& checked(const TrainOptions& options) {
  const auto require = [](bool holds, const char* rule, const auto& value) {
    if (!holds) internal::reject("[Trainer] ", rule, ", got ", value);
  };
  require(options.steps >= 1, "steps must be positive", options.steps);
  require(options.learning_rate >= 0.0 && std::isfinite(options.learning_rate),
          "learning_rate must not be negative", options.learning_rate);
  require(options.accumulate >= 1, "accumulate must be positive", options.accumulate);
  require(options.clip_norm >= 0.0, "clip_norm must not be negative", options.clip_norm);
  require(options.compute_type == at::kFloat || options.compute_type == at::kBFloat16,
          "compute_type must be float or bfloat16", c10::toString(options.compute_type));
  require(options.thaw_at >= 0, "thaw_at must not be negative", options.thaw_at);
  require(options.thaw_at == 0 || !options.freeze.empty(), "thaw_at needs freeze", options.thaw_at);
  require(options.keep >= 1, "keep must be positive", options.keep);
  require(options.schedule.warmup_steps >= 0, "warmup_steps must not be negative",
          options.schedule.warmup_steps);
  const double final_share = options.schedule.final_share;
  require(final_share >= 0.0 && final_share <= 1.0, "final_share must be from 0 to 1", final_share);
  for (const std::int64_t every :
       {options.report_every, options.gradients_every, options.save_every}) {
    require(every >= 0, "steps between events must not be negative", every);
  }
  return options;
}

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

/// Dropout of a step depends on these alone.
void seed_generators(at::Device device, std::uint64_t seed, std::int64_t step, std::int64_t rank) {
  const std::uint64_t key =
      Random(seed, static_cast<std::uint64_t>(step) << 20 | static_cast<std::uint64_t>(rank))
          .next();
  for (const at::Device one : {at::Device(at::kCPU), device}) {
    at::Generator generator = at::globalContext().defaultGenerator(one);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(key);
    if (device.is_cpu()) break;
  }
}

/// Norms of layers from norms of parameters, in the order of the model.
std::vector<std::pair<std::string, double>> by_layer(const ParameterStore& parameters,
                                                     const std::vector<double>& norms) {
  std::vector<std::pair<std::string, double>> layers;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::string layer = layer_of(parameters.segments()[i].name);
    auto at = std::ranges::find(layers, layer, &std::pair<std::string, double>::first);
    if (at == layers.end()) at = layers.insert(at, {layer, 0.0});
    at->second += norms[i] * norms[i];
  }
  for (auto& [layer, norm] : layers) norm = std::sqrt(norm);
  return layers;
}

}  // namespace

struct Trainer::Impl {
  Impl(Model trained, const TrainOptions& given, RanksPtr shared)
      : model(std::move(trained)),
        options(checked(given)),
        ranks(std::move(shared)),
        train_step(*model, options, ranks),
        device(train_step.parameters().values().device()) {
    model->train();
    model->set_compute_type(options.compute_type);
    model->set_checkpointing(options.checkpointing);
    if (first_rank() && !options.folder.empty()) {
      log = std::make_unique<MetricsLog>(options.folder);
    }
  }

  bool first_rank() const { return !ranks || ranks->rank() == 0; }
  std::int64_t rank() const { return ranks ? ranks->rank() : 0; }
  std::int64_t num_ranks() const { return ranks ? ranks->size() : 1; }

  /// False if the source has ended.
  bool run_step(Prefetch<Batch>& batches);
  void start_report(bool with_layers);
  /// Waits for the statistics of the pending report, and delivers it.
  void finish_report();
  void check_finite(const StatisticsCopy::Statistics& statistics);
  void evaluate();
  fs::path save();
  bool wants_to_stop() const { return stop && stop(); }

  Model model;
  TrainOptions options;
  RanksPtr ranks;
  TrainStep train_step;
  at::Device device;
  TrainState state;
  std::unique_ptr<MetricsLog> log;
  bool log_is_open = false;
  fs::path checkpoint;
  bool stopping = false;

  std::function<void(const StepReport&)> report;
  std::function<Metrics()> evaluation;
  std::int64_t evaluate_every = 0;
  std::function<bool()> stop;
  std::function<void(const fs::path&)> add_files;

  /// A report whose statistics are being copied from the device.
  struct Pending {
    StatisticsCopy statistics;
    StepReport report;
    bool with_layers = false;
  };
  std::optional<Pending> pending;
  Clock::time_point began;
  Clock::time_point reported;
  double seconds_before = 0.0;
  std::int64_t steps_here = 0;
  std::int64_t tokens_since = 0;
};

Trainer::Trainer(Model model, const TrainOptions& options, std::shared_ptr<Ranks> ranks)
    : impl_(std::make_unique<Impl>(std::move(model), options, std::move(ranks))) {}
Trainer::~Trainer() = default;

void Trainer::on_report(std::function<void(const StepReport&)> call) {
  impl_->report = std::move(call);
}
void Trainer::on_evaluation(std::function<Metrics()> call, std::int64_t every) {
  impl_->evaluation = std::move(call);
  impl_->evaluate_every = every;
}
void Trainer::on_stop(std::function<bool()> call) { impl_->stop = std::move(call); }
void Trainer::on_save(std::function<void(const fs::path&)> call) {
  impl_->add_files = std::move(call);
}
std::int64_t Trainer::step() const noexcept { return impl_->state.step; }
const std::optional<StreamState>& Trainer::data_state() const noexcept { return impl_->state.data; }
ModelImpl& Trainer::model() noexcept { return *impl_->model; }
fs::path Trainer::save() { return impl_->save(); }

void Trainer::set_accumulate(std::int64_t batches) {
  if (batches < 1) internal::reject("[Trainer] accumulate must be positive, got ", batches);
  impl_->options.accumulate = batches;
}

bool Trainer::resume() {
  Impl& my = *impl_;
  if (my.options.folder.empty()) return false;
  const fs::path found = last_checkpoint(my.options.folder);
  if (found.empty()) return false;
  const at::NoGradGuard no_grad;
  AdamW& optimizer = my.train_step.optimizer();
  const at::Tensor& values = my.train_step.parameters().values();
  const Moments moments{.first = at::zeros_like(values),
                        .second = at::zeros_like(values),
                        .steps = optimizer.steps()};
  my.state = read_checkpoint(found, *my.model, my.train_step.parameters(), moments);
  const std::int64_t size = optimizer.end() - optimizer.begin();
  optimizer.first_moment().copy_(moments.first.narrow(0, optimizer.begin(), size));
  optimizer.second_moment().copy_(moments.second.narrow(0, optimizer.begin(), size));
  my.train_step.restore_frozen_state();
  my.checkpoint = found;
  return true;
}

TrainOutcome Trainer::run(const BatchSource& source, std::int64_t until) {
  Impl& my = *impl_;
  if (until == 0) until = my.options.steps;
  if (my.state.data && source.restore) source.restore(*my.state.data);
  // Lines of steps after the checkpoint are written again.
  if (my.log && !my.log_is_open) my.log->go_back_to(my.state.step);
  my.log_is_open = true;
  Prefetch<Batch> batches(source.next, kBatchesAhead);
  my.began = my.reported = Clock::now();
  my.seconds_before = my.state.seconds;
  my.steps_here = 0;
  Ending ending = Ending::kDone;
  my.stopping = !my.ranks && my.wants_to_stop();
  while (my.state.step < until && !my.stopping) {
    if (!my.run_step(batches)) {
      ending = Ending::kNoMoreData;
      break;
    }
    const std::int64_t step = my.state.step;
    // One step late: meanwhile the device works on the next one.
    my.finish_report();
    const bool with_layers = due(step, my.options.gradients_every);
    if (due(step, my.options.report_every) || with_layers || step == until) {
      my.start_report(with_layers);
    }
    if (my.device.is_cpu()) my.finish_report();
    if (due(step, my.evaluate_every) || (my.evaluation && step == until)) my.evaluate();
    if (!my.ranks && my.wants_to_stop()) my.stopping = true;
    if (due(step, my.options.save_every) && step != until && !my.stopping) my.save();
  }
  my.finish_report();
  if (my.steps_here > 0) my.check_finite(my.train_step.peek());
  if (my.stopping && my.state.step < until) ending = Ending::kStopped;
  if (!my.options.folder.empty() && my.steps_here > 0) my.save();
  return {.ending = ending, .step = my.state.step, .checkpoint = my.checkpoint};
}

bool Trainer::Impl::run_step(Prefetch<Batch>& batches) {
  const std::int64_t step = state.step + 1;
  seed_generators(device, options.seed, step, rank());
  train_step.begin_step(step);
  std::int64_t tokens = 0;
  const Task task = model->config().task;
  Batch batch;
  for (std::int64_t i = 0; i < options.accumulate; ++i) {
    if (!batches.next(batch)) return false;
    tokens += batch.rows * batch.length;
    const std::int64_t num_labels = count_labels(batch, task);
    if (num_labels > 0) train_step.add_batch(to_inputs(batch, task, device), num_labels);
  }
  const double share = schedule_share(options.schedule, step, options.steps);
  train_step.update(step, options.learning_rate * share, ranks && wants_to_stop());
  state.step = step;
  state.data = batch.next;
  state.tokens += tokens * num_ranks();
  tokens_since += tokens * num_ranks();
  ++steps_here;
  return true;
}

void Trainer::Impl::start_report(bool with_layers) {
  const double share = schedule_share(options.schedule, state.step, options.steps);
  pending.emplace(Pending{.statistics = train_step.take_statistics(),
                          .report = {.step = state.step,
                                     .steps = options.steps,
                                     .learning_rate = options.learning_rate * share,
                                     .tokens = state.tokens},
                          .with_layers = with_layers});
}

void Trainer::Impl::finish_report() {
  if (!pending) return;
  const StatisticsCopy::Statistics statistics = pending->statistics.read();
  check_finite(statistics);
  if (statistics.stop_requests > 0.0) stopping = true;
  StepReport& out = pending->report;
  out.loss = statistics.num_labels > 0.0 ? statistics.loss_sum / statistics.num_labels : 0.0;
  out.gradient_norm = statistics.gradient_norm;
  out.tokens_per_second =
      static_cast<double>(tokens_since) / std::max(seconds_since(reported), 1e-9);
  out.seconds_left = seconds_since(began) / static_cast<double>(steps_here) *
                     static_cast<double>(options.steps - out.step);
  out.memory_bytes = peak_memory(device);
  if (pending->with_layers) out.layers = by_layer(train_step.parameters(), statistics.norms);
  reported = Clock::now();
  tokens_since = 0;
  state.seconds = seconds_before + seconds_since(began);
  if (log) log->write(out);
  if (report && first_rank()) report(out);
  pending.reset();
}

void Trainer::Impl::check_finite(const StatisticsCopy::Statistics& statistics) {
  if (statistics.nonfinite_step == 0) return;
  std::string layers;
  for (const auto& [layer, norm] : by_layer(train_step.parameters(), statistics.nonfinite_norms)) {
    if (!std::isfinite(norm)) layers += (layers.empty() ? "" : ", ") + layer;
  }
  const std::string where = layers.empty() ? "the loss alone" : "the gradients of " + layers;
  const std::string kept = options.folder.empty() ? ""
                           : checkpoint.empty()   ? "; no checkpoint was written yet"
                                                : "; the last checkpoint is " + checkpoint.string();
  throw NotFinite(statistics.nonfinite_step, "step " + std::to_string(statistics.nonfinite_step) +
                                                 ": not a finite number: " + where + kept);
}

void Trainer::Impl::evaluate() {
  finish_report();
  // Steps since the last report must be finite, too: the result may become the best of the run.
  check_finite(train_step.peek());
  Metrics metrics;
  {
    const at::NoGradGuard no_grad;
    model->eval();
    metrics = evaluation();
    model->train();
  }
  if (log) log->write(state.step, metrics);
  reported = Clock::now();
  tokens_since = 0;
}

fs::path Trainer::Impl::save() {
  finish_report();
  if (options.folder.empty()) internal::reject("[Trainer] no folder to save in");
  // Steps since the last report must be finite, too.
  check_finite(train_step.peek());
  state.seconds = seconds_before + seconds_since(began);
  const auto [first, second] = train_step.gather_moments();
  if (first_rank()) {
    const CheckpointWriter writer{
        .run = options.folder, .keep = options.keep, .add_files = add_files};
    checkpoint = writer.write(*model, train_step.parameters(),
                              {first, second, train_step.optimizer().steps()}, state);
  } else {
    checkpoint = options.folder / "checkpoints";
  }
  if (ranks) ranks->wait_for_all();
  reported = Clock::now();
  tokens_since = 0;
  return checkpoint;
}

}  // namespace rotary::roformer
