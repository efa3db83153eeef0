// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of the model as its config has it: layers that rotate differently, keys, and
// changes of the context.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "roformer/model/rotation.h"
#include "roformer/roformer_testing.h"
#include "roformer/rope_testing.h"

namespace rotary::roformer {
namespace {

using testing::HasSubstr;

// ---- Layers -------------------------------------------------------------------------------------

/// Attention of a layer adds a constant: its rotation has no effect.
void silence(ModelImpl& model, int layer) {
  const at::NoGradGuard no_grad;
  const std::string name =
      "roformer.encoder.layer." + std::to_string(layer) + ".attention.self.value.weight";
  model.named_parameters()[name].zero_();
}

at::Tensor logits_without(int layer, const Config& config) {
  const Model m = make(config);
  silence(*m, layer);
  return m->forward({.ids = ids_of(2, 12)}).logits;
}

TEST(LayerRopes, EachLayerHasItsTheta) {
  const at::NoGradGuard no_grad;
  Config slow = small(Task::kMaskedLm);
  Config fast = slow;
  fast.rope_theta = 20;
  Config both = slow;
  both.layer_rope_theta = {20, 10000};
  EXPECT_EQ(apart(logits_without(1, both), logits_without(1, fast)), 0.0);
  EXPECT_EQ(apart(logits_without(0, both), logits_without(0, slow)), 0.0);
  EXPECT_GT(apart(logits_without(1, both), logits_without(1, slow)), 1e-3);
  EXPECT_GT(apart(logits_without(0, both), logits_without(0, fast)), 1e-3);
  both.layer_rope_theta = {20, 20};
  EXPECT_EQ(rope_text(both, 1), rope_text(fast, 0));
}

// Without rotation, attention does not see the order of tokens.
TEST(LayerRopes, LayersWithoutRotationIgnoreTheOrder) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(1, 10);
  const auto order_matters = [&](std::vector<std::int64_t> layers, int silent) {
    Config config = small(Task::kMaskedLm);
    config.no_rope_layers = std::move(layers);
    const Model m = make(config);
    if (silent >= 0) silence(*m, silent);
    const at::Tensor turned = m->forward({.ids = ids.flip(1)}).logits.flip(1);
    return apart(turned, m->forward({.ids = ids}).logits) > 1e-3;
  };
  EXPECT_FALSE(order_matters({0, 0}, -1));
  EXPECT_TRUE(order_matters({1, 0}, -1));
  EXPECT_TRUE(order_matters({1, 0}, 1));
  EXPECT_FALSE(order_matters({1, 0}, 0));
  EXPECT_FALSE(order_matters({0, 1}, 1));
  EXPECT_TRUE(order_matters({0, 1}, 0));
}

TEST(LayerRopes, AThetaOfZeroIsNoRotation) {
  Config config = small(Task::kMaskedLm);
  config.layer_rope_theta = {0, 500};
  EXPECT_EQ(rope_text(config, 0), "");
  EXPECT_NE(rope_text(config, 1), "");
}

// Llama 4's other key.
TEST(LayerRopes, EveryNthLayerMayBeWithoutRotation) {
  Config config = small(Task::kMaskedLm);
  config.other = R"({"no_rope_layer_interval": 2})";
  EXPECT_NE(rope_text(config, 0), "");
  EXPECT_EQ(rope_text(config, 1), "");
}

TEST(LayerRopes, FollowLayerTypes) {
  Config config = small(Task::kMaskedLm);
  config.rope_parameters = R"({"full_attention": {"rope_type": "linear", "factor": 4},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 100}})";
  EXPECT_EQ(thrown([&] { check_config(config); }),
            "rope_parameters by layer type needs layer_types, a list with the type of each layer");
  config.other = R"({"layer_types": ["sliding_attention", "full_attention"]})";
  check_config(config);
  Config local = small(Task::kMaskedLm);
  local.rope_theta = 100;
  EXPECT_EQ(rope_text(config, 0), rope_text(local, 0));
  Config linear = small(Task::kMaskedLm);
  linear.rope_parameters = R"({"rope_type": "linear", "factor": 4})";
  EXPECT_EQ(rope_text(config, 1), rope_text(linear, 0));
}

// Fused operations, and a last layer that computes some tokens only.
TEST(LayerRopes, HoldInFusedOperations) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 12);
  const at::Tensor tokens = at::tensor({1, 5, 13, 22}, at::kLong);
  for (const std::vector<double>& thetas :
       {std::vector<double>{20, 10000}, std::vector<double>{0, 20}, std::vector<double>{20, 0}}) {
    Config config = small(Task::kMaskedLm);
    config.layer_rope_theta = thetas;
    const Model m = make(config);
    const at::Tensor exact = m->roformer().forward({.ids = ids}).flatten(0, 1);
    EXPECT_LE(apart(m->roformer().forward_at(tokens, {.ids = ids}), exact.index_select(0, tokens)),
              kRopeRounding);
    m->set_compute_type(at::kBFloat16);
    const double scale = exact.abs().max().item<double>();
    EXPECT_LE(apart(m->roformer().forward({.ids = ids}).flatten(0, 1), exact), 0.03 * scale);
    EXPECT_LE(apart(m->roformer().forward_at(tokens, {.ids = ids}), exact.index_select(0, tokens)),
              0.03 * scale);
  }
}

