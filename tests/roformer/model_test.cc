// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Invariances of the model. test_roformer.py compares it with transformers.
#include "roformer/model/model.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <map>
#include <optional>

#include "roformer/model/cpu_linear.h"
#include "roformer/model_testing.h"
#include "roformer/roformer_testing.h"
#include "rotary/frequencies.h"
#include "rotary/torch.h"
#include "rotary/torch_rope.h"
#include "rotary/transformer/layers.h"

namespace rotary::roformer {
namespace {

constexpr double kRounding = 2e-5;

// ---- Causal -------------------------------------------------------------------------------------

class Causal : public testing::TestWithParam<std::pair<AttentionKind, std::string>> {
 protected:
  Model model() const {
    Config config = small(Task::kCausalLm);
    config.attention_type = GetParam().first;
    config.position_encoding = GetParam().second;
    return make(config);
  }
};

TEST_P(Causal, TokensAttendToNoLaterOne) {
  const Model m = model();
  const at::Tensor ids = ids_of(2, 9);
  at::Tensor changed = ids.clone();
  changed.narrow(1, 5, 4).fill_(3);
  const at::Tensor a = m->forward({.ids = ids}).logits;
  const at::Tensor b = m->forward({.ids = changed}).logits;
  EXPECT_LE(apart(a.narrow(1, 0, 5), b.narrow(1, 0, 5)), kRounding);
  EXPECT_GT(apart(a.narrow(1, 5, 4), b.narrow(1, 5, 4)), 0.01);
}

TEST_P(Causal, CachedDecodingMatchesOnePass) {
  const at::NoGradGuard no_grad;
  const Model m = model();
  const at::Tensor ids = ids_of(2, 12);
  const at::Tensor whole = m->forward({.ids = ids}).logits;
  Cache cache;
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const std::int64_t tokens : {5, 1, 1, 3, 2}) {  // a prompt, tokens, and several at once
    parts.push_back(m->forward({.ids = ids.narrow(1, first, tokens), .cache = &cache}).logits);
    first += tokens;
  }
  EXPECT_EQ(cache.tokens, 12);
  EXPECT_LE(apart(at::cat(parts, 1), whole), kRounding);
}

INSTANTIATE_TEST_SUITE_P(All, Causal,
                         testing::Values(std::pair(AttentionKind::kSoftmax, "rope"),
                                         std::pair(AttentionKind::kSoftmax, "rope+alibi"),
                                         std::pair(AttentionKind::kSoftmax, "t5"),
                                         std::pair(AttentionKind::kSoftmax, "learned"),
                                         std::pair(AttentionKind::kLinear, "rope")));

TEST(CausalModel, AttendsToNeitherPaddingNorLaterTokens) {
  const Model m = make(small(Task::kCausalLm));
  const at::Tensor ids = ids_of(1, 8);
  const at::Tensor mask = at::tensor({1, 1, 0, 1, 1, 1, 1, 1}, at::kLong).unsqueeze(0);
  at::Tensor changed = ids.clone();
  changed[0][2] = 40;
  changed[0][7] = 41;
  const at::Tensor a = m->forward({.ids = ids, .mask = mask}).logits[0];
  const at::Tensor b = m->forward({.ids = changed, .mask = mask}).logits[0];
  for (const std::int64_t t : {0, 1, 3, 4, 5, 6}) EXPECT_LE(apart(a[t], b[t]), kRounding) << t;
}

TEST(CausalModel, BothKindsOfLabelsGiveTheSameLoss) {
  const Model m = make(small(Task::kCausalLm));
  const at::Tensor ids = ids_of(2, 6);
  const at::Tensor next = at::cat({ids.narrow(1, 1, 5), at::full({2, 1}, kIgnored, at::kLong)}, 1);
  const at::Tensor a = m->forward({.ids = ids, .labels = ids}).loss;
  const at::Tensor b =
      m->forward({.ids = ids, .labels = next, .causal_labels = CausalLabels::kNextToken}).loss;
  EXPECT_LE(apart(a, b), 1e-6);
}

TEST(CausalModel, RejectsCacheOfEncoder) {
  Cache cache;
  const Model m = make(small(Task::kMaskedLm));
  EXPECT_THAT(thrown([&] { m->forward({.ids = ids_of(1, 3), .cache = &cache}); }),
              testing::HasSubstr("[RoFormer] a cache is for a causal model"));
}

// ---- Rows ---------------------------------------------------------------------------------------

TEST(Encoder, PaddingChangesNothing) {
  const Model m = make(small(Task::kMaskedLm));
  const at::Tensor ids = ids_of(1, 10);
  const at::Tensor mask = at::ones({1, 10}, at::kLong);
  mask.narrow(1, 7, 3).zero_();
  const at::Tensor padded = m->forward({.ids = ids, .mask = mask}).logits.narrow(1, 0, 7);
  EXPECT_LE(apart(padded, m->forward({.ids = ids.narrow(1, 0, 7)}).logits), kRounding);
}

TEST(Encoder, PackedSequencesMatchSingleOnes) {
  for (const char* encoding : {"rope", "learned", "sinusoidal", "rope+alibi"}) {
    Config config = small(Task::kMaskedLm);
    config.position_encoding = encoding;
    const Model m = make(config);
    const at::Tensor ids = ids_of(2, 8);
    const at::Tensor row = ids.flatten();
    const at::Tensor cuts = at::tensor({0, 3, 10, 16}, at::kInt);  // the second spans both rows
    const at::Tensor packed = m->forward({.ids = ids, .cu_seqlens = cuts}).logits.flatten(0, 1);
    for (const auto& [first, end] : {std::pair(0, 3), std::pair(3, 10), std::pair(10, 16)}) {
      const at::Tensor alone =
          m->forward({.ids = row.narrow(0, first, end - first).unsqueeze(0)}).logits[0];
      EXPECT_LE(apart(packed.narrow(0, first, end - first), alone), kRounding)
          << encoding << " " << first;
    }
  }
}

TEST(Encoder, OrderMattersWithAnEncodingOnly) {
  for (const auto& [encoding, matters] : {std::pair("rope", true), std::pair("none", false)}) {
    Config config = small(Task::kEncoder);
    config.position_encoding = encoding;
    const Model m = make(config);
    const at::Tensor ids = ids_of(1, 6);
    const at::Tensor back = m->forward({.ids = ids.flip(1)}).hidden.flip(1);
    EXPECT_EQ(apart(m->forward({.ids = ids}).hidden, back) > 0.01, matters) << encoding;
  }
}

// ---- Heads --------------------------------------------------------------------------------------

/// Of 3 rows of 10 tokens; the second has no labels.
Inputs with_labels(LogitsAt where) {
  at::Tensor labels = at::full({3, 10}, kIgnored, at::kLong);
  for (const auto& [row, token] :
       {std::pair(0, 1), std::pair(0, 2), std::pair(0, 9), std::pair(2, 0), std::pair(2, 6)}) {
    labels[row][token] = 3 * token + row + 1;
  }
  return {.ids = ids_of(3, 10), .labels = labels, .logits_at = where};
}

struct Learned {
  Output out;
  std::map<std::string, at::Tensor> gradients;
};
Learned learn(const Model& m, const Inputs& inputs) {
  m->zero_grad();
  Learned result{m->forward(inputs), {}};
  result.out.loss.backward();
  for (const auto& p : m->named_parameters()) {
    if (p.value().grad().defined()) result.gradients[p.key()] = p.value().grad().clone();
  }
  return result;
}

/// With LogitsAt::kLabels the last layer computes labelled tokens only; loss and gradients are
/// the same.
void expect_same_at_labels(const Model& m, const Inputs& more, double tolerance,
                           const std::string& name) {
  Inputs all = with_labels(LogitsAt::kAllTokens);
  Inputs some = with_labels(LogitsAt::kLabels);
  for (Inputs* inputs : {&all, &some}) {
    inputs->mask = more.mask;
    inputs->cu_seqlens = more.cu_seqlens;
  }
  const Learned wanted = learn(m, all);
  const Learned found = learn(m, some);
  const at::Tensor places = all.labels->flatten().ne(kIgnored).nonzero().squeeze(1);
  EXPECT_LE(apart(found.out.logits, wanted.out.logits.flatten(0, 1).index_select(0, places)),
            20 * tolerance)
      << name;
  EXPECT_LE(apart(found.out.loss, wanted.out.loss), tolerance) << name;
  ASSERT_EQ(found.gradients.size(), wanted.gradients.size()) << name;
  for (const auto& [key, gradient] : wanted.gradients) {
    const double scale = gradient.abs().max().item<double>();
    EXPECT_LE(apart(found.gradients.at(key), gradient), tolerance * (1 + 10 * scale))
        << name << " " << key;
  }
}

TEST(MaskedLm, LogitsAtLabelsGiveTheSameLossAndGradients) {
  const at::Tensor cuts = at::tensor({0, 4, 12, 14, 30}, at::kInt);  // the third has no labels
  const at::Tensor mask = at::ones({3, 10}, at::kLong);
  mask[0].narrow(0, 3, 2).zero_();
  for (const char* encoding : {"rope", "none", "learned", "rope+alibi"}) {
    for (const bool turns_values : {false, true}) {
      Config config = small(Task::kMaskedLm);
      config.position_encoding = encoding;
      config.rotary_value = turns_values;
      const Model m = make(config);
      expect_same_at_labels(m, {}, 2e-6, encoding);
      expect_same_at_labels(m, {.cu_seqlens = cuts}, 2e-6, std::string(encoding) + ", packed");
      expect_same_at_labels(m, {.mask = mask}, 2e-6, std::string(encoding) + ", padded");
    }
  }
}

TEST(MaskedLm, LogitsAtLabelsWithFusedOps) {
  const at::Tensor cuts = at::tensor({0, 4, 12, 14, 30}, at::kInt);
  for (const bool checkpointing : {false, true}) {
    const Model m = make(small(Task::kMaskedLm));
    m->set_compute_type(at::kBFloat16);
    m->set_checkpointing(checkpointing);
    expect_same_at_labels(m, {}, 0.01, "bfloat16");
    expect_same_at_labels(m, {.cu_seqlens = cuts}, 0.01, "bfloat16, packed");
  }
}

TEST(MaskedLm, LogitsAtLabelsWith16BitParameters) {
  const Model m = make(small(Task::kMaskedLm));
  m->to(at::kBFloat16);
  expect_same_at_labels(m, {}, 0.03, "bfloat16 parameters");
}

TEST(MaskedLm, LastLayerComputesSelectedTokensOnly) {
  const Model m = make(small(Task::kMaskedLm));
  EXPECT_EQ(m->forward(with_labels(LogitsAt::kLabels)).hidden.sizes(), at::IntArrayRef({5, 32}));
  // The graph has the shape of the last norm's input.
  const at::Tensor places = at::tensor({1, 2, 9, 20, 26}, at::kLong);
  const at::Tensor hidden = m->roformer().forward_at(places, {.ids = ids_of(3, 10)});
  const at::Tensor all = m->roformer().forward({.ids = ids_of(3, 10)});
  EXPECT_LE(apart(hidden, all.flatten(0, 1).index_select(0, places)), kRounding);
  const auto rows_of_norm = [](const at::Tensor& x) {
    ::torch::autograd::Node* node = x.grad_fn().get();
    while (node->name().find("LayerNorm") == std::string::npos) {
      node = node->next_edge(0).function.get();
    }
    return node->input_metadata(0).shape_as_dim_vector();
  };
  EXPECT_THAT(rows_of_norm(hidden), testing::ElementsAre(1, 5, 32));
  EXPECT_THAT(rows_of_norm(all), testing::ElementsAre(3, 10, 32));
}

TEST(PairMatching, PoolsAllButPaddingOrTheFirstToken) {
  Config config = small(Task::kPairMatching);
  config.num_labels = 1;
  const at::Tensor ids = ids_of(1, 8);
  const at::Tensor mask = at::ones({1, 8}, at::kLong);
  mask.narrow(1, 5, 3).zero_();
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls}) {
    config.pair_pooling = pooling;
    const Model m = make(config);
    const Output out = m->forward({.ids = ids, .mask = mask, .labels = at::ones({1}, at::kLong)});
    const at::Tensor pooled =
        pooling == Pooling::kMean ? out.hidden.narrow(1, 0, 5).mean(1) : out.hidden.select(1, 0);
    const auto parameters = m->named_parameters();
    const at::Tensor logits =
        at::linear(pooled, parameters["classifier.weight"], parameters["classifier.bias"]);
    EXPECT_LE(apart(out.logits, logits), 1e-6);
    EXPECT_LE(apart(out.loss, -at::log_sigmoid(logits).squeeze()), 1e-6);
  }
}

