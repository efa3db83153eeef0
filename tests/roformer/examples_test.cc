// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/examples.h"

#include <algorithm>
#include <set>

#include "roformer/data/example_batches.h"
#include "roformer/data/token_examples.h"
#include "roformer/roformer_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

using ExamplesTest = ScratchTest;

TEST_F(ExamplesTest, ReadsChnSentiCorp) {
  const ExampleSet set =
      read_tsv(file("t.tsv", "label\ttext_a\r\n1\t很好 \"x\"\r\n0\t不好\n1\t\n"));
  ASSERT_EQ(set.examples.size(), 3u);
  EXPECT_THAT(set.labels, ElementsAre("0", "1"));
  EXPECT_EQ(set.examples[0].first, "很好 \"x\"");
  EXPECT_EQ(set.examples[0].label, 1);
  EXPECT_EQ(set.examples[1].label, 0);
  EXPECT_FALSE(set.pairs);
}

TEST_F(ExamplesTest, ReadsPairsByColumnNames) {
  const ExampleSet set =
      read_tsv(file("t.tsv", "\xEF\xBB\xBFq\tid\ta\tkind\nx\t1\ty\tno\nz\t2\tw\tyes\n"),
               {.label = "kind", .first = "q", .second = "a"});
  EXPECT_TRUE(set.pairs);
  EXPECT_EQ(set.examples[1].first, "z");
  EXPECT_EQ(set.examples[1].second, "w");
  EXPECT_THAT(set.labels, ElementsAre("no", "yes"));
}

TEST_F(ExamplesTest, ReadsJsonLabelsOfEveryType) {
  const ExampleSet set = read_jsonl(
      file("t.jsonl",
           "{\"text_a\": \"a\", \"label\": 10}\n\n{\"text_a\": \"b\", \"label\": \"9\"}\n"
           "{\"text_a\": \"c\", \"label\": true}\n{\"text_a\": \"d\", \"label\": \"z\"}\n"));
  EXPECT_THAT(set.labels, ElementsAre("1", "9", "10", "z"));
  EXPECT_EQ(set.examples[0].label, 2);
}

TEST_F(ExamplesTest, RejectsClassesThatAreNotInTraining) {
  const std::vector<std::string> labels{"no", "yes"};
  const ExampleSet set = read_tsv(file("t.tsv", "label\ttext_a\nyes\tx\n"), {}, labels);
  EXPECT_EQ(set.examples[0].label, 1);
  EXPECT_THAT(thrown([&] { read_tsv(file("u.tsv", "label\ttext_a\nmaybe\tx\n"), {}, labels); }),
              EndsWith("u.tsv: line 2: no class \"maybe\" among the known ones"));
}

TEST_F(ExamplesTest, RejectsInvalidTablesWithTheirLine) {
  const auto tsv = [&](const std::string& text) {
    return thrown([&] { read_tsv(file("t.tsv", text)); });
  };
  EXPECT_THAT(tsv("label\ttext\n1\tx\n"),
              EndsWith("t.tsv: line 1: no column \"text_a\"; there are \"label\", \"text\""));
  EXPECT_THAT(tsv("label\ttext_a\n1\tx\n1\tx\ty\n"),
              EndsWith("t.tsv: line 3: expected 2 columns, got 3"));
  EXPECT_THAT(tsv("label\ttext_a\n"), EndsWith("t.tsv: no examples"));
  EXPECT_THROW(read_tsv(path("none.tsv")), IoError);
  const auto jsonl = [&](const std::string& text) {
    return thrown([&] { read_jsonl(file("t.jsonl", text)); });
  };
  EXPECT_THAT(jsonl("{\"text_a\": \"x\", \"label\": 1}\n{"),
              EndsWith("t.jsonl: line 2: expected a JSON object"));
  EXPECT_THAT(jsonl("{\"label\": 1}"), EndsWith("line 1: expected a text \"text_a\""));
  EXPECT_THAT(jsonl("{\"text_a\": \"x\", \"label\": 1.5}"),
              EndsWith("expected \"label\", a text, a whole number or a boolean"));
}

