// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norms of queries and keys, with RoPE and without an encoding: equations, training, checkpoints.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "model_testing.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/train/step.h"
#include "roformer_testing.h"

namespace rotary::roformer {
namespace {

using testing::HasSubstr;

struct QkNormCase {
  QkNorm norm;
  const char* encoding;
};

class QkNormTest : public ScratchTest, public testing::WithParamInterface<QkNormCase> {
 protected:
  static Config config() {
    Config config = small(Task::kMaskedLm);
    config.qk_norm = GetParam().norm;
    config.position_encoding = GetParam().encoding;
    config.hidden_dropout_prob = 0.0;
    config.attention_probs_dropout_prob = 0.0;
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(, QkNormTest,
                         testing::Values(QkNormCase{QkNorm::kLayer, "rope"},
                                         QkNormCase{QkNorm::kRms, "rope"},
                                         QkNormCase{QkNorm::kLayer, "none"},
                                         QkNormCase{QkNorm::kRms, "none"},
                                         QkNormCase{QkNorm::kNone, "none"}),
                         [](const auto& one) {
                           const QkNorm norm = one.param.norm;
                           return std::string(norm == QkNorm::kNone    ? "Plain"
                                              : norm == QkNorm::kLayer ? "Layer"
                                                                       : "Rms") +
                                  "_" + one.param.encoding;
                         });

TEST_P(QkNormTest, SavedAndLoadedIsTheSame) {
  const Model model = make(config());
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      if (item.key().find("_norm.") != std::string::npos) item.value().add_(0.3);
    }
  }
  save_model(path("model"), *model);
  const Model again = load_complete_model(path("model"));
  EXPECT_EQ(again->config().qk_norm, config().qk_norm);
  const Inputs inputs{.ids = ids_of(2, 9)};
  EXPECT_TRUE(at::equal(model->forward(inputs).logits, again->forward(inputs).logits));
}

TEST_P(QkNormTest, Learns) {
  const Model model = make(config());
  model->train();
  TrainStep step(*model, {}, nullptr);
  const at::Tensor ids = ids_of(4, 12);
  const Inputs inputs{.ids = ids, .labels = ids};
  double first = 0.0;
  double last = 0.0;
  for (std::int64_t i = 1; i <= 40; ++i) {
    last = model->forward(inputs).loss.item<double>();
    if (i == 1) first = last;
    step.add_batch(inputs, ids.numel());
    step.update(i, 1e-2, false);
  }
  EXPECT_LT(last, 0.5 * first);
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("query_norm.weight") != std::string::npos) {
      EXPECT_GT((item.value() - 1.0).abs().max().item<double>(), 0.0) << item.key();
    }
  }
}

TEST_P(QkNormTest, ScoresDoNotDependOnTheScaleOfQueries) {
  const Model model = make(config());
  const Inputs inputs{.ids = ids_of(2, 9)};
  const at::Tensor before = model->forward(inputs).logits;
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      if (item.key().find("self.query.") != std::string::npos ||
          item.key().find("self.key.") != std::string::npos) {
        item.value().mul_(8.0);
      }
    }
  }
  const double difference = apart(before, model->forward(inputs).logits);
  if (config().qk_norm == QkNorm::kNone) {
    EXPECT_GT(difference, 1e-2);
  } else {
    EXPECT_LT(difference, 1e-4);
  }
}

TEST_P(QkNormTest, KnowsOrderOnlyByItsEncoding) {
  const Model model = make(config());
  const at::Tensor ids = ids_of(1, 9);
  const at::Tensor there = model->forward({.ids = ids}).hidden;
  const at::Tensor back = model->forward({.ids = ids.flip(1)}).hidden.flip(1);
  const bool ordered = config().position_encoding == "rope";
  EXPECT_EQ(apart(there, back) > 1e-3, ordered);
}

TEST_P(QkNormTest, MixedPrecisionFallsBackToPlainOperations) {
  const Model model = make(config());
  const Inputs inputs{.ids = ids_of(2, 9)};
  const at::Tensor exact = model->forward(inputs).logits;
  model->set_compute_type(at::kBFloat16);
  const at::Tensor rough = model->forward(inputs).logits.to(at::kFloat);
  EXPECT_LT(apart(exact, rough), 0.1 * exact.abs().max().item<double>());
}

TEST(QkNormConfig, NamesItsValues) {
  EXPECT_THAT(thrown([] { parse_config(R"({"qk_norm": "batch"})", "here"); }),
              HasSubstr("qk_norm must be one of none, layer, rms, got \"batch\""));
  EXPECT_THAT(thrown([] { parse_config(R"({"model_type": "bert", "qk_norm": "rms"})", "here"); }),
              HasSubstr("model_type must be \"roformer\" for use_bias"));
}

}  // namespace
}  // namespace rotary::roformer