TEST(RoFormerV2, HasNoBiasesAndNoGains) {
  Config config = small(Task::kMaskedLm);
  config.use_bias = false;
  config.norm_type = NormType::kRms;
  config.mlm_transform = false;
  config.dropout_before_norm = true;
  config.hidden_act = Activation::kRelu;
  const Model m = make(config);
  for (const auto& item : m->named_parameters()) {
    EXPECT_EQ(item.value().dim(), 2) << item.key();
    EXPECT_FALSE(item.key().starts_with("cls.")) << item.key();
  }
  // logits = h E^T, and every vector that leaves an RMS norm has the mean square 1.
  const Output out = m->forward({.ids = ids_of(2, 5)});
  EXPECT_LE(apart(out.logits, at::matmul(out.hidden, m->roformer().word_embeddings().t())), 1e-5);
  EXPECT_LE(apart(out.hidden.square().mean(-1), at::ones({2, 5})), 1e-4);
}

TEST(ScaleEmbedding, MultipliesEmbeddingsButNotPositions) {
  for (const char* encoding : {"sinusoidal", "learned", "rope"}) {
    Config config = small(Task::kEncoder);
    config.position_encoding = encoding;
    const Model plain = make(config);
    config.scale_embedding = true;
    EXPECT_TRUE(parse_config(to_json(config), "written").scale_embedding);
    const Model scaled = make(config);
    const at::NoGradGuard no_grad;
    const auto from = plain->named_parameters();
    for (const auto& item : scaled->named_parameters()) item.value().copy_(from[item.key()]);
    const at::Tensor ids = ids_of(2, 5);
    const at::Tensor hidden = scaled->forward({.ids = ids}).hidden;
    // The norm that follows takes a scale of the whole away, that of words beside positions not.
    const double before = apart(plain->forward({.ids = ids}).hidden, hidden);
    EXPECT_EQ(before > 0.01, config.position_encoding != "rope") << encoding << " " << before;
    const double root = std::sqrt(static_cast<double>(config.embedding_dim()));
    for (const char* name : {"word_embeddings", "token_type_embeddings"}) {
      from[std::string("roformer.embeddings.") + name + ".weight"].mul_(root);
    }
    EXPECT_LE(apart(plain->forward({.ids = ids}).hidden, hidden), 1e-5) << encoding;
  }
}