TEST_F(ExamplesTest, ReadsNumbers) {
  const ExampleColumns columns{.label = "stars", .label_kind = LabelKind::kNumber};
  const ExampleSet set = read_tsv(file("t.tsv", "stars\ttext_a\n4.5\ta\n-1e2\tb\n"), columns);
  EXPECT_EQ(set.label_kind, LabelKind::kNumber);
  EXPECT_THAT(set.labels, ElementsAre());
  EXPECT_EQ(set.examples[0].number, 4.5);
  EXPECT_EQ(set.examples[1].number, -100.0);
  const ExampleSet lines = read_jsonl(
      file("t.jsonl", "{\"text_a\": \"a\", \"stars\": 0.1}\n{\"text_a\": \"b\", \"stars\": 3}\n"),
      columns);
  EXPECT_EQ(lines.examples[0].number, 0.1);
  EXPECT_EQ(lines.examples[1].number, 3.0);
  for (const std::string bad : {"", "good", "1,5", "1.5x", "nan", "inf", "1e999"}) {
    EXPECT_THAT(
        thrown([&] { read_tsv(file("t.tsv", "stars\ttext_a\n1\ta\n" + bad + "\tb\n"), columns); }),
        EndsWith("t.tsv: line 3: a label must be a finite number, got \"" + bad + "\""));
  }
  EXPECT_THAT(
      thrown([&] { read_jsonl(file("t.jsonl", "{\"text_a\": \"a\", \"stars\": true}"), columns); }),
      EndsWith("line 1: expected \"stars\", a number"));
  ExampleBatches batches(std::make_shared<const ExampleSet>(set),
                         load_tokenizer({.kind = TokenizerKind::kByte}),
                         {.order = Order::kInOrder});
  Batch batch;
  ASSERT_TRUE(batches.next(batch));
  EXPECT_THAT(batch.numbers, ElementsAre(4.5F, -100.0F));
  EXPECT_THAT(batch.targets, ElementsAre());
  EXPECT_THAT(batch.labels, ElementsAre());
}

TEST_F(ExamplesTest, TriplesBecomePairs) {
  const auto triples =
      read_triples(file("scm.jsonl",
                        "{\"A\": \"a\", \"B\": \"b\", \"C\": \"c\"}\n"
                        "{\"A\": \"d\", \"B\": \"e\", \"C\": \"f\", \"label\": \"C\"}\n"));
  ASSERT_EQ(triples.size(), 2u);
  const ExampleSet set = pairs_of(triples);
  ASSERT_EQ(set.examples.size(), 4u);
  EXPECT_EQ(set.examples[0].second, "b");
  EXPECT_EQ(set.examples[0].label, 1);
  EXPECT_EQ(set.examples[1].label, 0);
  EXPECT_EQ(set.examples[2].label, 0);
  EXPECT_EQ(set.examples[3].label, 1);
  EXPECT_THAT(thrown([&] {
                read_triples(file("x.jsonl",
                                  "{\"A\": \"a\", \"B\": \"b\", \"C\": \"c\", \"label\": \"A\"}"));
              }),
              EndsWith("x.jsonl: line 1: a label must be \"B\" or \"C\", got \"A\""));
  EXPECT_THAT(thrown([&] { read_triples(file("x.jsonl", "{\"A\": \"a\"}")); }),
              EndsWith("x.jsonl: line 1: expected a text \"B\""));
}

// ---- Labels of tokens ---------------------------------------------------------------------------

TEST_F(ExamplesTest, ReadsTagsFromColumns) {
  const TagSet set = read_conll(
      file("t.conll",
           "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n \t\r\nPeter\tB-PER\nBlackburn "
           "I-PER"));
  EXPECT_THAT(set.labels, ElementsAre("B-ORG", "B-PER", "I-PER", "O"));
  ASSERT_EQ(set.texts.size(), 2u);
  EXPECT_THAT(set.texts[0].words, ElementsAre("EU", "rejects"));
  EXPECT_THAT(set.texts[0].tags, ElementsAre(0, 3));
  EXPECT_THAT(set.texts[1].words, ElementsAre("Peter", "Blackburn"));
  EXPECT_THAT(set.texts[1].tags, ElementsAre(1, 2));
}

