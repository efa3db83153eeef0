// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/training.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "io/json_file.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/schedule.h"
#include "roformer/train/step.h"

namespace rotary::roformer::lab {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using Clock = std::chrono::steady_clock;

/// Factors of the learning rate, see encoding_entry().
constexpr double kBiasRate = 30.0;
constexpr double kVectorRate = 3.0;
constexpr const char* kCurveFile = "curve.json";

/// Weights are drawn from PyTorch's default generator, which all threads share.
std::mutex& generator_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// One training: the state that a checkpoint holds, and what is on its way from the device.
class Training {
 public:
  Training(ModelImpl& model, const TrainPlan& plan, const UnitRun& run)
      : model_(model),
        plan_(plan),
        run_(run),
        folder_(run.folder / plan.name),
        step_(compute(model, plan), plan.options, nullptr) {
    model_.train();
  }

  void resume() {
    const fs::path found = last_checkpoint(folder_);
    if (found.empty()) return;
    const at::NoGradGuard no_grad;
    AdamW& optimizer = step_.optimizer();
    state_ =
        read_checkpoint(found, model_, step_.parameters(),
                        {optimizer.first_moment(), optimizer.second_moment(), optimizer.steps()});
    const Json curve = internal::read_json_file(found / kCurveFile);
    // Former checkpoints have the points alone.
    const Json& points = curve.is_array() ? curve : curve.at("points");
    for (const Json& point : points.elements()) {
      curve_.emplace_back(point.elements().at(0).as_int64(), point.elements().at(1).as_double());
    }
    if (curve.is_array()) return;
    // Of the steps since the last point.
    step_.restore_sums(curve.at("loss_sum").as_double(), curve.at("num_labels").as_double());
  }

  Trained run(const MakeBatch& make_batch) {
    const std::int64_t steps = plan_.options.steps;
    const std::int64_t every = std::max<std::int64_t>(1, steps / plan_.curve_points);
    auto saved = Clock::now();
    const auto began = saved;
    std::int64_t tokens = 0;
    while (state_.step < steps) {
      tokens += run_step(make_batch);
      if (state_.step % every == 0 || state_.step == steps) {
        // The point before: its copy has arrived, while the device works on the steps since.
        read_point();
        point_.emplace(state_.step, step_.take_statistics());
        report_progress();
      }
      const bool stop = run_.stop && run_.stop();
      if (state_.step == steps) break;
      if (!stop && Clock::now() - saved < kSaveInterval) continue;
      save();
      if (stop) throw Stopped();
      saved = Clock::now();
    }
    read_point();
    check(step_.peek());
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return {.curve = std::move(curve_),
            .tokens_per_second = static_cast<double>(tokens) / std::max(seconds, 1e-9)};
  }

 private:
  static ModelImpl& compute(ModelImpl& model, const TrainPlan& plan) {
    model.set_compute_type(plan.options.compute_type);
    return model;
  }

  std::int64_t run_step(const MakeBatch& make_batch) {
    const std::int64_t step = state_.step + 1;
    const TrainingBatch batch = make_batch(step);
    const double rate = plan_.options.learning_rate *
                        schedule_share(plan_.options.schedule, step, plan_.options.steps);
    if (plan_.graphs && run_.graphs) {
      step_.run(step, batch.inputs, batch.num_labels, rate);
    } else {
      step_.begin_step(step);
      step_.add_batch(batch.inputs, batch.num_labels);
      step_.update(step, rate, /*stop_requested=*/false);
    }
    state_.step = step;
    state_.tokens += batch.inputs.ids.numel();
    return batch.inputs.ids.numel();
  }

  void read_point() {
    if (!point_) return;
    const StatisticsCopy::Statistics statistics = point_->second.read();
    check(statistics);
    if (statistics.num_labels > 0.0) {
      curve_.emplace_back(point_->first, statistics.loss_sum / statistics.num_labels);
    }
    point_.reset();
  }

  static void check(const StatisticsCopy::Statistics& statistics) {
    if (statistics.nonfinite_step == 0) return;
    throw NotFinite(statistics.nonfinite_step,
                    "step " + std::to_string(statistics.nonfinite_step) +
                        ": the loss or a gradient is not a finite number");
  }

  void report_progress() const {
    const auto [first, last] = plan_.progress;
    const double share =
        static_cast<double>(state_.step) / static_cast<double>(plan_.options.steps);
    if (run_.progress) run_.progress(first + share * (last - first));
  }