TEST(Dropout, IsForTrainingOnly) {
  const Model m = make(small(Task::kEncoder));
  const at::Tensor ids = ids_of(1, 6);
  EXPECT_EQ(apart(m->forward({.ids = ids}).hidden, m->forward({.ids = ids}).hidden), 0.0);
  m->train();
  EXPECT_GT(apart(m->forward({.ids = ids}).hidden, m->forward({.ids = ids}).hidden), 0.01);
}

// ---- Parts and errors ---------------------------------------------------------------------------

TEST(SplitHeads, MatchesSeparateRotations) {
  const std::string rope =
      torch::to_text({.frequencies = make_frequencies({.rotary_dim = 8, .theta = 100.0}),
                      .layout = {.head_dim = 8, .pairing = Pairing::kHalf}});
  const torch::TokenPositions packed{.cu_seqlens = at::tensor({0, 3, 7}, at::kInt)};
  for (const auto& where : {torch::TokenPositions{}, torch::TokenPositions{.first = 5}, packed}) {
    const at::Tensor x = at::randn({1, 7, 3 * 2 * 8}).requires_grad_();
    const at::Tensor bias = at::randn({3 * 2 * 8}).requires_grad_();
    const auto parts = transformer::split_heads_(
        x + bias.detach(), {.heads = 2, .rope = rope, .positions = where, .bias = bias});
    std::vector<at::Tensor> wanted = (x + bias).unflatten(2, {3, 2, 8}).unbind(2);
    for (const std::size_t i : {0, 1}) wanted[i] = torch::rotate(wanted[i], rope, where)[0];
    at::Tensor sum = at::zeros({});
    at::Tensor wanted_sum = at::zeros({});
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(apart(parts[i], wanted[i]), 1e-6);
      const at::Tensor g = at::randn_like(wanted[i]);
      sum = sum + (parts[i] * g).sum();
      wanted_sum = wanted_sum + (wanted[i] * g).sum();
    }
    const auto found = ::torch::autograd::grad({sum}, {x, bias});
    const auto right = ::torch::autograd::grad({wanted_sum}, {x, bias});
    EXPECT_LE(apart(found[0], right[0]), 1e-6);
    EXPECT_LE(apart(found[1], right[1]), 1e-5);
  }
  const at::Tensor two = at::randn({1, 7, 2 * 2 * 8});
  const auto keys = transformer::split_heads_(
      two.clone(), {.heads = 2, .num_projections = 2, .num_rotated = 1, .rope = rope});
  ASSERT_EQ(keys.size(), 2u);
  const std::vector<at::Tensor> whole = two.unflatten(2, {2, 2, 8}).unbind(2);
  EXPECT_LE(apart(keys[0], torch::rotate(whole[0], rope)[0]), 1e-6);
  EXPECT_TRUE(at::equal(keys[1], whole[1]));
  EXPECT_THAT(thrown([] { transformer::split_heads_(at::zeros({1, 2, 10}), {.heads = 2}); }),
              testing::HasSubstr("[split_heads] product must be [batch, tokens, 3 2 head_dim]"));
}

