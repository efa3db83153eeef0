// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What `roformer evaluate` reports, against the same figures worked out by hand.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "roformer/data/document_stream.h"
#include "roformer/roformer_testing.h"
#include "roformer/tasks/answers.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/language.h"

namespace rotary::roformer::tasks_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

std::shared_ptr<const Tokenizer> bytes() {
  static const std::shared_ptr<const Tokenizer> kOnce =
      load_tokenizer({.kind = TokenizerKind::kByte});
  return kOnce;
}

Config small(Task task) {
  Config config;
  config.task = task;
  config.vocab_size = bytes()->vocabulary().size();
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 48;
  config.initializer_range = 0.2;
  return config;
}

Model make(const Config& config) {
  at::manual_seed(7);
  Model model = make_model(config);
  model->eval();
  return model;
}

TokenDocument document(std::string_view text) {
  TokenDocument out;
  to_document(bytes()->tokenize(text), out);
  return out;
}

/// The documents of a list, once.
class ListStream final : public DocumentStream {
 public:
  explicit ListStream(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  bool next(TokenDocument& out) override {
    if (at_ == texts_.size()) return false;
    out = document(texts_[at_++]);
    return true;
  }
  StreamPosition position() const override { return {.index = at_}; }
  void seek(const StreamPosition& to) override { at_ = static_cast<std::size_t>(to.index); }
  std::uint64_t fingerprint() const noexcept override { return 0; }

 private:
  std::vector<std::string> texts_;
  std::size_t at_ = 0;
};

std::vector<std::string> take(const std::vector<std::string>& texts, const TakeOptions& options) {
  ListStream stream(texts);
  std::vector<std::string> out;
  for (const TokenDocument& text : take_texts(stream, bytes()->vocabulary(), options)) {
    std::string shown;
    for (const std::int32_t id : text.ids) {
      shown += id == bytes()->vocabulary().special().sep ? "|" : bytes()->decode({&id, 1});
    }
    out.push_back(shown);
  }
  return out;
}

// ---- Texts --------------------------------------------------------------------------------------

TEST(TakeTexts, LongDocumentsAreCutAndShortOnesLeftOut) {
  EXPECT_THAT(take({"abcdefghij", "klm", "nopqr"}, {.tokens = 4}),
              ElementsAre("abcd", "efgh", "nopq"));
  EXPECT_THAT(take({"abcdefghij", "klm", "nopqr"}, {.tokens = 4, .most = 8}),
              ElementsAre("abcd", "efgh"));
  EXPECT_THAT(take({"abc"}, {.tokens = 4}), ElementsAre());
}

TEST(TakeTexts, JoinedDocumentsGoOnAfterASeparator) {
  EXPECT_THAT(take({"abcdefghij", "klm", "nopqr"}, {.tokens = 4, .choice = TextChoice::kJoined}),
              ElementsAre("abcd", "efgh", "ij|k", "lm|n", "opqr"));
}

// ---- Language models ----------------------------------------------------------------------------

std::vector<TokenDocument> texts() {
  return {document("Only how much the model sees around a token differs."),
          document("Every length is asked for the same tokens, therefore.")};
}

LanguageScore score(const Model& model, const LanguageOptions& options) {
  return score_language(*model, bytes()->vocabulary(), texts(), options);
}

TEST(LanguageScore, EveryLengthIsAskedForTheSameTokens) {
  const Model model = make(small(Task::kMaskedLm));
  const Masking half{.rate = 0.5};
  const LanguageScore whole = score(model, {.length = 55, .masking = half});
  EXPECT_GT(whole.tokens, 5);
  for (const std::int64_t length : {3, 10, 24, 54, 200}) {
    EXPECT_EQ(score(model, {.length = length, .masking = half}).tokens, whole.tokens) << length;
  }
  EXPECT_NE(score(model, {.length = 10, .masking = half}).loss, whole.loss);
}

TEST(LanguageScore, DoesNotDependOnTheBatch) {
  const Model model = make(small(Task::kMaskedLm));
  const LanguageScore one = score(model, {.length = 20, .batch_tokens = 1});
  const LanguageScore all = score(model, {.length = 20, .batch_tokens = 1000});
  EXPECT_EQ(one.tokens, all.tokens);
  EXPECT_DOUBLE_EQ(one.accuracy, all.accuracy);
  EXPECT_THAT(one.loss, DoubleNear(all.loss, 1e-5));
}

TEST(LanguageScore, AModelThatKnowsNothingHasThePerplexityOfItsVocabulary) {
  const Model model = make(small(Task::kMaskedLm));
  const at::NoGradGuard no_grad;
  for (at::Tensor& p : model->parameters()) p.zero_();
  // Where all are as likely, one has to be the likeliest: a space is what there is most of.
  const std::int32_t space = bytes()->tokenize(" ").ids[0];
  model->named_parameters()["cls.predictions.bias"][space] = 1e-6;
  const LanguageScore got = score(model, {.length = 32, .masking = {.rate = 1.0}});
  EXPECT_THAT(got.perplexity(), DoubleNear(261.0, 0.01));
  std::int64_t spaces = 0;
  std::int64_t tokens = 0;
  for (const TokenDocument& text : texts()) {
    spaces += std::count(text.ids.begin(), text.ids.end(), space);
    tokens += static_cast<std::int64_t>(text.size());
  }
  EXPECT_EQ(got.tokens, tokens);
  EXPECT_DOUBLE_EQ(got.accuracy, static_cast<double>(spaces) / static_cast<double>(tokens));
}

TEST(LanguageScore, ACausalModelIsAskedForEveryToken) {
  const at::NoGradGuard no_grad;
  const Model model = make(small(Task::kCausalLm));
  double loss = 0.0;
  std::int64_t right = 0;
  std::int64_t tokens = 0;
  for (const TokenDocument& text : texts()) {
    std::vector<std::int64_t> ids = {bytes()->vocabulary().special().cls};
    ids.insert(ids.end(), text.ids.begin(), text.ids.end());
    const at::Tensor row = at::tensor(ids, at::kLong).unsqueeze(0);
    const at::Tensor p = at::log_softmax(model->forward({.ids = row}).logits[0], 1);
    for (std::size_t i = 1; i < ids.size(); ++i, ++tokens) {
      const at::Tensor at_token = p[static_cast<std::int64_t>(i) - 1];
      loss -= at_token[ids[i]].item<double>();
      right += at_token.argmax().item<std::int64_t>() == ids[i] ? 1 : 0;
    }
  }
  const LanguageScore got = score(model, {.length = 100});
  EXPECT_EQ(got.tokens, tokens);
  EXPECT_THAT(got.loss, DoubleNear(loss / static_cast<double>(tokens), 1e-5));
  EXPECT_DOUBLE_EQ(got.accuracy, static_cast<double>(right) / static_cast<double>(tokens));
  EXPECT_EQ(score(model, {.length = 12}).tokens, tokens);
  // Nothing stands before the first token of a row: 53 tokens in 5 rows of 12, and 52 in 5.
  EXPECT_EQ(score(model, {.length = 12, .framing = Framing::kNone}).tokens, tokens - 10);
}

TEST(LanguageScore, RefusesOtherModelsAndLengths) {
  const Model model = make(small(Task::kMaskedLm));
  EXPECT_THROW(score(model, {.length = 2}), std::invalid_argument);
  EXPECT_THROW(score(make(small(Task::kEncoder)), {}), std::invalid_argument);
}

// ---- Classes ------------------------------------------------------------------------------------

std::shared_ptr<const ExampleSet> reviews() {
  return std::make_shared<const ExampleSet>(ExampleSet{.examples = {{"good", "", 1},
                                                                    {"bad, very bad", "", 0},
                                                                    {"so so", "", 1},
                                                                    {"not my taste", "", 0},
                                                                    {"!", "", 1}},
                                                       .labels = {"no", "yes"}});
}

TEST(ClassScore, FiguresFollowFromTheTable) {
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

TEST(ClassScore, IsTheModelsAnswerToEachExampleAlone) {
  const at::NoGradGuard no_grad;
  const Model model = make(small(Task::kSequenceClassification));
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

TEST(ClassScore, RefusesWhatDoesNotFit) {
  auto three = std::make_shared<ExampleSet>(*reviews());
  three->labels = {"no", "yes", "maybe"};
  const Model model = make(small(Task::kSequenceClassification));
  EXPECT_THROW(score_classes(*model, three, bytes(), {}), std::invalid_argument);
  EXPECT_THROW(score_classes(*make(small(Task::kMaskedLm)), reviews(), bytes(), {}),
               std::invalid_argument);
}

// ---- Triples ------------------------------------------------------------------------------------

std::vector<Triple> cases() {
  return {{"a loan of money", "a loan not paid", "a house let", true},
          {"a house let", "a house sold", "a loan of money", true},
          {"damage by a dog", "a loan not paid", "damage by a cat", false},
          {"abc", "abd", "xyz", true}};
}

class TripleScores : public testing::TestWithParam<Task> {};

TEST_P(TripleScores, WhatIsRightOneWayIsWrongTheOther) {
  Config config = small(GetParam());
  config.num_labels = 1;
  const Model model = make(config);
  std::vector<Triple> turned = cases();
  std::vector<Triple> swapped = cases();
  for (Triple& triple : turned) triple.b_is_nearer = !triple.b_is_nearer;
  for (Triple& triple : swapped) {
    std::swap(triple.b, triple.c);
    triple.b_is_nearer = !triple.b_is_nearer;
  }
  const TripleScore got = score_triples(*model, cases(), bytes(), {.rows = 3});
  EXPECT_EQ(got.triples, 4);
  EXPECT_EQ(score_triples(*model, turned, bytes(), {}).right, 4 - got.right);
  EXPECT_EQ(score_triples(*model, swapped, bytes(), {}).right, got.right);
}

TEST_P(TripleScores, EqualScoresAreWrong) {
  Config config = small(GetParam());
  config.num_labels = 1;
  const Model model = make(config);
  const std::vector<Triple> same = {{"one", "two", "two", true}, {"one", "two", "two", false}};
  EXPECT_EQ(score_triples(*model, same, bytes(), {}).right, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, TripleScores,
                         testing::Values(Task::kPairMatching, Task::kMaskedLm, Task::kEncoder));

// ---- Names of classes ---------------------------------------------------------------------------

TEST(LabelNames, GoThroughTheConfig) {
  Config config = small(Task::kSequenceClassification);
  EXPECT_THAT(label_names(config), ElementsAre());
  EXPECT_THAT(label_names(parse_config(to_json(config), "here")), ElementsAre());
  const std::vector<std::string> names = {"negative", "neutral", "positive"};
  set_label_names(config, names);
  const Config again = parse_config(to_json(config), "here");
  EXPECT_EQ(again.num_labels, 3);
  EXPECT_EQ(label_names(again), names);
}

}  // namespace
}  // namespace rotary::roformer::tasks_test
