// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A training step on every available device: gathered gradients, norms, AdamW, and the
// low-precision weights of the parameter store.
#include "roformer/train/step.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "roformer/model/layers.h"
#include "roformer_testing.h"
#include "rotary/frequencies.h"
#include "rotary/torch_rope.h"
#include "rotary/transformer/layers.h"
#include "rotary/transformer/optimizer.h"

namespace rotary::roformer {
namespace {

std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (at::hasCUDA()) all.emplace_back(at::kCUDA, 0);
  return all;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach().cpu().to(at::kDouble) - b.detach().cpu().to(at::kDouble))
      .abs()
      .max()
      .item<double>();
}

// ---- Flat tensors -------------------------------------------------------------------------------

TEST(GatherSegments, WritesOrAccumulates) {
  for (const at::Device device : devices()) {
    at::manual_seed(1);
    std::vector<transformer::SegmentSource> sources;
    std::int64_t size = 0;
    const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
    for (std::int64_t i = 0; i < 150; ++i) {  // more than one launch takes
      const at::Tensor x = at::randn({i % 7 + 1, i == 40 ? 5000 : 13}).to(types[i % 3]).to(device);
      sources.push_back({.from = i % 5 == 0 ? x.t() : x, .offset = size});
      size += (x.numel() + 3) / 4 * 4;
    }
    const at::Tensor flat = at::full({size}, 0.5F, at::TensorOptions(device));
    transformer::gather_segments(flat, sources);
    transformer::gather_segments(flat, sources, /*accumulate=*/true);
    for (const transformer::SegmentSource& source : sources) {
      const at::Tensor found = flat.narrow(0, source.offset, source.from.numel());
      EXPECT_TRUE(at::equal(found, source.from.flatten().to(at::kFloat) * 2)) << source.offset;
    }
    EXPECT_EQ(flat[13].item<float>(), 0.5F) << "what is between segments stays";
    EXPECT_THAT(thrown([&] { transformer::gather_segments(flat, {{sources[0].from, size - 4}}); }),
                testing::HasSubstr("[gather_segments] a segment must"));
  }
}

TEST(AddRows, SumsRepeatedRows) {
  for (const at::Device device : devices()) {
    for (const std::int64_t count : {1, 31, 32, 33, 700}) {
      at::manual_seed(4);
      // Some rows many times, so that a run is longer than the chunk of a block.
      at::Tensor rows = at::randint(0, 20, {count}, at::kLong);
      rows = at::where(at::rand({count}) < 0.5, 7, rows);
      const at::Tensor values = at::randn({count, 40}).to(at::kBFloat16);
      const at::Tensor table = at::randn({20, 40});
      at::Tensor wanted = table.to(at::kDouble);
      wanted.index_add_(0, rows, at::where(rows.eq(3).unsqueeze(1), 0, values.to(at::kDouble)));
      const at::Tensor found = table.to(device).clone();
      transformer::add_rows(found, rows.to(device), values.to(device), 3);
      EXPECT_LE(difference(found, wanted), 2e-5) << count << " on " << device;
    }
    EXPECT_THAT(thrown([&] {
                  transformer::add_rows(at::zeros({2, 8}), at::zeros({3}, at::kLong),
                                        at::zeros({2, 8}));
                }),
                testing::HasSubstr("[add_rows] values must be [3, 8]"));
  }
}

TEST(SegmentNorms, MatchNormsOfSingleSegments) {
  for (const at::Device device : devices()) {
    at::manual_seed(2);
    const at::Tensor flat = at::randn({300000}).to(device);
    const std::vector<transformer::Segment> segments = {
        {0, 1}, {4, 3}, {64, 5}, {128, 200001}, {200192, 32768}, {250000, 0}};
    const at::Tensor norms = transformer::SegmentNorms(segments, device).of(flat);
    ASSERT_EQ(norms.size(0), 6);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const double wanted = flat.narrow(0, segments[i].offset, segments[i].size)
                                .to(at::kDouble)
                                .norm()
                                .item<double>();
      EXPECT_NEAR(norms[static_cast<std::int64_t>(i)].item<double>(), wanted, 1e-6 * wanted) << i;
    }
  }
}

