// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// RoFormer with encodings of the content: "shaw", "nezha" and "transformer_xl". Their formulas are
// held by test_relative.py.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <filesystem>
#include <string>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/model/parameter_store.h"
#include "roformer/model_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

struct Relative {
  const char* name;
  const char* encoding;
  Task task = Task::kMaskedLm;
};

std::ostream& operator<<(std::ostream& out, const Relative& relative) {
  return out << relative.name;
}

const Relative kBothWays[] = {
    {.name = "Shaw", .encoding = "shaw"},
    {.name = "Nezha", .encoding = "nezha"},
    {.name = "TransformerXl", .encoding = "transformer_xl"},
    {.name = "AlibiShaw", .encoding = "alibi+shaw"},
};
const Relative kCausal[] = {
    {.name = "ShawCausal", .encoding = "shaw", .task = Task::kCausalLm},
    {.name = "NezhaCausal", .encoding = "nezha", .task = Task::kCausalLm},
    {.name = "TransformerXlCausal", .encoding = "transformer_xl", .task = Task::kCausalLm},
};

class RelativeEncodingTest : public ::testing::TestWithParam<Relative> {
 protected:
  /// With relative parameters that matter.
  static Model model() {
    Config config = small(GetParam().task);
    config.position_encoding = GetParam().encoding;
    config.hidden_dropout_prob = 0.0;
    config.attention_probs_dropout_prob = 0.0;
    Model model = make(config);
    const at::NoGradGuard no_grad;
    at::manual_seed(3);
    for (const auto& item : model->named_parameters()) {
      if (item.key().find(".relative.") != std::string::npos) item.value().normal_(0.0, 0.3);
    }
    return model;
  }
};

/// A cache is for causal models.
class CachedRelativeEncodingTest : public RelativeEncodingTest {};

TEST_P(RelativeEncodingTest, OrderMatters) {
  const Model m = model();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(1, 6);
  const at::Tensor back = m->forward({.ids = ids.flip(1)}).logits.flip(1);
  EXPECT_GT(apart(m->forward({.ids = ids}).logits, back), 0.01);
}

TEST_P(RelativeEncodingTest, PaddingInFrontShiftsAllTokensAndChangesNothing) {
  const Model m = model();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 12);
  const at::Tensor mask = at::ones({2, 12}, at::kLong);
  mask.narrow(1, 0, 5).zero_();
  const at::Tensor shifted = m->forward({.ids = ids, .mask = mask}).logits.narrow(1, 5, 7);
  EXPECT_LT(apart(shifted, m->forward({.ids = ids.narrow(1, 5, 7)}).logits), 2e-4);
}

TEST_P(RelativeEncodingTest, PackedSequencesAreTheSequences) {
  const Model m = model();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(1, 12);
  const at::Tensor packed =
      m->forward({.ids = ids, .cu_seqlens = at::tensor({0, 5, 12}, at::kInt), .max_seqlen = 7})
          .logits;
  const at::Tensor a = m->forward({.ids = ids.narrow(1, 0, 5)}).logits;
  const at::Tensor b = m->forward({.ids = ids.narrow(1, 5, 7)}).logits;
  EXPECT_LT(apart(packed, at::cat({a, b}, 1)), 2e-4);
}

TEST_P(CachedRelativeEncodingTest, DecodingMatchesOnePass) {
  const Model m = model();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 9);
  const at::Tensor whole = m->forward({.ids = ids}).logits;
  Cache cache;
  const at::Tensor a = m->forward({.ids = ids.narrow(1, 0, 5), .cache = &cache}).logits;
  const at::Tensor b = m->forward({.ids = ids.narrow(1, 5, 1), .cache = &cache}).logits;
  const at::Tensor c = m->forward({.ids = ids.narrow(1, 6, 3), .cache = &cache}).logits;
  EXPECT_LT(apart(whole, at::cat({a, b, c}, 1)), 2e-4);
}

TEST_P(RelativeEncodingTest, OutputsAtSomeTokensAreThoseOfAll) {
  const Model m = model();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 9);
  const at::Tensor tokens = at::tensor({1, 4, 11, 17}, at::kLong);
  const at::Tensor some = m->roformer().forward_at(tokens, {.ids = ids});
  const at::Tensor all = m->roformer().forward({.ids = ids}).flatten(0, 1);
  EXPECT_LT(apart(some, all.index_select(0, tokens)), 2e-4);
}