TEST(LayerRopes, HoldInLinearAttention) {
  const at::NoGradGuard no_grad;
  Config config = small(Task::kMaskedLm);
  config.attention_type = AttentionKind::kLinear;
  Config fast = config;
  fast.rope_theta = 20;
  Config both = config;
  both.layer_rope_theta = {20, 0};
  EXPECT_EQ(apart(logits_without(1, both), logits_without(1, fast)), 0.0);
  config.position_encoding = "none";
  EXPECT_EQ(apart(logits_without(0, both), logits_without(0, config)), 0.0);
}

TEST(LayerRopes, CheckpointedLayersHaveTheSameGradients) {
  Config config = small(Task::kMaskedLm);
  config.layer_rope_theta = {20, 10000};
  const at::Tensor ids = ids_of(2, 12);
  std::vector<at::Tensor> grads;
  for (const bool checkpointing : {false, true}) {
    const Model m = make(config);
    m->set_checkpointing(checkpointing);
    m->forward({.ids = ids, .labels = ids}).loss.backward();
    grads.push_back(m->roformer().word_embeddings().grad());
  }
  EXPECT_LE(apart(grads[0], grads[1]), 1e-7);
}

// ---- Configs ------------------------------------------------------------------------------------

TEST(RopeConfig, ReadsBothNamesAndLists) {
  const Config config = parse_config(R"({"model_type": "roformer", "num_hidden_layers": 2,
      "rope_scaling": {"type": "linear", "factor": 2}, "no_rope_layers": [1, 0],
      "layer_rope_theta": [100, 200], "partial_rotary_factor": 0.5, "rope_context": 7})",
                                     "config.json");
  EXPECT_EQ(config.rope_parameters, R"({"factor":2,"type":"linear"})");
  EXPECT_THAT(config.no_rope_layers, testing::ElementsAre(1, 0));
  EXPECT_THAT(config.layer_rope_theta, testing::ElementsAre(100, 200));
  EXPECT_EQ(config.partial_rotary_factor, 0.5);
  const std::string json = to_json(config);
  EXPECT_EQ(to_json(parse_config(json, "config.json")), json);
  EXPECT_EQ(rope_text(config, 1), "");
}