TEST(CpuLinear, MatchesLinear) {
  at::manual_seed(5);
  const at::Tensor weight = at::randn({7, 5}).requires_grad_();
  const at::Tensor bias = at::randn({7}).requires_grad_();
  const std::vector<at::Tensor> inputs = {at::randn({3, 5}), at::randn({2, 40000, 5}),
                                          at::randn({0, 5}), at::randn({5, 4}).t()};
  for (const at::Tensor& values : inputs) {
    const at::Tensor x = values.requires_grad_();
    for (const bool has_bias : {true, false}) {
      std::vector<at::Tensor> parameters = {x, weight};
      if (has_bias) parameters.push_back(bias);
      const at::Tensor found = cpu_linear(x, weight, has_bias ? bias : at::Tensor());
      const at::Tensor wanted =
          at::linear(x, weight, has_bias ? std::optional(bias) : std::nullopt);
      EXPECT_TRUE(at::equal(found, wanted));
      const at::Tensor g = at::randn_like(wanted);
      const auto gradients = ::torch::autograd::grad({found}, parameters, {g});
      const auto right = ::torch::autograd::grad({wanted}, parameters, {g});
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        ASSERT_EQ(gradients[i].sizes(), right[i].sizes());
        EXPECT_TRUE(at::allclose(gradients[i], right[i], 1e-4, 1e-3)) << i;
      }
    }
    // Only what is asked for: the input of the first layer needs no gradient.
    const at::Tensor sum = cpu_linear(x.detach(), weight, bias).sum();
    EXPECT_EQ(::torch::autograd::grad({sum}, {weight}).size(), 1u);
  }
}

