// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotations of a layer's own: learned frequencies, positions by content, outputs rotated back.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <filesystem>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/model/layer_rotation.h"
#include "roformer/model/parameter_store.h"
#include "roformer/model_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

struct Mode {
  const char* name;
  RopeLearn learn = RopeLearn::kNothing;
  PositionStepsOf steps = PositionStepsOf::kNone;
  bool output = false;
  Task task = Task::kMaskedLm;
};

std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name; }

Config config_of(const Mode& mode) {
  Config config = small(mode.task);
  config.rope_learn = mode.learn;
  config.position_steps = mode.steps;
  config.rotary_output = mode.output;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  return config;
}

const Mode kModes[] = {
    {.name = "Gain", .learn = RopeLearn::kGain},
    {.name = "Frequencies", .learn = RopeLearn::kFrequencies},
    {.name = "PerHead", .learn = RopeLearn::kPerHead},
    {.name = "ReceptiveField", .learn = RopeLearn::kReceptiveField},
    {.name = "Roper", .output = true},
    {.name = "PerHeadRoper", .learn = RopeLearn::kPerHead, .output = true},
    {.name = "TokenSteps", .steps = PositionStepsOf::kToken},
    {.name = "HeadSteps", .steps = PositionStepsOf::kHead},
    {.name = "TokenStepsGainRoper",
     .learn = RopeLearn::kGain,
     .steps = PositionStepsOf::kToken,
     .output = true},
    {.name = "TokenStepsPerHead", .learn = RopeLearn::kPerHead, .steps = PositionStepsOf::kToken},
    {.name = "HeadStepsRoperCausal",
     .steps = PositionStepsOf::kHead,
     .output = true,
     .task = Task::kCausalLm},
};

/// The rotation's parameters moved by random amounts, so that it differs from the rope.
void disturb(ModelImpl& model) {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  for (const auto& item : model.named_parameters()) {
    if (item.key().find(".rotation.") == std::string::npos) continue;
    item.value().add_(at::randn_like(item.value()), 0.1);
  }
}

class LayerRotationTest : public ::testing::TestWithParam<Mode> {};

TEST_P(LayerRotationTest, BeginsAsTheRope) {
  Mode plain = GetParam();
  plain.learn = RopeLearn::kNothing;
  plain.steps = PositionStepsOf::kNone;
  const at::Tensor ids = ids_of(2, 9);
  const at::NoGradGuard no_grad;
  const at::Tensor a = make(config_of(GetParam()))->forward({.ids = ids}).logits;
  const at::Tensor b = make(config_of(plain))->forward({.ids = ids}).logits;
  EXPECT_LT(apart(a, b), 2e-4);
}

TEST_P(LayerRotationTest, LearnsAndIsSavedAndLoaded) {
  const Model model = make(config_of(GetParam()));
  disturb(*model);
  model->train();
  const at::Tensor ids = ids_of(2, 9);
  ::torch::optim::AdamW optimizer(model->parameters(), ::torch::optim::AdamWOptions(0.003));
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = model->forward({.ids = ids, .labels = ids}).loss;
    loss.backward();
    for (const auto& item : model->named_parameters()) {
      if (step != 0 || item.key().find(".rotation.") == std::string::npos) continue;
      EXPECT_TRUE(item.value().grad().defined() &&
                  item.value().grad().abs().sum().item<double>() > 0.0)
          << item.key();
    }
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.8 * first);

  model->eval();
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / (std::string("rotation_") + GetParam().name);
  save_model(folder, *model);
  const Model loaded = load_complete_model(folder);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(model->forward({.ids = ids}).logits, loaded->forward({.ids = ids}).logits));
}

