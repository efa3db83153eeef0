// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Models that predict a number, and the correlations that they are judged by.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <memory>
#include <vector>

#include "roformer/roformer_testing.h"
#include "roformer/tasks/answers.h"
#include "roformer/tasks/correlation.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/predictions.h"
#include "roformer/tasks_testing.h"

namespace rotary::roformer::tasks_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Correlation, Pearson) {
  const std::vector<double> x = {1, 2, 3, 4};
  const auto of = [&](const std::vector<double>& y) { return pearson(x, y); };
  EXPECT_DOUBLE_EQ(of({2, 4, 6, 8}), 1.0);
  EXPECT_DOUBLE_EQ(of({-1, -2, -3, -4}), -1.0);
  EXPECT_NEAR(of({1, 3, 2, 5}), 5.5 / std::sqrt(5.0 * 8.75), 1e-12);
  EXPECT_EQ(of({7, 7, 7, 7}), 0.0);
  EXPECT_EQ(pearson({}, {}), 0.0);
  EXPECT_NEAR(of({1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4}), 1.0, 1e-12);
}

TEST(Correlation, RanksOfEqualValuesAreTheirMean) {
  const std::vector<double> values = {10, 20, 10, 5, 20, 20};
  EXPECT_THAT(average_ranks(values), ElementsAre(2.5, 5, 2.5, 1, 5, 5));
  const std::vector<double> x = {1, 2, 3, 4, 5};
  // scipy.stats.spearmanr
  EXPECT_NEAR(spearman(x, std::vector<double>{5, 6, 7, 8, 7}), 0.8207826816681233, 1e-12);
  EXPECT_DOUBLE_EQ(spearman(x, std::vector<double>{1, 10, 100, 1000, 10000}), 1.0);
}

TEST(Correlation, Matthews) {
  // 8 examples, 6 correct: (6 * 8 - 21) / sqrt((64 - 22) * (64 - 22))
  EXPECT_NEAR(matthews({{2, 1, 0}, {0, 2, 0}, {1, 0, 2}}), 27.0 / 42, 1e-12);
  EXPECT_EQ(matthews({{0, 4}, {0, 6}}), 0.0);
  EXPECT_DOUBLE_EQ(matthews({{0, 4}, {6, 0}}), -1.0);
}

TEST(NumberScore, MatchesSingleExamples) {
  const at::NoGradGuard no_grad;
  Config config = of_bytes(Task::kMaskedLm);
  set_regression(config);
  EXPECT_TRUE(predicts_number(config));
  const Model model = make(config);
  const auto classes = std::make_shared<const ExampleSet>(
      ExampleSet{.examples = {{"good", "", 1}, {"bad", "", 0}, {"so so", "", 1}, {"!", "", 0}},
                 .labels = {"no", "yes"}});
  auto set = std::make_shared<ExampleSet>(*classes);
  set->labels.clear();
  set->label_kind = LabelKind::kNumber;
  std::vector<double> labels;
  std::vector<double> said;
  double loss = 0.0;
  for (Example& example : set->examples) {
    example.number = static_cast<double>(labels.size() % 3) - 0.5;
    const Encoding input = encode(*bytes(), example.first);
    const at::Tensor ids =
        at::tensor(std::vector<std::int64_t>(input.ids.begin(), input.ids.end()), at::kLong);
    labels.push_back(example.number);
    said.push_back(model->forward({.ids = ids.unsqueeze(0)}).logits.item<double>());
    loss += std::pow(labels.back() - said.back(), 2) / 4;
  }
  for (const std::int64_t rows : {1, 2, 32}) {
    const NumberScore got = score_numbers(*model, set, bytes(), {.rows = rows});
    EXPECT_EQ(got.examples, 4);
    EXPECT_THAT(got.loss, DoubleNear(loss, 1e-5));
    EXPECT_THAT(got.pearson, DoubleNear(pearson(labels, said), 1e-4));
    EXPECT_THAT(got.spearman, DoubleNear(spearman(labels, said), 1e-9));
  }
  EXPECT_THROW(score_numbers(*model, classes, bytes(), {}), std::invalid_argument);
  EXPECT_THROW(score_classes(*model, classes, bytes(), {}), std::invalid_argument);
  EXPECT_THROW(score_numbers(*make(of_bytes(Task::kSequenceClassification)), set, bytes(), {}),
               std::invalid_argument);
  EXPECT_EQ(predict(*model, set, bytes(), {}).size(), 4u);
  EXPECT_EQ(predictions_table({"yes", "no"}), "index\tprediction\n0\tyes\n1\tno\n");
}

}  // namespace
}  // namespace rotary::roformer::tasks_test