TEST(RopeConfig, NamesWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("rope_parameters": 3)", "rope_parameters must be an object, got 3"},
      {R"("rope_parameters": {"rope_type": "yarm"})", "unknown rope_type \"yarm\"; known are "},
      {R"("rope_parameters": {"rope_type": "linear"})",
       "rope_parameters: rope_type \"linear\" needs the key \"factor\""},
      {R"("rope_parameters": {"rope_type": "linear", "factor": "4"})",
       "factor must be a finite number"},
      {R"("rope_parameters": {"rope_type": "linear", "factor": 4, "betafast": 3})",
       "rope_parameters has a key that rope_type \"linear\" does not read: \"betafast\""},
      {R"("rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12]})",
       "rope_parameters must have one axis, got 3"},
      {R"("partial_rotary_factor": 1.5)", "partial_rotary_factor must be in [0, 1], got 1.5"},
      {R"("no_rope_layers": [1])",
       "no_rope_layers must have an entry for each of 12 layers, got 1"},
      {R"("num_hidden_layers": 1, "no_rope_layers": [2])",
       "no_rope_layers must have 1 for layers with rotation and 0 for others, got 2"},
      {R"("num_hidden_layers": 1, "layer_rope_theta": [-1])",
       "layer_rope_theta must be at least 0, got -1"},
      {R"("layer_rope_theta": "no")", "layer_rope_theta must be a list with an entry for each"},
      {R"("rope_context": -1)", "rope_context must be at least 0, got -1"},
      {R"("position_encoding": "alibi", "rope_parameters": {"rope_type": "resonance"})",
       "need a position_encoding with rope, got \"alibi\""},
      {R"("position_encoding": "xpos")", "xpos needs a causal model"},
      {R"("is_decoder": true, "position_encoding": "xpos", "rope_parameters":
          {"rope_type": "linear", "factor": 2})",
       "rope_type must be \"xpos\" for position_encoding \"xpos\", got \"linear\""},
      {R"("is_decoder": true, "position_encoding": "xpos", "rotary_value": true)",
       "rotary_value must be false for xpos"},
      {R"("attention_type": "linear", "rope_parameters": {"rope_type": "dynamic", "factor": 2})",
       "rope_context must be given for rope_type \"dynamic\" with linear attention"},
  };
  for (const auto& [keys, message] : cases) {
    const std::string error = thrown([&, &keys = keys] {
      parse_config(R"({"model_type": "roformer", )" + keys + "}", "c.json");
    });
    EXPECT_THAT(error, HasSubstr(message));
    EXPECT_THAT(error, testing::StartsWith("c.json: "));
    EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
  }
}

// ---- Stretching ---------------------------------------------------------------------------------

TEST(RopeChange, KeepsWhatTheModelWasTrainedWith) {
  Config config = small(Task::kMaskedLm);
  config.rope_parameters = R"({"rope_type": "default", "rope_theta": 500})";
  apply_rope_change({.rope = R"({"rope_type": "yarn", "factor": 4})"}, config);
  EXPECT_EQ(config.rope_parameters, R"({"factor":4,"rope_type":"yarn","rope_theta":500,)"
                                    R"("original_max_position_embeddings":64})");
  EXPECT_EQ(config.max_position_embeddings, 64);
  EXPECT_EQ(config.rope_context, 0);
}

TEST(RopeChange, ContextIsTheTargetLength) {
  Config yarn = small(Task::kMaskedLm);
  apply_rope_change({.rope = R"({"rope_type": "yarn"})", .context = 256}, yarn);
  EXPECT_EQ(yarn.max_position_embeddings, 256);
  EXPECT_EQ(yarn.rope_context, 0);  // does not depend on it
  EXPECT_EQ(std::get<Yarn>(layer_ropes(yarn).ropes[0].recipe.scaling).factor, 4.0);
  Config dynamic = small(Task::kMaskedLm);
  apply_rope_change({.rope = R"({"rope_type": "dynamic", "factor": 1})", .context = 256}, dynamic);
  EXPECT_EQ(dynamic.rope_context, 256);
  const LayerRopes ropes = layer_ropes(dynamic);
  EXPECT_EQ(std::get<DynamicNtk>(ropes.ropes[0].recipe.scaling).original_context, 64);
}

TEST(RopeChange, NamesWhatIsWrong) {
  const auto refused = [](const RopeChange& change, const char* encoding = "rope") {
    Config config = small(Task::kMaskedLm);
    config.position_encoding = encoding;
    return thrown([&] { apply_rope_change(change, config); });
  };
  EXPECT_THAT(refused({.rope = "{"}), HasSubstr("--rope must be a JSON object or a file"));
  EXPECT_THAT(refused({.rope = "no/such.json"}), testing::StartsWith("no/such.json: "));
  EXPECT_THAT(refused({.rope = R"({"rope_type": "yarn", "factr": 4})"}), HasSubstr("--rope: "));
  EXPECT_THAT(refused({.rope = R"({"rope_type": "linear", "factor": 4})"}, "alibi"),
              HasSubstr("--rope and --context are for models with rope"));
}

}  // namespace
}  // namespace rotary::roformer