  void save() {
    read_point();
    const StatisticsCopy::Statistics sums = step_.peek();
    check(sums);
    const auto [first, second] = step_.gather_moments();
    Json points = Json::array();
    for (const auto& [step, loss] : curve_) points.push_back(Json::Array{step, loss});
    const Json curve = {
        {"points", points}, {"loss_sum", sums.loss_sum}, {"num_labels", sums.num_labels}};
    const CheckpointWriter writer{.run = folder_, .keep = 1, .add_files = [&curve](const auto& to) {
                                    write_whole_file(to / kCurveFile, curve.dump());
                                  }};
    writer.write(model_, step_.parameters(), {first, second, step_.optimizer().steps()}, state_);
  }

  ModelImpl& model_;
  const TrainPlan& plan_;
  const UnitRun& run_;
  fs::path folder_;
  TrainStep step_;
  TrainState state_;
  std::vector<std::pair<std::int64_t, double>> curve_;
  /// A point of the curve whose statistics are being copied from the device.
  std::optional<std::pair<std::int64_t, StatisticsCopy>> point_;
};

}  // namespace

Model make_seeded_model(Config config, std::uint64_t seed, at::Device device) {
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  Model model;
  {
    const std::lock_guard lock(generator_mutex());
    at::manual_seed(seed);
    model = make_model(config);
  }
  model->to(device);
  return model;
}

Model load_lab_model(const std::filesystem::path& path, const ConfigChange& change,
                     at::Device device) {
  Model model;
  {
    // Its parameters are drawn before they are read.
    const std::lock_guard lock(generator_mutex());
    model = load_complete_model(path, change);
  }
  model->to(device);
  return model;
}

std::int64_t num_parameters(const ModelImpl& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

at::ScalarType compute_type_of(at::Device device) {
  return device.is_cuda() ? at::kBFloat16 : at::kFloat;
}

internal::Json default_model(bool quick) {
  return {{"hidden_size", quick ? 64 : 512},
          {"num_hidden_layers", quick ? 2 : 6},
          {"num_attention_heads", quick ? 4 : 8},
          {"intermediate_size", quick ? 256 : 2048}};
}

internal::Json text_model(bool quick) {
  internal::Json model = default_model(quick);
  model["initializer_range"] = quick ? 1.0 / std::sqrt(model.at("hidden_size").as_double()) : 0.02;
  return model;
}

internal::Json encoding_entry(std::string name, std::string_view encoding, std::int64_t seeds) {
  internal::Json entry = {
      {"name", std::move(name)}, {"position_encoding", encoding}, {"seeds", seeds}};
  // An update of AdamW is about as large as the learning rate, whatever the parameter: a weight of
  // 0.02 doubles in a few steps, a bias of scores, which is useful at 1 to 10, would never get
  // there.
  for (const char* bias : {"t5", "kerple", "distance"}) {
    if (encoding.find(bias) != std::string_view::npos) entry["encoding_rate"] = kBiasRate;
  }
  if (encoding == "shaw") entry["encoding_rate"] = kVectorRate;
  return entry;
}

internal::Json training_defaults(std::int64_t steps, double learning_rate) {
  return {{"steps", steps},
          {"learning_rate", learning_rate},
          {"warmup_steps", std::max<std::int64_t>(1, steps / 10)},
          {"weight_decay", 0.01},
          {"beta2", 0.98}};
}

TrainPlan plan_of(const Settings& settings, at::Device device) {
  TrainPlan plan;
  TrainOptions& options = plan.options;
  options.steps = settings.integer("steps", 1);
  options.learning_rate = settings.number("learning_rate");
  options.schedule = {.shape = ScheduleShape::kCosine,
                      .warmup_steps = settings.integer("warmup_steps"),
                      .final_share = 0.1};
  options.adamw.weight_decay = settings.number("weight_decay");
  options.adamw.beta2 = settings.number("beta2");
  options.compute_type = compute_type_of(device);
  // Deterministic kernels on a GPU are a setting of the process: threads would see each other's.
  options.deterministic = device.is_cpu();
  return plan;
}

void check_training(const Json& training, const std::string& name) {
  const Json defaults = training_defaults(1, 0.0);
  std::vector<std::string_view> known;
  for (const auto& member : defaults.members()) known.push_back(member.key);
  check_keys(training, name, known);
  plan_of(Settings(training), at::kCPU);
}

Trained train_model(ModelImpl& model, const TrainPlan& plan, const MakeBatch& make_batch,
                    const UnitRun& run) {
  Training training(model, plan, run);
  training.resume();
  Trained trained = training.run(make_batch);
  model.eval();
  return trained;
}

void add_curve(const Trained& trained, const UnitRun& run, std::vector<Row>& rows) {
  for (const auto& [step, loss] : trained.curve) {
    rows.push_back(run.row("training_loss", loss, {{"step", static_cast<double>(step)}}));
  }
}

}  // namespace rotary::roformer::lab
