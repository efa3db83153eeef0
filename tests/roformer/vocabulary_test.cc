// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/vocabulary.h"

#include <map>
#include <set>

#include "roformer/roformer_testing.h"
#include "roformer/text/vocabulary_builder.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using VocabularyTest = ScratchTest;

std::vector<std::string> tokens_of(const Vocabulary& vocabulary, std::int32_t first = 5) {
  std::vector<std::string> out;
  for (std::int32_t id = first; id < vocabulary.size(); ++id) out.push_back(vocabulary.token(id));
  return out;
}

Vocabulary built(const VocabularyOptions& options, const std::vector<std::string>& documents,
                 std::shared_ptr<const Segmenter> segmenter = {}) {
  VocabularyBuilder builder(options, std::move(segmenter));
  for (const std::string& document : documents) {
    Counts counts;
    builder.count(document, counts);
    builder.merge(counts);
  }
  return builder.build();
}

TEST_F(VocabularyTest, ReadsAPublishedVocabulary) {
  const Vocabulary vocabulary = Vocabulary::load(golden("vocab.txt"));
  EXPECT_EQ(vocabulary.size(), 50000);
  EXPECT_EQ(vocabulary.special().pad, 0);
  EXPECT_EQ(vocabulary.special().unknown, 100);
  EXPECT_EQ(vocabulary.special().cls, 101);
  EXPECT_EQ(vocabulary.special().sep, 102);
  EXPECT_EQ(vocabulary.special().mask, 103);
  EXPECT_EQ(vocabulary.id("非常"), 33994);
  EXPECT_EQ(vocabulary.id("no such token"), kNoToken);
  EXPECT_FALSE(vocabulary.is_special(kNoToken));
  vocabulary.save(path("copy.txt"));
  EXPECT_EQ(read_file(path("copy.txt")), read_file(golden("vocab.txt")));
}

TEST_F(VocabularyTest, AcceptsWindowsLineEndsAndNoFinalLineEnd) {
  EXPECT_THAT(tokens_of(Vocabulary::parse("a\r\nb c\r\nd", "v"), 0), ElementsAre("a", "b c", "d"));
}

TEST_F(VocabularyTest, RejectsInvalidFilesWithTheirLine) {
  const auto error_of = [](const std::string& text) {
    return thrown([&] { Vocabulary::parse(text, "v.txt"); });
  };
  EXPECT_EQ(error_of("a\nb\na\n"), "v.txt: line 3: \"a\" stands in line 1 already");
  EXPECT_EQ(error_of("a\n\nb\n"), "v.txt: line 2: an empty token");
  EXPECT_EQ(error_of("a\n\xff\n"), "v.txt: line 2: a token that is not UTF-8");
  EXPECT_EQ(error_of(""), "v.txt: the vocabulary has no tokens");
  EXPECT_THROW(Vocabulary::load(path("missing.txt")), IoError);
  EXPECT_THAT(thrown([&] { Vocabulary::load(path("missing.txt")); }), HasSubstr("missing.txt: "));
}

TEST_F(VocabularyTest, CharactersByCountThenByBytes) {
  const Vocabulary made =
      built({.kind = VocabularyKind::kCharacters, .min_count = 1}, {"bab a\n", "中b\xff"});
  EXPECT_THAT(tokens_of(made), ElementsAre("b", "a", " ", "<0x0A>", "中"));
  EXPECT_EQ(made.special().mask, 4);
}

TEST_F(VocabularyTest, CharactersComeBeforeWords) {
  const auto segmenter =
      std::make_shared<const Segmenter>(Segmenter::parse("今天 9\n天气 9\n好 9\n", "test"));
  const VocabularyOptions options{.kind = VocabularyKind::kWords, .size = 100, .min_count = 2};
  const Vocabulary made = built(options, {"今天天气好", "今天Ab好ab", "今天"}, segmenter);
  EXPECT_THAT(tokens_of(made), ElementsAre("天", "今", "##b", "a", "好", "今天", "ab"));
  // Every word of the corpus can be encoded.
  const auto tokenizer = make_tokenizer({}, Vocabulary::parse("[UNK]\n今\n天\n", "v"), segmenter);
  EXPECT_THAT(tokenizer->tokenize("今天").ids, ElementsAre(1, 2));
}

TEST_F(VocabularyTest, PiecesAgreeWithAReferenceImplementation) {
  // The reference counts all pairs again for every piece.
  const std::map<std::string, std::uint64_t> words{{"low", 5},    {"lower", 2}, {"newest", 6},
                                                   {"widest", 3}, {"wow", 4},   {"aaaa", 2}};
  std::string corpus;
  std::vector<std::pair<std::vector<std::string>, std::uint64_t>> spelled;
  for (const auto& [word, count] : words) {
    std::vector<std::string> pieces;
    for (const char c : word) pieces.push_back((pieces.empty() ? "" : "##") + std::string(1, c));
    spelled.emplace_back(pieces, count);
    for (std::uint64_t i = 0; i < count; ++i) corpus += word + " ";
  }
  const Vocabulary made = built({.size = 40, .min_count = 2}, {corpus});
  ASSERT_GT(made.size(), 30);
  std::set<std::string> alphabet;
  for (const auto& [pieces, count] : spelled) alphabet.insert(pieces.begin(), pieces.end());
  for (auto id = static_cast<std::int32_t>(5 + alphabet.size()); id < made.size(); ++id) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> pairs;
    for (const auto& [pieces, count] : spelled) {
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
        pairs[{pieces[i], pieces[i + 1]}] += count;
    }
    auto best = pairs.begin();
    for (auto at = pairs.begin(); at != pairs.end(); ++at) {
      const auto rank = [&](const auto& pair) {
        return std::pair(made.id(pair.first), made.id(pair.second));
      };
      if (at->second > best->second ||
          (at->second == best->second && rank(at->first) < rank(best->first))) {
        best = at;
      }
    }
    const auto [left, right] = best->first;
    ASSERT_EQ(made.token(id), left + right.substr(2));
    for (auto& [pieces, count] : spelled) {
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
        if (pieces[i] != left || pieces[i + 1] != right) continue;
        pieces[i] = left + right.substr(2);
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
}

TEST_F(VocabularyTest, IsDeterministic) {
  const std::vector<std::string> documents{"the cat sat on the mat", "the dog ate the cat",
                                           "a mat is a mat is a mat"};
  std::string all;
  for (const std::string& document : documents) all += document + "\n";
  EXPECT_EQ(tokens_of(built({.size = 40}, documents)), tokens_of(built({.size = 40}, {all})));
}

TEST_F(VocabularyTest, RespectsSizeAndLimits) {
  EXPECT_EQ(built({.size = 8, .min_count = 1}, {"abcdefgh"}).size(), 8);
  EXPECT_THROW(built({.size = 5}, {}), std::invalid_argument);
  EXPECT_THROW(built({.kind = VocabularyKind::kWords}, {}), std::invalid_argument);
  EXPECT_EQ(built({}, {}).size(), 5);
  Counts counts;
  counts.add("often", 9);
  counts.add("seldom", 2);
  counts.add("once");
  counts.prune(2);
  EXPECT_EQ(counts.size(), 2u);
  counts.prune(1);
  EXPECT_TRUE(counts.contains("often"));
}

}  // namespace
}  // namespace rotary::roformer