TEST_F(ExamplesTest, ReadsTagsFromJson) {
  const std::vector<std::string> labels{"O", "N"};
  const auto read = [&](const std::string& text) {
    return read_tags_jsonl(file("t.jsonl", text), labels);
  };
  const TagSet set = read(R"({"tokens": ["a", "b"], "labels": ["N", "O"]})");
  EXPECT_THAT(set.texts.at(0).tags, ElementsAre(1, 0));
  EXPECT_EQ(set.labels, labels);
  const auto message = [&](const std::string& text) { return thrown([&] { read(text); }); };
  EXPECT_THAT(message(R"({"tokens": ["a", "b"], "labels": ["N"]})"),
              EndsWith("t.jsonl: line 1: 2 tokens have 1 labels"));
  EXPECT_THAT(message(R"({"tokens": "a", "labels": ["N"]})"),
              EndsWith("line 1: expected a list of texts \"tokens\""));
  EXPECT_THAT(message(R"({"tokens": ["a"], "labels": ["V"]})"),
              EndsWith("line 1: no class \"V\" among the known ones"));
  EXPECT_THAT(message("\n"), EndsWith("t.jsonl: no examples"));
  EXPECT_THAT(thrown([&] { read_conll(file("t.conll", "a O\nb\n")); }),
              EndsWith("t.conll: line 2: expected a word and its class, got \"b\""));
}

TEST_F(ExamplesTest, FirstTokenOfAWordHasItsClass) {
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer({.kind = TokenizerKind::kByte});
  // The second word has no token.
  auto set = std::make_shared<const TagSet>(
      TagSet{.texts = {{.words = {"ab", "", "c"}, .tags = {5, 6, 7}}}, .labels = {}});
  const ExampleRow row = rows_of(set).read(0, *tokenizer, {});
  EXPECT_THAT(row.labels, ElementsAre(kIgnoreIndex, 5, kIgnoreIndex, 7, kIgnoreIndex));
  EXPECT_EQ(row.encoding.ids.size(), 5u);
  EXPECT_THAT(rows_of(set).read(0, *tokenizer, {.max_length = 3}).labels,
              ElementsAre(kIgnoreIndex, 5, kIgnoreIndex));
  ExampleBatches batches(rows_of(set), tokenizer, {.length_multiple = 7});
  Batch batch;
  ASSERT_TRUE(batches.next(batch));
  EXPECT_THAT(batch.labels, ElementsAre(kIgnoreIndex, 5, kIgnoreIndex, 7, kIgnoreIndex,
                                        kIgnoreIndex, kIgnoreIndex));
  EXPECT_THAT(batch.targets, ElementsAre());
}

TEST_F(ExamplesTest, AnswerStartIsInCodePoints) {
  const QuestionSet set = read_questions(file(
      "q.jsonl",
      R"({"question": "q", "context": "长江是河，长江很长", "answer": "长江", "answer_start": 5})"
      "\n"
      R"({"question": "q", "context": "a b a", "answer": ["b", "a b"], "answer_start": [2, 0]})"
      "\n"
      R"({"question": "q", "context": "a b a", "answer": "a"})"
      "\n"
      R"({"question": "q", "context": "a b a", "answer": ""})"));
  ASSERT_EQ(set.questions.size(), 4u);
  EXPECT_EQ(set.questions[0].begin, 15u);
  EXPECT_THAT(set.questions[1].answers, ElementsAre("b", "a b"));
  EXPECT_EQ(set.questions[1].begin, 2u);
  EXPECT_EQ(set.questions[2].begin, 0u);
  EXPECT_THAT(set.questions[3].answers, ElementsAre());
}

TEST_F(ExamplesTest, RejectsInvalidQuestionsWithTheirLine) {
  const auto message = [&](const std::string& rest) {
    return thrown([&] {
      read_questions(file("q.jsonl", R"({"question": "q", "context": "a b a")" + rest + "}"));
    });
  };
  EXPECT_THAT(message(""), EndsWith("line 1: expected a text or a list of texts \"answer\""));
  EXPECT_THAT(
      message(R"(, "answer": "b", "answer_start": 1)"),
      EndsWith("q.jsonl: line 1: the context does not have the answer \"b\" at character 1"));
  EXPECT_THAT(message(R"(, "answer": "b", "answer_start": 99)"), EndsWith("at character 99"));
  EXPECT_THAT(message(R"(, "answer": "c")"), EndsWith("does not have the answer \"c\""));
  EXPECT_THAT(message(R"(, "answer": "b", "answer_start": "2")"),
              EndsWith("\"answer_start\" must be a whole number, got \"2\""));
}

TEST(CollateTest, PadsToTheLongestAndItsMultiple) {
  const std::vector<Encoding> rows{{.ids = {2, 7, 3}, .types = {0, 0, 1}, .spans = {}, .words = {}},
                                   {.ids = {2, 3}, .types = {0, 1}, .spans = {}, .words = {}}};
  const Batch batch = collate(rows, 9, 4);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.ids, ElementsAre(2, 7, 3, 9, 2, 3, 9, 9));
  EXPECT_THAT(batch.types, ElementsAre(0, 0, 1, 0, 0, 1, 0, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 2));
  EXPECT_EQ(collate({}, 0).rows, 0);
}

