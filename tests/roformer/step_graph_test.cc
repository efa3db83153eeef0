// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Training steps as CUDA graphs give the numbers of single launches.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "lab_testing.h"
#include "roformer/lab/image_training.h"
#include "roformer/lab/text_data.h"
#include "roformer/lab/training.h"
#include "roformer/train/device_graph.h"
#include "roformer/train/step.h"
#include "rotary/transformer/optimizer.h"

namespace rotary::roformer {
namespace {

using lab::TrainingBatch;

#define SKIP_WITHOUT_GPU() \
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU"

constexpr std::int64_t kWords = 48;

struct GraphCase {
  std::string name{};
  Task task = Task::kCausalLm;
  std::string encoding = "rope";
  bool rotary_output = false;
  RopeLearn learn = RopeLearn::kNothing;
  AttentionKind attention = AttentionKind::kSoftmax;
  at::ScalarType type = at::kFloat;
  double encoding_rate = 1.0;
  /// False where kernels are used that sum gradients in any order.
  bool same_bits = true;
  /// Of a causal LM: the tokens with labels alone go through the head, as in labs.
  bool label_indices = false;
};

std::string name_of_case(const testing::TestParamInfo<GraphCase>& info) { return info.param.name; }

Config config_of(const GraphCase& c) {
  Config config;
  config.task = c.task;
  config.vocab_size = kWords;
  config.hidden_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 64;
  config.initializer_range = 0.1;
  config.position_encoding = c.encoding;
  config.rotary_output = c.rotary_output;
  config.rope_learn = c.learn;
  config.attention_type = c.attention;
  if (c.attention == AttentionKind::kLinear) config.linear.kernel = LinearKernel::kFavor;
  return config;
}

at::Tensor token_ids(at::IntArrayRef sizes, std::int64_t seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  return at::randint(1, kWords, sizes, at::kLong);
}

constexpr std::int64_t kLength = 32;

/// A batch of `rows` rows whose number of labels depends on the step.
TrainingBatch batch_of(Task task, std::int64_t rows, std::int64_t step, at::Device device,
                       std::int64_t length = kLength) {
  const at::Tensor ids = token_ids({rows, length + 1}, step).to(device);
  if (task == Task::kMaskedLm) {
    lab::TextData data;
    data.vocab_size = kWords;
    const lab::MaskedTokens masked =
        lab::mask_rows(ids.narrow(1, 0, length).contiguous(), data, 0.25, 1, step);
    TrainingBatch batch;
    batch.inputs.ids = masked.ids;
    batch.inputs.labels = masked.labels;
    batch.inputs.logits_at = LogitsAt::kLabels;
    batch.inputs.label_indices = masked.indices;
    batch.num_labels = masked.indices.numel();
    return batch;
  }
  TrainingBatch batch;
  batch.inputs.ids = ids.narrow(1, 0, length).contiguous();
  batch.inputs.labels = ids.narrow(1, 1, length).clone();
  batch.inputs.labels->narrow(1, 0, step % 7).fill_(kIgnored);
  batch.inputs.causal_labels = CausalLabels::kNextToken;
  batch.num_labels = rows * (length - step % 7);
  return batch;
}

/// What a training leaves.
struct Trained {
  at::Tensor values{};
  at::Tensor first{};
  at::Tensor second{};
  StatisticsCopy::Statistics statistics{};
  /// After kJudgedStep.
  double judged = 0.0;
  /// Of each step.
  std::vector<bool> launched{};
};

constexpr std::int64_t kSteps = 10;
/// Steps whose batches have other sizes: fewer rows; shorter ones.
constexpr std::int64_t kOtherStep = 7;
constexpr std::int64_t kShortStep = 9;
/// A step after which the model is judged, in evaluation mode, as between the steps of a training.
constexpr std::int64_t kJudgedStep = 5;

TrainingBatch batch_of(const GraphCase& c, std::int64_t step, at::Device device) {
  TrainingBatch batch = batch_of(c.task, step == kOtherStep ? 3 : 4, step, device,
                                 step == kShortStep ? kLength / 2 : kLength);
  if (c.label_indices) {
    // Every second token, the first or the others: as many in each step, as graphs need.
    const at::Tensor flat = batch.inputs.labels->flatten().clamp_min(1);
    const at::Tensor indices = at::arange(step % 2, flat.numel(), 2, flat.options());
    batch.inputs.labels = at::full_like(flat, kIgnored)
                              .index_copy(0, indices, flat.index_select(0, indices))
                              .view_as(batch.inputs.ids);
    batch.inputs.label_indices = indices;
    batch.inputs.logits_at = LogitsAt::kLabels;
    batch.num_labels = indices.numel();
  }
  return batch;
}

/// The loss in evaluation mode, between two steps.
double judge(ModelImpl& model, const Inputs& inputs) {
  const at::NoGradGuard no_grad;
  model.eval();
  const double loss = model.forward(inputs).loss.item<double>();
  model.train();
  return loss;
}

Trained train(const GraphCase& c, at::Device device, bool graphs, double last_rate = 1e-3) {
  const Model model = lab::make_seeded_model(config_of(c), 5, device);
  model->train();
  model->set_compute_type(c.type);
  TrainOptions options{.clip_norm = 0.5, .compute_type = c.type};
  options.encoding_rate = c.encoding_rate;
  options.deterministic = true;
  TrainStep step(*model, options, nullptr);
  Trained trained;
  for (std::int64_t i = 1; i <= kSteps; ++i) {
    const TrainingBatch batch = batch_of(c, i, device);
    const double rate = i + 1 < kSteps ? 1e-3 / static_cast<double>(i) : last_rate;
    if (graphs) {
      step.run(i, batch.inputs, batch.num_labels, rate);
      trained.launched.push_back(step.launched_graph());
    } else {
      step.begin_step(i);
      step.add_batch(batch.inputs, batch.num_labels);
      step.update(i, rate, false);
    }
    if (i == kJudgedStep) trained.judged = judge(*model, batch_of(c, i + 1, device).inputs);
  }
  trained.values = step.parameters().values().cpu().clone();
  trained.first = step.optimizer().first_moment().cpu().clone();
  trained.second = step.optimizer().second_moment().cpu().clone();
  trained.statistics = step.take_statistics().read();
  return trained;
}

void expect_equal(const Trained& found, const Trained& wanted, bool same_bits) {
  const auto same = [&](const at::Tensor& x, const at::Tensor& y) {
    return same_bits ? at::equal(x, y) : at::allclose(x, y, 1e-4, 1e-6);
  };
  EXPECT_TRUE(same(found.values, wanted.values))
      << (found.values - wanted.values).abs().max().item<double>();
  EXPECT_TRUE(same(found.first, wanted.first));
  EXPECT_TRUE(same(found.second, wanted.second));
  EXPECT_EQ(found.statistics.num_labels, wanted.statistics.num_labels);
  EXPECT_EQ(found.statistics.nonfinite_step, wanted.statistics.nonfinite_step);
  const double loss = wanted.statistics.loss_sum;
  EXPECT_NEAR(found.statistics.loss_sum, loss, same_bits ? 0.0 : 1e-4 * loss);
  EXPECT_NEAR(found.judged, wanted.judged, same_bits ? 0.0 : 1e-4 * wanted.judged);
  ASSERT_EQ(found.statistics.norms.size(), wanted.statistics.norms.size());
  for (std::size_t i = 0; same_bits && i < found.statistics.norms.size(); ++i) {
    EXPECT_EQ(found.statistics.norms[i], wanted.statistics.norms[i]) << i;
  }
}

c10::Stream own_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

/// A stream that is not the default one, of the GPU if there is one.
struct OwnStream {
  OwnStream() {
    if (device.is_cuda()) guard.emplace(own_stream(device));
  }
  at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  std::optional<c10::StreamGuard> guard{};
};

TEST(StepGraph, IsNotForACpu) { EXPECT_FALSE(DeviceGraph::is_possible(at::kCPU)); }

TEST(StepGraph, NumbersOnTheDeviceAreThoseOfTheHost) {
  std::vector<at::Device> devices = {at::kCPU};
  if (at::hasCUDA()) devices.emplace_back(at::kCUDA, 0);
  for (const at::Device device : devices) {
    const at::TensorOptions here(device);
    const auto one = [&](double value) { return at::full({1}, value, here.dtype(at::kDouble)); };
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> bad_steps;
    for (const bool on_device : {false, true}) {
      at::manual_seed(3);
      const transformer::AdamWState state{.values = at::randn({64}).to(device),
                                          .first = at::zeros({64}, here),
                                          .second = at::zeros({64}, here),
                                          .steps = at::zeros({1}, here)};
      const transformer::AdamWOptions rule{.learning_rate = on_device ? 30.0 : 30.0 * 7e-4,
                                           .weight_decay = 0.1,
                                           .num_decaying = 32,
                                           .rate = on_device ? one(7e-4) : at::Tensor()};
      const at::Tensor gradients = at::randn({64}).to(device);
      for (int i = 0; i < 2; ++i) {
        transformer::adamw_(state, gradients, at::ones({1}, here), at::zeros({1}, here), rule);
      }
      values.push_back(state.values);
      const transformer::GradNormState norms{
          .sums = at::full({3}, std::numeric_limits<double>::infinity(), here.dtype(at::kDouble)),
          .norms = at::ones({5}, here),
          .norm = at::zeros({1}, here),
          .divisor = at::zeros({1}, here),
          .nonfinite = at::zeros({1}, here),
          .nonfinite_step = one(0.0),
          .nonfinite_norms = at::zeros({5}, here),
          .step = on_device ? one(9.0) : at::Tensor()};
      transformer::clip_and_check(norms, on_device ? 0 : 9, 1.0);
      bad_steps.push_back(norms.nonfinite_step.cpu());
    }
    EXPECT_TRUE(at::equal(values[0], values[1])) << device;
    EXPECT_EQ(bad_steps[0].item<double>(), 9.0) << device;
    EXPECT_EQ(bad_steps[1].item<double>(), 9.0) << device;
  }
}

class StepGraphCase : public testing::TestWithParam<GraphCase> {};

INSTANTIATE_TEST_SUITE_P(
    Encodings, StepGraphCase,
    testing::Values(
        GraphCase{.name = "rope"}, GraphCase{.name = "rope_bfloat16", .type = at::kBFloat16},
        GraphCase{.name = "rope_label_indices", .type = at::kBFloat16, .label_indices = true},
        GraphCase{.name = "roper", .rotary_output = true, .type = at::kBFloat16},
        GraphCase{.name = "learned", .encoding = "learned", .type = at::kBFloat16},
        GraphCase{.name = "xpos", .encoding = "xpos", .type = at::kBFloat16},
        GraphCase{.name = "per_head",
                  .learn = RopeLearn::kPerHead,
                  .type = at::kBFloat16,
                  .same_bits = false},
        GraphCase{.name = "favor",
                  .attention = AttentionKind::kLinear,
                  .type = at::kBFloat16,
                  .same_bits = false},
        GraphCase{.name = "masked", .task = Task::kMaskedLm, .type = at::kBFloat16},
        GraphCase{.name = "t5",
                  .encoding = "t5",
                  .type = at::kBFloat16,
                  .encoding_rate = 30.0,
                  .same_bits = false},
        GraphCase{.name = "alibi", .encoding = "alibi", .type = at::kBFloat16, .same_bits = false},
        GraphCase{.name = "shaw",
                  .encoding = "shaw",
                  .type = at::kBFloat16,
                  .encoding_rate = 3.0,
                  .same_bits = false},
        GraphCase{.name = "transformer_xl",
                  .encoding = "transformer_xl",
                  .type = at::kBFloat16,
                  .same_bits = false}),
    name_of_case);

/// Without a GPU both are single launches.
TEST_P(StepGraphCase, GivesTheNumbersOfSingleLaunches) {
  const OwnStream own;
  const at::Device device = own.device;
  const Trained found = train(GetParam(), device, true);
  expect_equal(found, train(GetParam(), device, false), GetParam().same_bits);
  std::vector<bool> launched(kSteps, device.is_cuda());
  launched[0] = launched[1] = launched[kOtherStep - 1] = launched[kShortStep - 1] = false;
  EXPECT_EQ(found.launched, launched);
}

TEST(StepGraph, TellsTheFirstStepThatIsNotFinite) {
  const OwnStream own;
  const Trained found =
      train({}, own.device, true, /*last_rate=*/std::numeric_limits<double>::infinity());
  EXPECT_EQ(found.statistics.nonfinite_step, kSteps);
}

// ---- On a GPU -----------------------------------------------------------------------------------

TEST(StepGraph, IsNotForTheDefaultStreamNorForMasks) {
  SKIP_WITHOUT_GPU();
  const at::Device device(at::kCUDA, 0);
  const GraphCase c{.type = at::kBFloat16};
  EXPECT_EQ(train(c, device, true).launched, std::vector<bool>(kSteps, false));
  const c10::StreamGuard stream(own_stream(device));
  const Model model = lab::make_seeded_model(config_of(c), 5, device);
  model->train();
  TrainStep step(*model, {}, nullptr);
  for (std::int64_t i = 1; i <= 4; ++i) {
    TrainingBatch batch = batch_of(c.task, 4, i, device);
    batch.inputs.mask = at::ones_like(batch.inputs.ids);
    step.run(i, batch.inputs, batch.num_labels, 1e-3);
    EXPECT_FALSE(step.launched_graph());
  }
}

TEST(StepGraph, WorkThatWaitsIsLaunchedAsBefore) {
  SKIP_WITHOUT_GPU();
  const at::Device device(at::kCUDA, 0);
  const c10::StreamGuard stream(own_stream(device));
  const at::Tensor x = at::ones({4}, at::TensorOptions(device));
  DeviceGraph bad;
  EXPECT_THROW(bad.record(device, [&] { x.add_(x.sum().item<float>()); }), c10::Error);
  EXPECT_EQ(x.sum().item<float>(), 4.0F) << "nothing has run";
  DeviceGraph good;
  good.record(device, [&] { x.mul_(2.0); });
  EXPECT_EQ(x.sum().item<float>(), 4.0F);
  good.launch();
  good.launch();
  EXPECT_EQ(x.sum().item<float>(), 16.0F);
}

TEST(StepGraph, IsMadeByThreadsAtOnce) {
  SKIP_WITHOUT_GPU();
  const at::Device device(at::kCUDA, 0);
  const GraphCase c{.rotary_output = true, .type = at::kBFloat16};
  // Batches are drawn from PyTorch's generator, which threads share: made before.
  std::vector<TrainingBatch> batches;
  for (std::int64_t i = 0; i < 40; ++i) batches.push_back(batch_of(c.task, 4, 1, device));
  const auto values_after = [&](std::size_t steps) {
    const c10::StreamGuard stream(own_stream(device));
    const Model model = lab::make_seeded_model(config_of(c), 5, device);
    model->train();
    model->set_compute_type(c.type);
    TrainOptions options{.compute_type = c.type};
    options.deterministic = true;
    TrainStep step(*model, options, nullptr);
    for (std::size_t i = 0; i < steps; ++i) {
      step.run(static_cast<std::int64_t>(i) + 1, batches[i].inputs, batches[i].num_labels, 1e-3);
    }
    EXPECT_TRUE(step.launched_graph());
    return step.parameters().values().cpu();
  };
  const at::Tensor wanted = values_after(batches.size());
  std::vector<at::Tensor> found(4);
  std::vector<std::thread> threads;
  for (at::Tensor& values : found) {
    threads.emplace_back([&] { values = values_after(batches.size()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& values : found) EXPECT_TRUE(at::equal(values, wanted));
}

TEST(StepGraph, ImagesAreLearntAsBySingleLaunches) {
  const OwnStream own;
  const at::Device device = own.device;
  lab::ImageData data{.classes = lab::kNumShapes, .size = 32};
  data.train = lab::draw_shapes(64, 1);
  data.train.pixels = data.train.pixels.to(device);
  data.train.labels = data.train.labels.to(device);
  for (const lab::PatchEncoding encoding :
       {lab::PatchEncoding::kLearned, lab::PatchEncoding::kAxial, lab::PatchEncoding::kMixed}) {
    std::vector<std::vector<double>> losses;
    for (const bool graphs : {false, true}) {
      Config layers = config_of({});
      const lab::Vit model = lab::make_vit(
          {.encoding = encoding, .patch = 4, .size = 32, .classes = data.classes, .layers = layers},
          3, device);
      lab::VitPlan plan{.batches = {.rows = 16}, .label_smoothing = 0.1};
      plan.plan.graphs = graphs;
      plan.plan.curve_points = 8;
      plan.plan.options.steps = 8;
      plan.plan.options.learning_rate = 1e-3;
      plan.plan.options.compute_type = at::kBFloat16;
      const lab::Trained trained =
          lab::train_vit(*model, data, plan, {.device = device, .folder = "none"});
      losses.emplace_back();
      for (const auto& [step, loss] : trained.curve) losses.back().push_back(loss);
    }
    ASSERT_EQ(losses[0].size(), losses[1].size());
    for (std::size_t i = 0; i < losses[0].size(); ++i) {
      // PyTorch's attention sums gradients in any order here.
      EXPECT_NEAR(losses[0][i], losses[1][i], 0.02) << "step " << i + 1;
    }
  }
}

TEST(StepGraph, TrainingContinuesFromACheckpoint) {
  const OwnStream own;
  const at::Device device = own.device;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "step_graphs_continue";
  // Not remove_all(), which crashes with some builds of LibTorch (checkpoint/folder.h).
  remove_tree(folder);
  const GraphCase c{.type = at::kBFloat16};
  const auto train_lab = [&](bool graphs, std::int64_t interrupt_at) {
    lab::TrainPlan plan;
    plan.graphs = graphs;
    plan.curve_points = 5;
    plan.options.steps = 20;
    plan.options.learning_rate = 1e-3;
    plan.options.compute_type = c.type;
    std::int64_t at_step = 0;
    const lab::UnitRun run{.device = device, .folder = folder, .stop = [&] {
                             return interrupt_at > 0 && at_step == interrupt_at;
                           }};
    const Model model = lab::make_seeded_model(config_of(c), 5, device);
    const lab::Trained trained = lab::train_model(
        *model, plan,
        [&](std::int64_t step) {
          at_step = step;
          return batch_of(c.task, 4, step, device);
        },
        run);
    std::vector<double> losses;
    for (const auto& [step, loss] : trained.curve) losses.push_back(loss);
    return losses;
  };
  const std::vector<double> wanted = train_lab(false, 0);
  EXPECT_EQ(train_lab(true, 0), wanted);
  EXPECT_THROW(train_lab(true, 11), lab::Stopped);
  EXPECT_EQ(train_lab(true, 0), wanted);
  remove_tree(folder);
}

}  // namespace
}  // namespace rotary::roformer
