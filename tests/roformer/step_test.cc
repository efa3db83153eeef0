// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a step does to flat tensors, on every device that is here: gradients gathered, their norms,
// AdamW, and weights that are kept in a narrower type.
#include "roformer/train/step.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "roformer/model/mixed.h"
#include "roformer_testing.h"
#include "rotary/frequencies.h"
#include "rotary/torch_layers.h"
#include "rotary/torch_optimizer.h"
#include "rotary/torch_rope.h"

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

TEST(GatherPieces, WritesOrAddsEachWhereItBelongs) {
  for (const at::Device device : devices()) {
    at::manual_seed(1);
    std::vector<torch::Piece> pieces;
    std::int64_t size = 0;
    const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
    for (std::int64_t i = 0; i < 150; ++i) {  // more than one launch has
      const at::Tensor x = at::randn({i % 7 + 1, i == 40 ? 5000 : 13}).to(types[i % 3]).to(device);
      pieces.push_back({.from = i % 5 == 0 ? x.t() : x, .offset = size});
      size += (x.numel() + 3) / 4 * 4;
    }
    const at::Tensor flat = at::full({size}, 0.5F, at::TensorOptions(device));
    torch::gather_pieces(flat, pieces);
    torch::gather_pieces(flat, pieces, /*adds=*/true);
    for (const torch::Piece& piece : pieces) {
      const at::Tensor found = flat.narrow(0, piece.offset, piece.from.numel());
      EXPECT_TRUE(at::equal(found, piece.from.flatten().to(at::kFloat) * 2)) << piece.offset;
    }
    EXPECT_EQ(flat[13].item<float>(), 0.5F) << "what is between pieces stays";
    EXPECT_THAT(thrown([&] { torch::gather_pieces(flat, {{pieces[0].from, size - 4}}); }),
                testing::HasSubstr("[gather_pieces] a piece must"));
  }
}

TEST(AddRows, SumsThoseOfARow) {
  for (const at::Device device : devices()) {
    for (const std::int64_t count : {1, 31, 32, 33, 700}) {
      at::manual_seed(4);
      // Some rows many times, so that a run of them is longer than what a block has.
      at::Tensor rows = at::randint(0, 20, {count}, at::kLong);
      rows = at::where(at::rand({count}) < 0.5, 7, rows);
      const at::Tensor values = at::randn({count, 40}).to(at::kBFloat16);
      const at::Tensor table = at::randn({20, 40});
      at::Tensor wanted = table.to(at::kDouble);
      wanted.index_add_(0, rows, at::where(rows.eq(3).unsqueeze(1), 0, values.to(at::kDouble)));
      const at::Tensor found = table.to(device).clone();
      torch::add_rows(found, rows.to(device), values.to(device), 3);
      EXPECT_LE(difference(found, wanted), 2e-5) << count << " on " << device;
    }
    EXPECT_THAT(thrown([&] {
                  torch::add_rows(at::zeros({2, 8}), at::zeros({3}, at::kLong), at::zeros({2, 8}));
                }),
                testing::HasSubstr("[add_rows] values must be [3, 8]"));
  }
}

TEST(PartNorms, AreThoseOfThePartsAlone) {
  for (const at::Device device : devices()) {
    at::manual_seed(2);
    const at::Tensor flat = at::randn({300000}).to(device);
    const std::vector<torch::PartNorms::Part> parts = {{0, 1},        {4, 3},          {64, 5},
                                                       {128, 200001}, {200192, 32768}, {250000, 0}};
    const at::Tensor norms = torch::PartNorms(parts, device).of(flat);
    ASSERT_EQ(norms.size(0), 6);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double wanted =
          flat.narrow(0, parts[i].offset, parts[i].size).to(at::kDouble).norm().item<double>();
      EXPECT_NEAR(norms[static_cast<std::int64_t>(i)].item<double>(), wanted, 1e-6 * wanted) << i;
    }
  }
}

