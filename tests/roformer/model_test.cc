// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The model against itself: what must not matter does not. test_roformer.py has it against
// transformers.
#include "roformer/model/model.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <set>

#include "roformer/model_testing.h"
#include "roformer/roformer_testing.h"
#include "rotary/frequencies.h"
#include "rotary/torch.h"
#include "rotary/torch_layers.h"
#include "rotary/torch_rope.h"

namespace rotary::roformer {
namespace {

constexpr double kRounding = 2e-5;

at::Tensor ids_of(std::int64_t rows, std::int64_t tokens) {
  at::manual_seed(11);
  return at::randint(1, 50, {rows, tokens}, at::kLong);
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<double>();
}

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

TEST_P(Causal, NoTokenSeesALaterOne) {
  const Model m = model();
  const at::Tensor ids = ids_of(2, 9);
  at::Tensor changed = ids.clone();
  changed.narrow(1, 5, 4).fill_(3);
  const at::Tensor a = m->forward({.ids = ids}).logits;
  const at::Tensor b = m->forward({.ids = changed}).logits;
  EXPECT_LE(apart(a.narrow(1, 0, 5), b.narrow(1, 0, 5)), kRounding);
  EXPECT_GT(apart(a.narrow(1, 5, 4), b.narrow(1, 5, 4)), 0.01);
}

TEST_P(Causal, ACacheAnswersAsOnePassDoes) {
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

TEST(CausalModel, SeesNeitherPaddingNorLaterTokens) {
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

TEST(CausalModel, BothKindsOfLabelsMeanTheSame) {
  const Model m = make(small(Task::kCausalLm));
  const at::Tensor ids = ids_of(2, 6);
  const at::Tensor next = at::cat({ids.narrow(1, 1, 5), at::full({2, 1}, kIgnored, at::kLong)}, 1);
  const at::Tensor a = m->forward({.ids = ids, .labels = ids}).loss;
  const at::Tensor b =
      m->forward({.ids = ids, .labels = next, .causal_labels = CausalLabels::kNextToken}).loss;
  EXPECT_LE(apart(a, b), 1e-6);
}

TEST(CausalModel, ACacheIsForACausalModelOnly) {
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

TEST(Encoder, PackedSequencesAreEachForItself) {
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

/// At labels alone, the last layer computes only what is read there; loss and gradients are those
/// of all of it.
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

TEST(MaskedLm, FusedLayersToo) {
  const at::Tensor cuts = at::tensor({0, 4, 12, 14, 30}, at::kInt);
  for (const bool checkpointing : {false, true}) {
    const Model m = make(small(Task::kMaskedLm));
    m->set_compute_type(at::kBFloat16);
    m->set_checkpointing(checkpointing);
    expect_same_at_labels(m, {}, 0.01, "bfloat16");
    expect_same_at_labels(m, {.cu_seqlens = cuts}, 0.01, "bfloat16, packed");
  }
}

TEST(MaskedLm, ParametersOf16BitsToo) {
  const Model m = make(small(Task::kMaskedLm));
  m->to(at::kBFloat16);
  expect_same_at_labels(m, {}, 0.03, "bfloat16 parameters");
}

TEST(MaskedLm, TheLastLayerIsComputedWhereItIsRead) {
  const Model m = make(small(Task::kMaskedLm));
  EXPECT_EQ(m->forward(with_labels(LogitsAt::kLabels)).hidden.sizes(), at::IntArrayRef({5, 32}));
  // The graph has the rows of what the last norm was computed for.
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

TEST(PairMatching, PoolsWhatIsNoPaddingOrTheFirstToken) {
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

TEST(Dropout, IsForTrainingOnly) {
  const Model m = make(small(Task::kEncoder));
  const at::Tensor ids = ids_of(1, 6);
  EXPECT_EQ(apart(m->forward({.ids = ids}).hidden, m->forward({.ids = ids}).hidden), 0.0);
  m->train();
  EXPECT_GT(apart(m->forward({.ids = ids}).hidden, m->forward({.ids = ids}).hidden), 0.01);
}

// ---- Precision and memory -----------------------------------------------------------------------

std::vector<at::Tensor> gradients(const Model& m) {
  at::manual_seed(3);  // for dropout
  m->zero_grad();
  const at::Tensor ids = ids_of(2, 9);
  m->forward({.ids = ids, .labels = ids}).loss.backward();
  std::vector<at::Tensor> all;
  for (const auto& p : m->named_parameters()) {
    EXPECT_TRUE(p.value().grad().defined()) << p.key();
    all.push_back(p.value().grad().defined() ? p.value().grad().clone() : at::Tensor());
  }
  return all;
}

TEST(Checkpointing, GivesTheSameGradientsBitForBit) {
  for (const char* encoding : {"rope", "rope+t5"}) {  // T5's bias is learned, and of all layers
    for (const auto& [training, type] :
         {std::pair(true, at::kFloat), std::pair(false, at::kFloat), std::pair(true, at::kBFloat16),
          std::pair(false, at::kBFloat16)}) {
      Config config = small(Task::kMaskedLm);
      config.position_encoding = encoding;
      const Model m = make(config);
      m->train(training);
      m->set_compute_type(type);
      const auto plain = gradients(m);
      const double next = at::rand({1}).item<double>();
      m->set_checkpointing(true);
      const auto again = gradients(m);
      EXPECT_EQ(at::rand({1}).item<double>(), next) << "draws went on elsewhere";
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_TRUE(at::equal(plain[i], again[i])) << encoding << " " << i;
      }
    }
  }
}

TEST(Checkpointing, KeepsNoLayersResults) {
  const Model m = make(small(Task::kMaskedLm));
  const auto saved = [&] {  // by the graph of one pass
    const at::Tensor logits = m->forward({.ids = ids_of(1, 6)}).logits;
    std::size_t nodes = 0;
    std::vector<::torch::autograd::Node*> open = {logits.grad_fn().get()};
    for (std::set<::torch::autograd::Node*> seen; !open.empty(); ++nodes) {
      ::torch::autograd::Node* node = open.back();
      open.pop_back();
      for (const auto& edge : node->next_edges()) {
        if (edge.function && seen.insert(edge.function.get()).second) {
          open.push_back(edge.function.get());
        }
      }
    }
    return nodes;
  };
  const std::size_t plain = saved();
  m->set_checkpointing(true);
  EXPECT_LT(saved() + 30, plain);
}

TEST(ComputeType, LayersRunInItAndParametersStay) {
  for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification,
                          Task::kTokenClassification, Task::kQuestionAnswering}) {
    const Model m = make(small(task));
    const at::Tensor ids = ids_of(2, 9);
    const Output wide = m->forward({.ids = ids});
    m->set_compute_type(at::kBFloat16);
    const Output narrow = m->forward({.ids = ids});
    EXPECT_EQ(narrow.hidden.scalar_type(), at::kBFloat16);
    EXPECT_LE(apart(narrow.hidden, wide.hidden), 0.08);  // 2^-9 of numbers up to 3, some ten times
    EXPECT_GT(apart(narrow.hidden, wide.hidden), 0.0);
    const double scale = wide.logits.abs().max().item<double>();
    EXPECT_LE(apart(narrow.logits, wide.logits), 0.06 * scale) << static_cast<int>(task);
  }
  const Model m = make(small(Task::kMaskedLm));
  const auto wide = gradients(m);
  m->set_compute_type(at::kBFloat16);
  const auto narrow = gradients(m);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(narrow[i].scalar_type(), at::kFloat);
    const double scale = wide[i].abs().max().item<double>();
    EXPECT_LE(apart(narrow[i], wide[i]), 0.1 * scale + 1e-3) << i;
  }
  EXPECT_THAT(thrown([&] { m->set_compute_type(at::kLong); }),
              testing::HasSubstr("[RoFormer] the type to compute in must be one of real numbers"));
}

TEST(SplitHeads, TurnsAndGivesBackAsPartsDo) {
  const std::string rope =
      torch::to_text({.frequencies = make_frequencies({.rotary_dim = 8, .theta = 100.0}),
                      .layout = {.head_dim = 8, .pairing = Pairing::kHalf}});
  const torch::Where packed{.cu_seqlens = at::tensor({0, 3, 7}, at::kInt)};
  for (const auto& where : {torch::Where{}, torch::Where{.first = 5}, packed}) {
    const at::Tensor x = at::randn({1, 7, 3 * 2 * 8}).requires_grad_();
    const at::Tensor bias = at::randn({3 * 2 * 8}).requires_grad_();
    const auto parts = torch::split_heads_(
        x + bias.detach(), {.heads = 2, .rope = rope, .where = where, .bias = bias});
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
  const auto keys =
      torch::split_heads_(two.clone(), {.heads = 2, .parts = 2, .turned = 1, .rope = rope});
  ASSERT_EQ(keys.size(), 2u);
  const std::vector<at::Tensor> whole = two.unflatten(2, {2, 2, 8}).unbind(2);
  EXPECT_LE(apart(keys[0], torch::rotate(whole[0], rope)[0]), 1e-6);
  EXPECT_TRUE(at::equal(keys[1], whole[1]));
  EXPECT_THAT(thrown([] { torch::split_heads_(at::zeros({1, 2, 10}), {.heads = 2}); }),
              testing::HasSubstr("[split_heads] product must be [batch, tokens, 3 2 head_dim]"));
}

TEST(Model, SaysWhichKernelRan) {
  Config config = small(Task::kEncoder);
  const Model softmax = make(config);
  softmax->forward({.ids = ids_of(1, 6)});
  EXPECT_THAT(softmax->roformer().attention_backend(), testing::AnyOf("flash", "math"));
  config.attention_type = AttentionKind::kLinear;
  const Model linear = make(config);
  linear->forward({.ids = ids_of(1, 6)});
  EXPECT_EQ(linear->roformer().attention_backend(), "linear");
}

TEST(Model, RefusesInputsThatDoNotFit) {
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