TEST(Model, ReportsAttentionBackend) {
  Config config = small(Task::kEncoder);
  const Model softmax = make(config);
  softmax->forward({.ids = ids_of(1, 6)});
  EXPECT_THAT(softmax->roformer().attention_backend(), testing::AnyOf("flash", "math"));
  config.attention_type = AttentionKind::kLinear;
  const Model linear = make(config);
  linear->forward({.ids = ids_of(1, 6)});
  EXPECT_EQ(linear->roformer().attention_backend(), "linear");
}

TEST(Model, RejectsWrongShapes) {
  const Model m = make(small(Task::kMaskedLm));
  EXPECT_THAT(thrown([&] { m->forward({.ids = at::ones({4}, at::kLong)}); }),
              testing::HasSubstr("[RoFormer] ids must be [batch, tokens] of int64"));
  EXPECT_THAT(thrown([&] { m->forward({.ids = ids_of(1, 4), .mask = at::ones({1, 5})}); }),
              testing::HasSubstr("[RoFormer] mask must be [1, 4]"));
  EXPECT_THAT(thrown([&] { m->forward({.ids = ids_of(1, 4), .labels = ids_of(1, 3)}); }),
              testing::HasSubstr("[RoFormer] labels must be [1, 4] of int64"));
}

}  // namespace
}  // namespace rotary::roformer