TEST_P(RelativeEncodingTest, GradientsAreTheSameWithCheckpointing) {
  const at::Tensor ids = ids_of(2, 9);
  std::vector<at::Tensor> grads[2];
  for (const bool on : {false, true}) {
    const Model m = model();
    m->train();
    m->set_checkpointing(on);
    m->forward({.ids = ids, .labels = ids}).loss.backward();
    for (const at::Tensor& p : m->parameters()) {
      if (p.grad().defined()) grads[on ? 1 : 0].push_back(p.grad());
    }
  }
  ASSERT_EQ(grads[0].size(), grads[1].size());
  for (std::size_t i = 0; i < grads[0].size(); ++i) {
    EXPECT_LT(apart(grads[0][i], grads[1][i]), 1e-5);
  }
}

TEST_P(RelativeEncodingTest, MixedPrecisionIsNear) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = ids_of(2, 9);
  at::Tensor hidden[2];
  for (const bool narrow : {false, true}) {
    const Model m = model();
    if (narrow) m->set_compute_type(at::kBFloat16);
    hidden[narrow ? 1 : 0] = m->roformer().forward({.ids = ids}).to(at::kFloat);
  }
  EXPECT_LT((hidden[0] - hidden[1]).abs().mean().item<double>(), 0.05);
}

/// The token before, which no model without an order of tokens can tell.
TEST_P(RelativeEncodingTest, LearnsAndIsSavedAndLoaded) {
  const Model m = model();
  m->train();
  const at::Tensor ids = ids_of(8, 10);
  const at::Tensor before = ids.roll(1, 1);
  before.select(1, 0).fill_(kIgnored);
  ::torch::optim::AdamW optimizer(m->parameters(), ::torch::optim::AdamWOptions(0.01));
  double loss = 0.0;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    const at::Tensor now =
        m->forward({.ids = ids, .labels = before, .causal_labels = CausalLabels::kNextToken}).loss;
    now.backward();
    for (const auto& item : m->named_parameters()) {
      if (step != 0 || item.key().find(".relative.") == std::string::npos) continue;
      EXPECT_TRUE(item.value().grad().defined() &&
                  item.value().grad().abs().sum().item<double>() > 0.0)
          << item.key();
    }
    optimizer.step();
    loss = now.item<double>();
    if (loss < 0.3) break;
  }
  EXPECT_LT(loss, 0.3);

  m->eval();
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / (std::string("relative_") + GetParam().name);
  save_model(folder, *m);
  const Model loaded = load_complete_model(folder);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(loaded->config().position_encoding, GetParam().encoding);
  EXPECT_TRUE(at::equal(m->forward({.ids = ids}).logits, loaded->forward({.ids = ids}).logits));
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(BothWays, RelativeEncodingTest, ::testing::ValuesIn(kBothWays), kName);
INSTANTIATE_TEST_SUITE_P(Causal, RelativeEncodingTest, ::testing::ValuesIn(kCausal), kName);
INSTANTIATE_TEST_SUITE_P(Causal, CachedRelativeEncodingTest, ::testing::ValuesIn(kCausal), kName);

TEST(RelativeEncoding, EveryLayerHasItsOwn) {
  Config config = small(Task::kMaskedLm);
  config.position_encoding = "shaw";
  const Model m = make(config);
  const auto parameters = m->named_parameters();
  for (const char* layer : {"0", "1"}) {
    const at::Tensor* keys = parameters.find(std::string("roformer.encoder.layer.") + layer +
                                             ".attention.self.relative.keys");
    ASSERT_NE(keys, nullptr);
    EXPECT_THAT(keys->sizes().vec(), ::testing::ElementsAre(33, 8));
  }
}

TEST(RelativeEncoding, RejectsWhatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"position_encoding": "shaw+transformer_xl"})", "of the last three at most one"},
      {R"({"position_encoding": "rope+shaw"})", "and not with rope or xpos, got \"rope+shaw\""},
      {R"({"position_encoding": "shaw+"})", "position_encoding must be"},
      {R"({"position_encoding": "nezha", "attention_type": "linear"})",
       "position_encoding must be rope, none, learned or sinusoidal for linear attention"},
  };
  for (const auto& [json, words] : cases) {
    EXPECT_THAT([json = json] { parse_config(json, "c"); },
                ::testing::ThrowsMessage<IoError>(::testing::HasSubstr(words)));
  }
}

}  // namespace
}  // namespace rotary::roformer