TEST(ClipAndCheck, ClipsAndKeepsTheFirstNonFiniteStep) {
  for (const at::Device device : devices()) {
    const at::TensorOptions here(device);
    const transformer::GradNormState state{
        .sums = at::zeros({3}, here.dtype(at::kDouble)),
        .norms = at::zeros({300}, here),
        .norm = at::zeros({1}, here),
        .divisor = at::zeros({1}, here),
        .nonfinite = at::zeros({1}, here),
        .nonfinite_step = at::zeros({1}, here.dtype(at::kDouble)),
        .nonfinite_norms = at::zeros({300}, here)};
    const at::Tensor norms = at::linspace(0.0, 29.9, 300, here);
    const double all = norms.to(at::kDouble).norm().item<double>() / 4.0;  // a label
    const auto check = [&](std::int64_t step, double loss, float first_norm, double clip) {
      state.sums.copy_(at::tensor({loss, 4.0, 0.0}, at::kDouble));
      state.norms.copy_(norms);
      state.norms[0] = first_norm;
      transformer::clip_and_check(state, step, clip);
    };
    check(5, 2.0, 0.0F, 0.0);
    EXPECT_LE(difference(state.norms, norms / 4), 1e-6);
    EXPECT_NEAR(state.norm.item<double>(), all, 1e-6 * all);
    EXPECT_EQ(state.divisor.item<float>(), 4.0F);
    check(6, 2.0, 0.0F, 2 * all);
    EXPECT_EQ(state.divisor.item<float>(), 4.0F) << "below the norm to clip to";
    check(7, 2.0, 0.0F, all / 2);
    EXPECT_NEAR(state.divisor.item<double>(), 8.0, 1e-5);
    EXPECT_EQ(state.nonfinite.item<float>(), 0.0F);
    check(8, std::nan(""), 0.0F, 1.0);
    EXPECT_EQ(state.nonfinite.item<float>(), 1.0F);
    EXPECT_EQ(state.nonfinite_step.item<double>(), 8.0);
    EXPECT_LE(difference(state.nonfinite_norms, norms / 4), 1e-6);
    check(9, 2.0, INFINITY, 1.0);
    EXPECT_EQ(state.nonfinite_step.item<double>(), 8.0) << "the first";
    EXPECT_LE(difference(state.nonfinite_norms, norms / 4), 1e-6);
    state.nonfinite.zero_();
    check(10, 2.0, INFINITY, 1.0);
    EXPECT_EQ(state.nonfinite_step.item<double>(), 10.0);
    EXPECT_TRUE(std::isinf(state.nonfinite_norms[0].item<float>()));
    EXPECT_THAT(thrown([&] {
                  transformer::GradNormState wrong = state;
                  wrong.nonfinite_norms = at::zeros({299}, here);
                  transformer::clip_and_check(wrong, 1, 1.0);
                }),
                testing::HasSubstr("[clip_and_check] nonfinite_norms must be [300]"));
  }
}

TEST(AdamWStep, MatchesAcrossDevicesAndUpdatesTheLowPrecisionCopy) {
  std::map<int, at::Tensor> values;
  for (const at::Device device : devices()) {
    at::manual_seed(3);
    const at::TensorOptions here(device);
    const transformer::AdamWState state{.values = at::randn({4096}).to(device),
                                        .first = at::zeros({4096}, here),
                                        .second = at::zeros({4096}, here),
                                        .steps = at::zeros({1}, here),
                                        .narrow = at::zeros({4096}, here.dtype(at::kBFloat16))};
    const transformer::AdamWOptions rule{
        .learning_rate = 0.1, .weight_decay = 0.5, .num_decaying = 1024};
    const at::Tensor divisor = at::full({1}, 3.0F, here);
    const auto step = [&](float skip) {
      transformer::adamw_(state, at::randn({4096}).to(device), divisor, at::full({1}, skip, here),
                          rule);
      EXPECT_TRUE(at::equal(*state.narrow, state.values.to(at::kBFloat16)));
    };
    for (int i = 0; i < 3; ++i) step(0.0F);
    const at::Tensor before = state.values.clone();
    state.narrow->zero_();
    step(1.0F);
    EXPECT_TRUE(at::equal(before, state.values));
    EXPECT_EQ(state.steps.item<float>(), 3.0F);
    values[static_cast<int>(values.size())] = state.values.cpu();
  }
  for (const auto& [i, x] : values) EXPECT_LE(difference(x, values[0]), 2e-6) << i;
}

// ---- Heads -------------------------------------------------------------------------------------

