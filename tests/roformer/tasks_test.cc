// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Metrics of `roformer evaluate` against values computed by hand.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

#include "roformer/data/question_windows.h"
#include "roformer/roformer_testing.h"
#include "roformer/tasks/answers.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/token_answers.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/tasks_testing.h"

namespace rotary::roformer::tasks_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// ---- Classes ------------------------------------------------------------------------------------

std::shared_ptr<const ExampleSet> reviews() {
  return std::make_shared<const ExampleSet>(ExampleSet{.examples = {{"good", "", 1},
                                                                    {"bad, very bad", "", 0},
                                                                    {"so so", "", 1},
                                                                    {"not my taste", "", 0},
                                                                    {"!", "", 1}},
                                                       .labels = {"no", "yes"}});
}

TEST(ClassScore, MetricsFollowFromTheConfusionMatrix) {
  const ClassScore score{.loss = 0.0, .table = {{6, 2, 0}, {1, 3, 0}, {4, 0, 0}}};
  EXPECT_EQ(score.examples(), 16);
  EXPECT_DOUBLE_EQ(score.accuracy(), 9.0 / 16);
  EXPECT_DOUBLE_EQ(score.precision(0), 6.0 / 11);
  EXPECT_DOUBLE_EQ(score.recall(0), 6.0 / 8);
  EXPECT_DOUBLE_EQ(score.precision(2), 0.0);
  const double f0 = 2 * (6.0 / 11) * 0.75 / (6.0 / 11 + 0.75);
  const double f1 = 2 * 0.6 * 0.75 / (0.6 + 0.75);
  EXPECT_DOUBLE_EQ(score.macro_f1(), (f0 + f1) / 3);
}

TEST(ClassScore, MatchesSingleExamples) {
  const at::NoGradGuard no_grad;
  const Model model = make(of_bytes(Task::kSequenceClassification));
  std::vector<std::vector<std::int64_t>> table(2, std::vector<std::int64_t>(2));
  double loss = 0.0;
  const auto set = reviews();
  for (const Example& example : set->examples) {
    const Encoding input = encode(*bytes(), example.first);
    const at::Tensor ids =
        at::tensor(std::vector<std::int64_t>(input.ids.begin(), input.ids.end()), at::kLong);
    const at::Tensor p = at::log_softmax(model->forward({.ids = ids.unsqueeze(0)}).logits[0], 0);
    loss -= p[example.label].item<double>() / 5;
    ++table[static_cast<std::size_t>(example.label)]
           [static_cast<std::size_t>(p.argmax().item<std::int64_t>())];
  }
  for (const std::int64_t rows : {1, 2, 32}) {
    const ClassScore got = score_classes(*model, set, bytes(), {.rows = rows});
    EXPECT_EQ(got.table, table);
    EXPECT_THAT(got.loss, DoubleNear(loss, 1e-5));
  }
}

TEST(ClassScore, RejectsOtherModelsAndClasses) {
  auto three = std::make_shared<ExampleSet>(*reviews());
  three->labels = {"no", "yes", "maybe"};
  const Model model = make(of_bytes(Task::kSequenceClassification));
  EXPECT_THROW(score_classes(*model, three, bytes(), {}), std::invalid_argument);
  EXPECT_THROW(score_classes(*make(of_bytes(Task::kMaskedLm)), reviews(), bytes(), {}),
               std::invalid_argument);
}

TEST(ClassScore, F1AndMatthewsOfTwoClasses) {
  const ClassScore score{.loss = 0.0, .table = {{50, 10}, {5, 35}}};
  const double precision = 35.0 / 45;
  const double recall = 35.0 / 40;
  EXPECT_DOUBLE_EQ(score.f1(1), 2 * precision * recall / (precision + recall));
  EXPECT_NEAR(score.matthews(), (35.0 * 50 - 10 * 5) / std::sqrt(45.0 * 40 * 60 * 55), 1e-12);
}

// ---- Triples ------------------------------------------------------------------------------------

std::vector<Triple> cases() {
  return {{"a loan of money", "a loan not paid", "a house let", true},
          {"a house let", "a house sold", "a loan of money", true},
          {"damage by a dog", "a loan not paid", "damage by a cat", false},
          {"abc", "abd", "xyz", true}};
}

class TripleScores : public testing::TestWithParam<Task> {};