TEST(JudgeStep, ClipsAndRemembersTheFirstBadStep) {
  for (const at::Device device : devices()) {
    const at::TensorOptions here(device);
    const torch::StepVerdict verdict{.sums = at::zeros({3}, here.dtype(at::kDouble)),
                                     .norms = at::zeros({300}, here),
                                     .norm = at::zeros({1}, here),
                                     .divisor = at::zeros({1}, here),
                                     .bad = at::zeros({1}, here),
                                     .bad_step = at::zeros({1}, here.dtype(at::kDouble)),
                                     .bad_norms = at::zeros({300}, here)};
    const at::Tensor norms = at::linspace(0.0, 29.9, 300, here);
    const double all = norms.to(at::kDouble).norm().item<double>() / 4.0;  // a label
    const auto judge = [&](std::int64_t step, double loss, float first_norm, double clip) {
      verdict.sums.copy_(at::tensor({loss, 4.0, 0.0}, at::kDouble));
      verdict.norms.copy_(norms);
      verdict.norms[0] = first_norm;
      torch::judge_step(verdict, step, clip);
    };
    judge(5, 2.0, 0.0F, 0.0);
    EXPECT_LE(difference(verdict.norms, norms / 4), 1e-6);
    EXPECT_NEAR(verdict.norm.item<double>(), all, 1e-6 * all);
    EXPECT_EQ(verdict.divisor.item<float>(), 4.0F);
    judge(6, 2.0, 0.0F, 2 * all);
    EXPECT_EQ(verdict.divisor.item<float>(), 4.0F) << "below the norm to clip to";
    judge(7, 2.0, 0.0F, all / 2);
    EXPECT_NEAR(verdict.divisor.item<double>(), 8.0, 1e-5);
    EXPECT_EQ(verdict.bad.item<float>(), 0.0F);
    judge(8, std::nan(""), 0.0F, 1.0);
    EXPECT_EQ(verdict.bad.item<float>(), 1.0F);
    EXPECT_EQ(verdict.bad_step.item<double>(), 8.0);
    EXPECT_LE(difference(verdict.bad_norms, norms / 4), 1e-6);
    judge(9, 2.0, INFINITY, 1.0);
    EXPECT_EQ(verdict.bad_step.item<double>(), 8.0) << "the first";
    EXPECT_LE(difference(verdict.bad_norms, norms / 4), 1e-6);
    verdict.bad.zero_();
    judge(10, 2.0, INFINITY, 1.0);
    EXPECT_EQ(verdict.bad_step.item<double>(), 10.0);
    EXPECT_TRUE(std::isinf(verdict.bad_norms[0].item<float>()));
    EXPECT_THAT(thrown([&] {
                  torch::StepVerdict wrong = verdict;
                  wrong.bad_norms = at::zeros({299}, here);
                  torch::judge_step(wrong, 1, 1.0);
                }),
                testing::HasSubstr("[judge_step] bad_norms must be [300]"));
  }
}