TEST(SplitHeads, RotationTableGivesTheSameGradients) {
  const std::string rope =
      torch::to_text({.frequencies = make_frequencies({.rotary_dim = 16, .theta = 100.0}),
                      .layout = {.head_dim = 16, .pairing = Pairing::kInterleaved}});
  for (const at::Device device : devices()) {
    const at::Tensor cuts = at::tensor({0, 30, 37, 600, 1200}, at::kInt).to(device);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const bool packed : {false, true}) {
        for (const std::int64_t projections : {1, 2, 3}) {
          transformer::SplitHeadsOptions options{
              .heads = 3,
              .num_projections = projections,
              .num_rotated = projections > 1 ? projections - 1 : 1,
              .rope = rope};
          if (packed) options.positions.cu_seqlens = cuts;
          const at::Tensor x = at::randn({packed ? 1 : 4, packed ? 1200 : 300, projections * 48})
                                   .to(device, type)
                                   .requires_grad_();
          options.bias = at::zeros({projections * 48}, at::TensorOptions(device)).requires_grad_();
          const at::Tensor grad = at::randn(x.sizes()).to(device, type);
          const auto gradients = [&] {
            at::Tensor sum = at::zeros({}, at::TensorOptions(device));
            std::int64_t first = 0;
            for (const at::Tensor& part : transformer::split_heads_(x * 1, options)) {
              sum = sum + (part.flatten(2) * grad.narrow(2, first, 48)).sum();
              first += 48;
            }
            return ::torch::autograd::grad({sum}, {x, *options.bias});
          };
          const auto wanted = gradients();
          options.table = transformer::rotation_table(rope, options.positions, x.size(1),
                                                      packed ? 600 : 300, x);
          ASSERT_TRUE(options.table.has_value());
          const auto found = gradients();
          EXPECT_LE(difference(found[0], wanted[0]), type == at::kFloat ? 2e-6 : 0.04)
              << projections;
          EXPECT_LE(difference(found[1], wanted[1]), type == at::kFloat ? 2e-4 : 1.0)
              << projections;
        }
      }
    }
  }
}

// ---- The model in a step ------------------------------------------------------------------------

Config step_config() {
  Config config;
  config.task = Task::kMaskedLm;
  config.vocab_size = 48;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  config.initializer_range = 0.1;
  return config;
}

/// The second row of five has no labels.
Inputs some_labels(at::Device device, std::int64_t seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  const at::Tensor ids = at::randint(1, 48, {5, 16}, at::kLong);
  at::Tensor labels = at::where(at::rand({5, 16}) < 0.25, ids, kIgnored);
  labels[1].fill_(kIgnored);
  return {.ids = ids.to(device), .labels = labels.to(device), .logits_at = LogitsAt::kLabels};
}

std::int64_t count(const Inputs& inputs) {
  return inputs.labels->ne(kIgnored).sum().item<int64_t>();
}

Model model_on(at::Device device) {
  at::manual_seed(7);
  Model model = make_model(step_config());
  model->to(device);
  model->train();
  return model;
}

/// Gradients of the summed losses by autograd alone.
std::map<std::string, at::Tensor> plain_gradients(at::Device device, at::ScalarType type,
                                                  const std::vector<Inputs>& batches) {
  const Model model = model_on(device);
  model->set_compute_type(type);
  for (const Inputs& inputs : batches) {
    (model->forward(inputs).loss.to(at::kFloat) * static_cast<double>(count(inputs))).backward();
  }
  std::map<std::string, at::Tensor> all;
  for (const auto& item : model->named_parameters()) all[item.key()] = item.value().grad();
  return all;
}

TEST(TrainStep, AccumulatesTheGradientsOfBackward) {
  for (const at::Device device : devices()) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const std::vector<Inputs> batches = {some_labels(device, 1), some_labels(device, 2),
                                           some_labels(device, 3)};
      const Model model = model_on(device);
      model->set_compute_type(type);
      TrainStep train_step(*model, {.clip_norm = 0.0, .compute_type = type}, nullptr);
      for (const std::int64_t size : {3, 1}) {  // the second step starts from zero
        const std::vector<Inputs> some(batches.begin(), batches.begin() + size);
        const auto wanted = plain_gradients(device, type, some);
        for (const Inputs& inputs : some) train_step.add_batch(inputs, count(inputs));
        for (const auto& segment : train_step.parameters().segments()) {
          const at::Tensor& right = wanted.at(segment.name);
          const double scale = right.abs().max().item<double>();
          EXPECT_LE(difference(segment.gradient, right),
                    (type == at::kFloat ? 1e-5 : 0.02) * scale + 1e-6)
              << segment.name << " on " << device << " in " << type;
        }
        train_step.update(1, 0.0, false);  // nothing changes but the moments
      }
    }
  }
}