/// score(a, b) - score(a, c), one row at a time.
double lead_of(ModelImpl& model, const Triple& triple) {
  const auto row = [](const std::vector<std::int32_t>& values) {
    return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong)
        .unsqueeze(0);
  };
  const auto vector = [&](const std::string& text) {
    return model.roformer().forward({.ids = row(encode(*bytes(), text).ids)}).mean(1)[0];
  };
  const auto score = [&](const std::string& other) {
    if (model.config().task != Task::kPairMatching) {
      return at::cosine_similarity(vector(triple.a), vector(other), 0).item<double>();
    }
    const Encoding pair = encode_pair(*bytes(), triple.a, other);
    return model.forward({.ids = row(pair.ids), .types = row(pair.types)})
        .logits[0][0]
        .item<double>();
  };
  return score(triple.b) - score(triple.c);
}

TEST_P(TripleScores, SwappedTriplesAreWrong) {
  const at::NoGradGuard no_grad;
  Config config = of_bytes(GetParam());
  config.num_labels = 1;
  const Model model = make(config);
  std::int64_t right = 0;
  std::vector<Triple> agreed = cases();
  for (Triple& triple : agreed) {
    const double lead = lead_of(*model, triple);
    ASSERT_GT(std::abs(lead), 1e-6) << triple.a;
    if ((lead > 0) == triple.b_is_nearer) ++right;
    triple.b_is_nearer = lead > 0;
  }
  std::vector<Triple> swapped = agreed;
  for (Triple& triple : swapped) std::swap(triple.b, triple.c);
  for (const std::int64_t rows : {1, 3, 32}) {
    const TripleScore got = score_triples(*model, cases(), bytes(), {.rows = rows});
    EXPECT_EQ(got.triples, 4);
    EXPECT_EQ(got.right, right);
    EXPECT_EQ(score_triples(*model, agreed, bytes(), {.rows = rows}).right, 4);
    EXPECT_EQ(score_triples(*model, swapped, bytes(), {.rows = rows}).right, 0);
  }
}