class ExampleBatchesTest : public testing::Test {
 protected:
  ExampleBatchesTest() {
    auto set = std::make_shared<ExampleSet>();
    for (int i = 0; i < 23; ++i) {
      set->examples.push_back({std::string(static_cast<std::size_t>(1 + i), 'a'), "b", i});
    }
    set->pairs = true;
    set_ = std::move(set);
  }

  ExampleBatches open(const ExampleBatchOptions& options) const {
    return {set_, tokenizer_, options};
  }

  std::shared_ptr<const ExampleSet> set_;
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer({.kind = TokenizerKind::kByte});
};

TEST_F(ExampleBatchesTest, EveryExampleOncePerEpochReshuffled) {
  ExampleBatches batches = open({.rows = 5, .max_length = 16, .epochs = 2});
  std::vector<std::int64_t> seen;
  for (Batch batch; batches.next(batch);) {
    EXPECT_EQ(batch.length % 8, 0);
    for (std::size_t row = 0; row < batch.targets.size(); ++row) {
      EXPECT_EQ(batch.lengths[row], std::min<std::int64_t>(16, batch.targets[row] + 5));
    }
    seen.insert(seen.end(), batch.targets.begin(), batch.targets.end());
  }
  ASSERT_EQ(seen.size(), 46u);
  const std::vector<std::int64_t> first(seen.begin(), seen.begin() + 23);
  const std::vector<std::int64_t> second(seen.begin() + 23, seen.end());
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 23u);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 23u);
  EXPECT_NE(first, second);
}

TEST_F(ExampleBatchesTest, ResumesFromEveryBatch) {
  const ExampleBatchOptions options{.rows = 5, .epochs = 2};
  std::vector<Batch> all;
  ExampleBatches batches = open(options);
  for (Batch batch; batches.next(batch);) all.push_back(batch);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ExampleBatches again = open(options);
    again.restore(all[i].next);
    Batch batch;
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      ASSERT_TRUE(again.next(batch));
      EXPECT_EQ(batch.ids, all[k].ids);
      EXPECT_EQ(batch.targets, all[k].targets);
      EXPECT_EQ(batch.next, all[k].next);
    }
    EXPECT_FALSE(again.next(batch));
  }
  EXPECT_THROW(open({.seed = 1}).restore(all[0].next), std::invalid_argument);
}

TEST_F(ExampleBatchesTest, RanksShareABatchAndHaveTheSameNumberOfSteps) {
  ExampleBatches whole = open({.rows = 8});
  ExampleBatches even = open({.rows = 4, .rank = 0, .num_ranks = 2});
  ExampleBatches odd = open({.rows = 4, .rank = 1, .num_ranks = 2});
  Batch all;
  Batch a;
  Batch b;
  while (whole.next(all)) {
    ASSERT_TRUE(even.next(a));
    ASSERT_TRUE(odd.next(b));
    std::vector<std::int64_t> joined;
    for (std::size_t i = 0; i < all.targets.size(); ++i) {
      joined.push_back((i % 2 == 0 ? a : b).targets[i / 2]);
    }
    EXPECT_EQ(joined, all.targets);
  }
  EXPECT_FALSE(even.next(a));
  EXPECT_FALSE(odd.next(b));
}

TEST_F(ExampleBatchesTest, TypesOfPairsCanBeZero) {
  Batch batch;
  ASSERT_TRUE(open({.rows = 1}).next(batch));
  EXPECT_EQ(std::ranges::count(batch.types, 1), 2);
  ASSERT_TRUE(open({.rows = 1, .pair_types = PairTypes::kZero}).next(batch));
  EXPECT_EQ(std::ranges::count(batch.types, 1), 0);
}

TEST_F(ExampleBatchesTest, RejectsInvalidOptions) {
  EXPECT_THROW(open({.rows = 0}), std::invalid_argument);
  EXPECT_THROW(open({.rank = 1}), std::invalid_argument);
  EXPECT_THROW(ExampleBatches(std::make_shared<const ExampleSet>(), tokenizer_, {}),
               std::invalid_argument);
  EXPECT_THROW(ExampleBatches(std::shared_ptr<const ExampleSet>(), tokenizer_, {}),
               std::invalid_argument);
}

}  // namespace
}  // namespace rotary::roformer