TEST(TrainStep, StepWithoutLabelsHasNoGradient) {
  const Model model = model_on(at::kCPU);
  TrainStep train_step(*model, {}, nullptr);
  const Inputs inputs = some_labels(at::kCPU, 1);
  train_step.add_batch(inputs, count(inputs));
  train_step.update(1, 1e-3, false);
  train_step.add_batch(inputs, 0);
  train_step.update(2, 1e-3, false);
  EXPECT_EQ(train_step.peek().gradient_norm, 0.0);
}

TEST(ParameterStore, FindsWeightsWhileTheyAreCurrent) {
  // Of 64 elements each, so that they are adjacent in the buffer.
  ::torch::nn::Module module;
  std::vector<Parameter> weights;
  for (std::int64_t i = 0; i < 3; ++i) {
    const at::Tensor weight = module.register_parameter(std::to_string(i), at::randn({8, 8}));
    weights.push_back({.tensor = weight, .index = i});
  }
  ParameterStore store(module);
  EXPECT_FALSE(store.find(at::kBFloat16, weights).defined()) << "no copy yet";
  store.add_low_precision(at::kBFloat16);
  const at::Tensor& narrow = *store.low_precision();
  EXPECT_EQ(store.find(at::kBFloat16, weights).data_ptr(), narrow.data_ptr());
  EXPECT_EQ(store.find(at::kBFloat16, weights).sizes(), at::IntArrayRef({24, 8}));
  EXPECT_TRUE(
      at::equal(store.find(at::kBFloat16, weights).flatten(), store.values().to(at::kBFloat16)));
  EXPECT_EQ(store.find(at::kFloat, weights).data_ptr(), store.values().data_ptr());
  EXPECT_FALSE(store.find(at::kHalf, weights).defined());
  EXPECT_FALSE(store.find(at::kBFloat16, {weights[0], weights[2]}).defined()) << "a gap";
  EXPECT_FALSE(store.find(at::kBFloat16, {{.tensor = weights[0].tensor}}).defined()) << "no index";
  {
    const at::NoGradGuard no_grad;
    weights[1].tensor.add_(1);
  }
  EXPECT_FALSE(store.find(at::kBFloat16, weights).defined()) << "a parameter has changed";
  EXPECT_TRUE(store.find(at::kFloat, weights).defined());
  store.mark_written();
  EXPECT_TRUE(store.find(at::kBFloat16, weights).defined()) << "said to be written, too";
}

TEST(ParameterStore, IndicesAreThoseOfNamedParameters) {
  for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification}) {
    Config config = step_config();
    config.task = task;
    config.tie_word_embeddings = false;
    const Model model = make_model(config);
    const std::vector<at::Tensor> parameters = model->parameters();
    std::size_t num_indexed = 0;
    for (const auto& module : model->modules(/*include_self=*/false)) {
      const auto* indexed = dynamic_cast<const IndexedParameters*>(module.get());
      if (indexed == nullptr) continue;
      auto index = static_cast<std::size_t>(indexed->first_parameter);
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
        EXPECT_TRUE(own.is_same(parameters.at(index++))) << module->name();
        ++num_indexed;
      }
    }
    EXPECT_GE(num_indexed, 2u * 6u * 2u + 1u) << "the dense layers and the words";
  }
}

TEST(ParameterStore, LeavesFrozenParametersAlone) {
  const Model model = model_on(at::kCPU);
  const Inputs inputs = some_labels(at::kCPU, 1);
  at::Tensor frozen;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("layer.0.attention.self.key") == std::string::npos &&
        item.key().find("word_embeddings") == std::string::npos) {
      continue;
    }
    item.value().set_requires_grad(false);
    frozen = item.value();
  }
  model->set_compute_type(at::kBFloat16);
  TrainStep train_step(*model, {.compute_type = at::kBFloat16}, nullptr);
  const at::Tensor before = frozen.clone();
  train_step.add_batch(inputs, count(inputs));
  train_step.update(1, 1e-3, false);
  EXPECT_TRUE(at::equal(before, frozen));
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_GT(train_step.peek().gradient_norm, 0.0);
}

}  // namespace
}  // namespace rotary::roformer