TEST_P(TripleScores, EqualScoresAreWrong) {
  Config config = of_bytes(GetParam());
  config.num_labels = 1;
  const Model model = make(config);
  const std::vector<Triple> same = {{"one", "two", "two", true}, {"one", "two", "two", false}};
  EXPECT_EQ(score_triples(*model, same, bytes(), {}).right, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, TripleScores,
                         testing::Values(Task::kPairMatching, Task::kMaskedLm, Task::kEncoder));

// ---- Words --------------------------------------------------------------------------------------

std::vector<Entity> entities(const std::vector<std::string>& tags) { return entities_of(tags); }

TEST(Entities, FollowTheTags) {
  EXPECT_THAT(entities({"B-PER", "I-PER", "O", "B-LOC"}),
              ElementsAre(Entity{"PER", 0, 2}, Entity{"LOC", 3, 4}));
  EXPECT_THAT(entities({"B-PER", "B-PER", "I-LOC"}),
              ElementsAre(Entity{"PER", 0, 1}, Entity{"PER", 1, 2}, Entity{"LOC", 2, 3}));
  EXPECT_THAT(entities({"I-PER", "I-PER", "O", "I-PER"}),
              ElementsAre(Entity{"PER", 0, 2}, Entity{"PER", 3, 4}));
  EXPECT_THAT(entities({"S-PER", "B-PER", "I-PER", "E-PER", "I-PER"}),
              ElementsAre(Entity{"PER", 0, 1}, Entity{"PER", 1, 4}, Entity{"PER", 4, 5}));
  EXPECT_THAT(entities({"NOUN", "I-", "", "X-PER"}), ElementsAre());
}

/// Predicts class 1 for every token.
Model with_one_answer(Task task, std::int64_t labels) {
  Config config = of_bytes(task);
  config.num_labels = labels;
  const Model model = make(config);
  const at::NoGradGuard no_grad;
  model->named_parameters()["classifier.weight"].zero_();
  model->named_parameters()["classifier.bias"][1] = 2.0;
  return model;
}

TEST(TagScore, CountsWordsAndEntities) {
  const auto set = std::make_shared<const TagSet>(
      TagSet{.texts = {{.words = {"ab", "cd", "e"}, .tags = {1, 0, 1}},
                       {.words = {"f", "ghij"}, .tags = {1, 2}}},
             .labels = {"O", "B-X", "I-X"}});
  const Model model = with_one_answer(Task::kTokenClassification, 3);
  const TagScore score = score_tags(*model, set, bytes(), {.rows = 1});
  EXPECT_EQ(score.words.examples(), 5);
  EXPECT_DOUBLE_EQ(score.words.accuracy(), 3.0 / 5);
  EXPECT_THAT(score.words.table[2], ElementsAre(0, 1, 0));
  // Predicted: five entities of one word. True: three, the last of two words.
  EXPECT_EQ(score.entities, 3);
  EXPECT_EQ(score.said, 5);
  EXPECT_EQ(score.right, 2);
  EXPECT_DOUBLE_EQ(score.f1(), 2 * (2.0 / 5) * (2.0 / 3) / (2.0 / 5 + 2.0 / 3));
  const double sure = 2 - std::log(std::exp(2.0) + 2);
  EXPECT_THAT(score.words.loss, DoubleNear((3 * -sure + 2 * (2 - sure)) / 5, 1e-5));
  EXPECT_EQ(score.unread, 0);
  const TagScore cut = score_tags(*model, set, bytes(), {.max_length = 5});
  EXPECT_EQ(cut.unread, 1);
  EXPECT_EQ(cut.words.examples(), 4);
  EXPECT_EQ(cut.entities, 3);
  EXPECT_THROW(score_tags(*make(of_bytes(Task::kMaskedLm)), set, bytes(), {}),
               std::invalid_argument);
  EXPECT_THROW(score_tags(*with_one_answer(Task::kTokenClassification, 2), set, bytes(), {}),
               std::invalid_argument);
}

// ---- Questions ----------------------------------------------------------------------------------

TextMatch match(const std::string& said, const std::vector<std::string>& right) {
  return match_answer(said, right);
}

TEST(MatchAnswer, FollowsSquad) {
  EXPECT_TRUE(match("The Eiffel Tower.", {"eiffel tower"}).exact);
  EXPECT_DOUBLE_EQ(match("The Eiffel Tower.", {"eiffel tower"}).f1, 1.0);
  EXPECT_FALSE(match("Eiffel", {"Eiffel Tower"}).exact);
  EXPECT_DOUBLE_EQ(match("Eiffel", {"Eiffel Tower"}).f1, 2.0 / 3);
  EXPECT_DOUBLE_EQ(match("b b c", {"b c d e"}).f1, 2 * (2.0 / 3) * 0.5 / (2.0 / 3 + 0.5));
  EXPECT_TRUE(match("U.S.", {"us"}).exact);
  EXPECT_TRUE(match("two", {"one", "two"}).exact);
  EXPECT_DOUBLE_EQ(match("two", {"one", "three two"}).f1, 2.0 / 3);
  EXPECT_TRUE(match("", {}).exact);
  EXPECT_DOUBLE_EQ(match("x", {}).f1, 0.0);
  EXPECT_DOUBLE_EQ(match("", {"x"}).f1, 0.0);
  EXPECT_TRUE(match("长江。", {"长江"}).exact);
  EXPECT_DOUBLE_EQ(match("在长江", {"长江"}).f1, 0.8);
}

TEST(FindAnswers, MostProbableSpanOfTheContext) {
  const at::NoGradGuard no_grad;
  const Model model = make(of_bytes(Task::kQuestionAnswering));
  const auto set = std::make_shared<const QuestionSet>(QuestionSet{
      .questions = {{.question = "who?", .context = "Ada wrote it.", .answers = {"Ada"}},
                    {.question = "when did it happen?", .context = "In 1843, it seems."}}});
  std::vector<std::string> expected;
  for (const Question& question : set->questions) {
    const Encoding input = encode_pair(*bytes(), question.question, question.context);
    const auto row = [](const std::vector<std::int32_t>& values) {
      return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong)
          .unsqueeze(0);
    };
    const at::Tensor logits =
        model->forward({.ids = row(input.ids), .types = row(input.types)}).logits[0];
    const std::size_t first = question.question.size() + 2;
    double best = (logits[0][0] + logits[0][1]).item<double>();
    expected.emplace_back();
    for (std::size_t i = 0; i < question.context.size(); ++i) {
      for (std::size_t k = i; k < question.context.size(); ++k) {
        const double score = (logits[static_cast<std::int64_t>(first + i)][0] +
                              logits[static_cast<std::int64_t>(first + k)][1])
                                 .item<double>();
        if (score <= best) continue;
        best = score;
        expected.back() = question.context.substr(i, k - i + 1);
      }
    }
  }
  EXPECT_EQ(find_answers(*model, set, bytes(), {.rows = 2}), expected);
  EXPECT_EQ(find_answers(*model, set, bytes(), {.rows = 1}), expected);
  const AnswerScore score = score_answers(*model, set, bytes(), {});
  EXPECT_EQ(score.questions, 2);
  EXPECT_DOUBLE_EQ(score.exact, (match(expected[0], {"Ada"}).exact ? 0.5 : 0.0) +
                                    (expected[1].empty() ? 0.5 : 0.0));
  EXPECT_GT(score.loss, 0.0);
  EXPECT_THROW(find_answers(*make(of_bytes(Task::kMaskedLm)), set, bytes(), {}),
               std::invalid_argument);
}

