// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Texts and scores of language models, against values computed by hand.
#include "roformer/tasks/language.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "roformer/data/document_stream.h"
#include "roformer/roformer_testing.h"
#include "roformer/tasks_testing.h"

namespace rotary::roformer::tasks_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

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

TEST(TakeTexts, SplitsLongDocumentsAndSkipsShortOnes) {
  EXPECT_THAT(take({"abcdefghij", "klm", "nopqr"}, {.tokens = 4}),
              ElementsAre("abcd", "efgh", "nopq"));
  EXPECT_THAT(take({"abcdefghij", "klm", "nopqr"}, {.tokens = 4, .max_total = 8}),
              ElementsAre("abcd", "efgh"));
  EXPECT_THAT(take({"abc"}, {.tokens = 4}), ElementsAre());
}

TEST(TakeTexts, JoinsDocumentsWithASeparator) {
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

TEST(LanguageScore, EveryLengthPredictsTheSameTokens) {
  const Model model = make(of_bytes(Task::kMaskedLm));
  const Masking half{.rate = 0.5};
  const LanguageScore whole = score(model, {.length = 55, .masking = half});
  EXPECT_GT(whole.tokens, 5);
  for (const std::int64_t length : {3, 10, 24, 54, 200}) {
    EXPECT_EQ(score(model, {.length = length, .masking = half}).tokens, whole.tokens) << length;
  }
  EXPECT_NE(score(model, {.length = 10, .masking = half}).loss, whole.loss);
}

TEST(LanguageScore, DoesNotDependOnTheBatch) {
  const Model model = make(of_bytes(Task::kMaskedLm));
  const LanguageScore one = score(model, {.length = 20, .batch_tokens = 1});
  const LanguageScore all = score(model, {.length = 20, .batch_tokens = 1000});
  EXPECT_EQ(one.tokens, all.tokens);
  EXPECT_DOUBLE_EQ(one.accuracy, all.accuracy);
  EXPECT_THAT(one.loss, DoubleNear(all.loss, 1e-5));
}

TEST(LanguageScore, UniformModelHasThePerplexityOfItsVocabulary) {
  const Model model = make(of_bytes(Task::kMaskedLm));
  const at::NoGradGuard no_grad;
  for (at::Tensor& p : model->parameters()) p.zero_();
  // Equal logits, but for a tiny advantage of the most frequent token, a space.
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

TEST(LanguageScore, CausalModelPredictsEveryToken) {
  const at::NoGradGuard no_grad;
  const Model model = make(of_bytes(Task::kCausalLm));
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
  // The first token of a row is not predicted: 53 tokens in 5 rows of 12, and 52 in 5.
  EXPECT_EQ(score(model, {.length = 12, .framing = Framing::kNone}).tokens, tokens - 10);
}

TEST(LanguageScore, RejectsOtherModelsAndLengths) {
  const Model model = make(of_bytes(Task::kMaskedLm));
  EXPECT_THROW(score(model, {.length = 2}), std::invalid_argument);
  EXPECT_THROW(score(make(of_bytes(Task::kEncoder)), {}), std::invalid_argument);
}

}  // namespace
}  // namespace rotary::roformer::tasks_test