TEST_P(LayerRotationTest, PackedSequencesAreTheSequences) {
  const Model model = make(config_of(GetParam()));
  disturb(*model);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(1, 12);
  const at::Tensor packed =
      model->forward({.ids = ids, .cu_seqlens = at::tensor({0, 5, 12}, at::kInt), .max_seqlen = 7})
          .logits;
  const at::Tensor a = model->forward({.ids = ids.narrow(1, 0, 5)}).logits;
  const at::Tensor b = model->forward({.ids = ids.narrow(1, 5, 7)}).logits;
  EXPECT_LT(apart(packed, at::cat({a, b}, 1)), 2e-4);
}

TEST_P(LayerRotationTest, OutputsAtSomeTokensAreThoseOfAll) {
  const Model model = make(config_of(GetParam()));
  disturb(*model);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 9);
  const at::Tensor tokens = at::tensor({1, 4, 11, 17}, at::kLong);
  const at::Tensor some = model->roformer().forward_at(tokens, {.ids = ids});
  const at::Tensor all = model->roformer().forward({.ids = ids}).flatten(0, 1);
  EXPECT_LT(apart(some, all.index_select(0, tokens)), 2e-4);
}

TEST_P(LayerRotationTest, GradientsAreTheSameWithCheckpointing) {
  const at::Tensor ids = ids_of(2, 9);
  std::vector<at::Tensor> grads[2];
  for (const bool on : {false, true}) {
    const Model model = make(config_of(GetParam()));
    disturb(*model);
    model->train();
    model->set_checkpointing(on);
    model->forward({.ids = ids, .labels = ids}).loss.backward();
    for (const at::Tensor& p : model->parameters()) {
      if (p.grad().defined()) grads[on ? 1 : 0].push_back(p.grad());
    }
  }
  ASSERT_EQ(grads[0].size(), grads[1].size());
  for (std::size_t i = 0; i < grads[0].size(); ++i)
    EXPECT_LT(apart(grads[0][i], grads[1][i]), 1e-5);
}

