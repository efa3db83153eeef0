// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/folds.h"

#include <algorithm>
#include <random>
#include <set>

#include "roformer/roformer_testing.h"

namespace rotary::roformer::folds_test {
namespace {

/// Few distinct documents, so that nearly all triples are connected.
std::vector<Triple> tangled(std::size_t count) {
  std::mt19937 random(5);
  std::vector<Triple> triples;
  while (triples.size() < count) {
    std::set<std::string> names;
    while (names.size() < 3) names.insert("case " + std::to_string(random() % 40));
    std::vector<std::string> three(names.begin(), names.end());
    std::ranges::shuffle(three, random);
    triples.push_back({three[0], three[1], three[2], true});
  }
  return triples;
}

TEST(Folds, EveryTripleIsTestedOnce) {
  const std::vector<Triple> triples = tangled(200);
  std::multiset<std::size_t> tested;
  for (const Fold& fold : make_folds(triples, 5, 1)) {
    tested.insert(fold.test.begin(), fold.test.end());
    EXPECT_GT(fold.test.size(), 10U);
    EXPECT_GT(fold.train.size(), 50U);
  }
  EXPECT_EQ(tested.size(), 200U);
  EXPECT_EQ(std::set<std::size_t>(tested.begin(), tested.end()).size(), 200U);
}

TEST(Folds, NoTestedFirstDocumentIsSeenInTraining) {
  const std::vector<Triple> triples = tangled(200);
  for (const Fold& fold : make_folds(triples, 5, 1)) {
    std::set<std::string> own;
    for (const std::size_t item : fold.test) own.insert(triples[item].a);
    std::set<std::size_t> train(fold.train.begin(), fold.train.end());
    for (std::size_t item = 0; item < triples.size(); ++item) {
      const Triple& t = triples[item];
      const bool touches = own.contains(t.a) || own.contains(t.b) || own.contains(t.c);
      EXPECT_EQ(train.contains(item), !touches);
    }
  }
}

TEST(Folds, DependOnTheSeed) {
  const std::vector<Triple> triples = tangled(100);
  EXPECT_EQ(make_folds(triples, 4, 1)[0].test, make_folds(triples, 4, 1)[0].test);
  EXPECT_NE(make_folds(triples, 4, 1)[0].test, make_folds(triples, 4, 2)[0].test);
}

TEST(Folds, EqualTextsStayTogether) {
  ExampleSet set{.examples = {{"a"}, {"b"}, {"a"}, {"c"}, {"b"}, {"d"}}, .labels = {"0"}};
  for (const Fold& fold : make_folds(set, 2, 3)) {
    const ExampleSet test = select(set, fold.test);
    for (const Example& example : select(set, fold.train).examples) {
      EXPECT_TRUE(std::ranges::none_of(
          test.examples, [&](const Example& other) { return other.first == example.first; }));
    }
    EXPECT_EQ(fold.train.size() + fold.test.size(), 6U);
  }
}

TEST(Folds, QuestionsStayWithTheirContextAndTextsWithTheirWords) {
  QuestionSet questions;
  TagSet texts;
  for (const char* document : {"a", "b", "a", "c", "b", "d"}) {
    questions.questions.push_back({.question = "?", .context = document});
    texts.texts.push_back({.words = {document, "x"}, .tags = {0, 0}});
  }
  for (const Fold& fold : make_folds(questions, 2, 3)) {
    const QuestionSet test = select(questions, fold.test);
    for (const Question& question : select(questions, fold.train).questions) {
      EXPECT_TRUE(std::ranges::none_of(test.questions, [&](const Question& other) {
        return other.context == question.context;
      }));
    }
    EXPECT_EQ(fold.train.size() + fold.test.size(), 6U);
  }
  EXPECT_EQ(make_folds(texts, 2, 3)[0].test, make_folds(questions, 2, 3)[0].test);
  EXPECT_EQ(select(texts, std::vector<std::size_t>{3}).texts.at(0).words.at(0), "c");
}

TEST(Folds, RejectsMoreFoldsThanDocuments) {
  ExampleSet set{.examples = {{"a"}, {"b"}, {"a"}}, .labels = {"0"}};
  EXPECT_THROW(make_folds(set, 3, 0), std::invalid_argument);
  EXPECT_THROW(make_folds(set, 1, 0), std::invalid_argument);
  EXPECT_EQ(make_folds(set, 2, 0).size(), 2U);
}

}  // namespace
}  // namespace rotary::roformer::folds_test