TEST(AdamWStep, IsTheSameOnEveryDeviceAndKeepsANarrowCopy) {
  std::map<int, at::Tensor> values;
  for (const at::Device device : devices()) {
    at::manual_seed(3);
    const at::TensorOptions here(device);
    const torch::AdamWState state{.values = at::randn({4096}).to(device),
                                  .first = at::zeros({4096}, here),
                                  .second = at::zeros({4096}, here),
                                  .steps = at::zeros({1}, here),
                                  .narrow = at::zeros({4096}, here.dtype(at::kBFloat16))};
    const torch::AdamWRule rule{.learning_rate = 0.1, .weight_decay = 0.5, .num_decaying = 1024};
    const at::Tensor divisor = at::full({1}, 3.0F, here);
    const auto step = [&](float skip) {
      torch::adamw_(state, at::randn({4096}).to(device), divisor, at::full({1}, skip, here), rule);
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

TEST(SplitHeads, ATableOfAnglesChangesNothing) {
  const std::string rope =
      torch::to_text({.frequencies = make_frequencies({.rotary_dim = 16, .theta = 100.0}),
                      .layout = {.head_dim = 16, .pairing = Pairing::kInterleaved}});
  for (const at::Device device : devices()) {
    const at::Tensor cuts = at::tensor({0, 30, 37, 600, 1200}, at::kInt).to(device);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const bool packed : {false, true}) {
        for (const std::int64_t parts : {1, 2, 3}) {
          torch::SplitHeadsOptions options{
              .heads = 3, .parts = parts, .turned = parts > 1 ? parts - 1 : 1, .rope = rope};
          if (packed) options.where.cu_seqlens = cuts;
          const at::Tensor x = at::randn({packed ? 1 : 4, packed ? 1200 : 300, parts * 48})
                                   .to(device, type)
                                   .requires_grad_();
          options.bias = at::zeros({parts * 48}, at::TensorOptions(device)).requires_grad_();
          const at::Tensor grad = at::randn(x.sizes()).to(device, type);
          const auto gradients = [&] {
            at::Tensor sum = at::zeros({}, at::TensorOptions(device));
            std::int64_t first = 0;
            for (const at::Tensor& part : torch::split_heads_(x * 1, options)) {
              sum = sum + (part.flatten(2) * grad.narrow(2, first, 48)).sum();
              first += 48;
            }
            return ::torch::autograd::grad({sum}, {x, *options.bias});
          };
          const auto wanted = gradients();
          options.table = torch::turn_table(rope, options.where, x.size(1), packed ? 600 : 300, x);
          ASSERT_TRUE(options.table.has_value());
          const auto found = gradients();
          EXPECT_LE(difference(found[0], wanted[0]), type == at::kFloat ? 2e-6 : 0.04) << parts;
          EXPECT_LE(difference(found[1], wanted[1]), type == at::kFloat ? 2e-4 : 1.0) << parts;
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

/// What backward() alone gives for the sum of losses.
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

TEST(StepEngine, GathersWhatBackwardGives) {
  for (const at::Device device : devices()) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const std::vector<Inputs> batches = {some_labels(device, 1), some_labels(device, 2),
                                           some_labels(device, 3)};
      const Model model = model_on(device);
      model->set_compute_type(type);
      StepEngine engine(*model, {.clip_norm = 0.0, .compute_type = type}, nullptr);
      for (const std::int64_t size : {3, 1}) {  // the second step begins anew
        const std::vector<Inputs> some(batches.begin(), batches.begin() + size);
        const auto wanted = plain_gradients(device, type, some);
        for (const Inputs& inputs : some) engine.add_batch(inputs, count(inputs));
        for (const auto& part : engine.parameters().parts()) {
          const at::Tensor& right = wanted.at(part.name);
          const double scale = right.abs().max().item<double>();
          EXPECT_LE(difference(part.gradient, right),
                    (type == at::kFloat ? 1e-5 : 0.02) * scale + 1e-6)
              << part.name << " on " << device << " in " << type;
        }
        engine.update(1, 0.0, false);  // nothing changes but the moments
      }
    }
  }
}

TEST(StepEngine, AStepWithoutLabelsHasNoGradient) {
  const Model model = model_on(at::kCPU);
  StepEngine engine(*model, {}, nullptr);
  const Inputs inputs = some_labels(at::kCPU, 1);
  engine.add_batch(inputs, count(inputs));
  engine.update(1, 1e-3, false);
  engine.add_batch(inputs, 0);
  engine.update(2, 1e-3, false);
  EXPECT_EQ(engine.peek().gradient_norm, 0.0);
}

TEST(NarrowWeights, AreUsedWhileTheyAreCurrent) {
  const at::Tensor values = at::randn({3 * 8});
  const at::Tensor narrow = values.to(at::kBFloat16);
  std::vector<at::Tensor> parameters;
  NarrowWeights kept;
  for (std::int64_t i = 0; i < 3; ++i) {
    parameters.push_back(values.narrow(0, 8 * i, 8).view({2, 4}).detach());
    kept.add(parameters.back(), narrow.narrow(0, 8 * i, 8).view({2, 4}));
  }
  EXPECT_FALSE(kept.find(at::kBFloat16, parameters).defined()) << "not known to be current";
  kept.set_current();
  EXPECT_EQ(kept.find(at::kBFloat16, parameters).data_ptr(), narrow.data_ptr());
  EXPECT_EQ(kept.find(at::kBFloat16, parameters).sizes(), at::IntArrayRef({6, 4}));
  EXPECT_EQ(kept.find(at::kFloat, parameters).data_ptr(), values.data_ptr());
  EXPECT_FALSE(kept.find(at::kHalf, parameters).defined());
  EXPECT_FALSE(kept.find(at::kBFloat16, {parameters[0], parameters[2]}).defined()) << "a gap";
  parameters[1].add_(1);
  EXPECT_FALSE(kept.find(at::kBFloat16, parameters).defined()) << "a parameter has changed";
}

}  // namespace
}  // namespace rotary::roformer