TEST_P(LayerRotationTest, MixedPrecisionIsNear) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 9);
  at::Tensor logits[2];
  for (const bool narrow : {false, true}) {
    Config config = config_of(GetParam());
    config.initializer_range = 0.05;
    const Model model = make(config);
    disturb(*model);
    if (narrow) model->set_compute_type(at::kBFloat16);
    logits[narrow ? 1 : 0] = model->forward({.ids = ids}).logits.to(at::kFloat);
  }
  EXPECT_LT(apart(logits[0], logits[1]), 0.05 * logits[0].abs().max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(Modes, LayerRotationTest, ::testing::ValuesIn(kModes),
                         [](const auto& info) { return info.param.name; });

TEST(LayerRotation, CachedPositionsContinue) {
  for (const PositionStepsOf steps : {PositionStepsOf::kToken, PositionStepsOf::kHead}) {
    const Model model =
        make(config_of({.name = "", .steps = steps, .output = true, .task = Task::kCausalLm}));
    disturb(*model);
    const at::NoGradGuard no_grad;
    const at::Tensor ids = ids_of(2, 7);
    const at::Tensor whole = model->forward({.ids = ids}).logits;
    Cache cache;
    const at::Tensor a = model->forward({.ids = ids.narrow(1, 0, 4), .cache = &cache}).logits;
    const at::Tensor b = model->forward({.ids = ids.narrow(1, 4, 2), .cache = &cache}).logits;
    const at::Tensor c = model->forward({.ids = ids.narrow(1, 6, 1), .cache = &cache}).logits;
    EXPECT_LT(apart(whole, at::cat({a, b, c}, 1)), 2e-4);
  }
}

/// RoPER's output depends on distances alone; with rotated values only, it does not.
TEST(LayerRotation, RoperIsInvariantUnderAShift) {
  Config config = config_of({.name = "", .output = true});
  const std::string rope = rope_text(config, 0);
  const auto rotation = make_layer_rotation(config, rope);
  at::manual_seed(5);
  const at::TensorOptions options = at::TensorOptions(at::kDouble);
  const Heads heads{.q = at::randn({2, 6, 4, 8}, options),
                    .k = at::randn({2, 6, 4, 8}, options),
                    .v = at::randn({2, 6, 4, 8}, options)};
  const auto output = [&](std::int64_t first, bool back) {
    LayerPositions positions;
    positions.queries.first = first;
    positions.keys.first = first;
    const Heads turned = rotation->rotate(heads, positions, /*values=*/true);
    const auto by_heads = [](const at::Tensor& x) { return x.transpose(1, 2); };
    const at::Tensor y =
        transformer::attend(by_heads(turned.q), by_heads(turned.k), by_heads(turned.v), {});
    return back ? rotation->unrotate(y, positions) : y;
  };
  EXPECT_LT(apart(output(0, true), output(1000, true)), 1e-10);
  EXPECT_GT(apart(output(0, false), output(1000, false)), 0.1);
}

TEST(LayerRotation, ParametersOfTheRotationDoNotDecay) {
  const Model model = make(config_of({.name = "", .learn = RopeLearn::kPerHead}));
  const auto store = model->make_store();
  std::int64_t found = 0;
  for (const auto& segment : store->segments()) {
    if (segment.name.find(".rotation.") == std::string::npos) continue;
    EXPECT_GE(segment.offset, store->num_decaying()) << segment.name;
    EXPECT_THAT(segment.parameter.sizes().vec(), ElementsAre(4, 4, 1));
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(LayerRotation, ReportsWhatWasLearned) {
  const Model model = make(config_of({.name = "", .learn = RopeLearn::kPerHead}));
  disturb(*model);
  const auto layers = model->roformer().learned_frequencies();
  ASSERT_EQ(layers.size(), 2U);
  const auto parameters = model->named_parameters();
  const at::Tensor* learned =
      parameters.find("roformer.encoder.layer.1.attention.self.rotation.frequencies.learned");
  ASSERT_NE(learned, nullptr);
  EXPECT_TRUE(at::equal(layers[1].learned, layers[1].base + learned->detach().to(at::kDouble)));
  EXPECT_THAT(make(small(Task::kMaskedLm))->roformer().learned_frequencies(), IsEmpty());
}

TEST(LayerRotation, ConfigKeysAreReadAndWritten) {
  const Config config = parse_config(
      R"({"rope_learn": "receptive_field", "rope_rho": 0.5, "position_steps": "head",
          "rotary_output": true})",
      "c");
  EXPECT_EQ(config.rope_learn, RopeLearn::kReceptiveField);
  EXPECT_EQ(config.rope_rho, 0.5);
  EXPECT_EQ(config.position_steps, PositionStepsOf::kHead);
  EXPECT_TRUE(config.rotary_output);
  EXPECT_EQ(to_json(parse_config(to_json(config), "again")), to_json(config));
  EXPECT_THAT(to_json(Config{}), Not(HasSubstr("rope_learn")));
}

TEST(LayerRotation, RejectsWhatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"rope_learn": "all"})",
       "rope_learn must be one of none, gain, frequencies, per_head, receptive_field, got"},
      {R"({"rope_learn": "gain", "position_encoding": "alibi"})",
       "rope_learn must be none, except for RoPE and softmax attention, got gain"},
      {R"({"rope_learn": "gain", "attention_type": "linear"})", "got gain"},
      {R"({"position_steps": "token", "position_encoding": "none"})",
       "position_steps must be none"},
      {R"({"position_steps": "head", "rope_learn": "per_head"})",
       "position_steps must be none or token with rope_learn per_head, got head"},
      {R"({"rotary_output": true, "attention_type": "linear"})", "rotary_output must be false"},
      {R"({"rope_rho": -1})", "rope_rho must be from 0 to 10, got -1"},
  };
  for (const auto& [json, words] : cases) {
    EXPECT_THAT([json = json] { parse_config(json, "c"); },
                ThrowsMessage<IoError>(HasSubstr(words)));
  }
}

}  // namespace
}  // namespace rotary::roformer