TEST(FindAnswers, BestSpanOfAllWindows) {
  const at::NoGradGuard no_grad;
  const Model model = make(of_bytes(Task::kQuestionAnswering));
  const Question question{.question = "who?", .context = "It was Ada who wrote it, it is said."};
  const auto set = std::make_shared<const QuestionSet>(QuestionSet{.questions = {question}});
  const AnswerOptions options{.max_length = 20, .stride = 5};
  const QuestionWindows windows(set, bytes(), {.max_length = 20, .stride = 5});
  ASSERT_GT(windows.size(), 3u);
  double none = std::numeric_limits<double>::infinity();
  double best = -none;
  std::string expected;
  std::size_t best_window = 0;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const Encoding input = windows.read(w).encoding;
    const auto row = [](const std::vector<std::int32_t>& values) {
      return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong)
          .unsqueeze(0);
    };
    const at::Tensor logits =
        model->forward({.ids = row(input.ids), .types = row(input.types)}).logits[0];
    none = std::min(none, (logits[0][0] + logits[0][1]).item<double>());
    for (std::size_t i = 6; i + 1 < input.ids.size(); ++i) {
      for (std::size_t k = i; k + 1 < input.ids.size(); ++k) {
        const double score =
            (logits[static_cast<std::int64_t>(i)][0] + logits[static_cast<std::int64_t>(k)][1])
                .item<double>();
        if (score <= best) continue;
        best = score;
        best_window = w;
        const std::size_t begin = input.spans[i].begin;
        expected = question.context.substr(begin, input.spans[k].end - begin);
      }
    }
  }
  EXPECT_GT(best_window, 0u) << "the first window alone would not find it";
  ASSERT_GT(best, none);
  for (const std::int64_t rows : {1, 4}) {
    AnswerOptions batched = options;
    batched.rows = rows;
    EXPECT_THAT(find_answers(*model, set, bytes(), batched), ElementsAre(expected));
  }
}

// ---- Configs ------------------------------------------------------------------------------------

using TuneConfigs = ScratchTest;

TEST_F(TuneConfigs, RoundTrip) {
  TuneConfig config =
      read_tune_config(file("t.json", R"({"checkpoint": "base", "epochs": 5, "dropout": 0.2})"));
  EXPECT_EQ(config.epochs, 5);
  EXPECT_EQ(config.batch, 32);
  const TuneConfig again = read_tune_config(file("u.json", to_json(config)));
  EXPECT_EQ(to_json(again), to_json(config));
  EXPECT_EQ(other_key(config, again), "");
  config.device = "cpu";
  EXPECT_EQ(other_key(config, again), "");
  config.epochs = 6;
  EXPECT_EQ(other_key(config, again), "epochs");
  EXPECT_TRUE(std::filesystem::path(with_absolute_paths(config).checkpoint).is_absolute());
  EXPECT_EQ(with_absolute_paths(config).valid, "");
}

// ---- Names of classes ---------------------------------------------------------------------------

TEST(LabelNames, RoundTripThroughTheConfig) {
  Config config = of_bytes(Task::kSequenceClassification);
  EXPECT_THAT(label_names(config), ElementsAre());
  EXPECT_THAT(label_names(parse_config(to_json(config), "here")), ElementsAre());
  const std::vector<std::string> names = {"negative", "neutral", "positive"};
  set_label_names(config, names);
  const Config again = parse_config(to_json(config), "here");
  EXPECT_EQ(again.num_labels, 3);
  EXPECT_EQ(label_names(again), names);
  Config number = again;
  set_regression(number);
  number = parse_config(to_json(number), "here");
  EXPECT_TRUE(predicts_number(number));
  EXPECT_THAT(label_names(number), ElementsAre());
  EXPECT_THAT(number.other, testing::HasSubstr("\"problem_type\":\"regression\""));
  set_label_names(number, names);
  EXPECT_EQ(to_json(number), to_json(again)) << "nothing of the regression is left";
}

}  // namespace
}  // namespace rotary::roformer::tasks_test
