// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include "roformer/roformer_testing.h"
#include "roformer/text/unicode.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

const TokenizerOptions kBert{.kind = TokenizerKind::kBert};

Vocabulary vocabulary_of(std::vector<std::string> more) {
  std::vector<std::string> tokens(special_tokens().begin(), special_tokens().end());
  tokens.insert(tokens.end(), more.begin(), more.end());
  return Vocabulary(std::move(tokens));
}

void expect_golden(const Tokenizer& tokenizer, const char* name) {
  std::ifstream lines(golden("lines.jsonl"));
  std::size_t count = 0;
  Tokens tokens;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    tokenizer.tokenize(row["text"].get<std::string>(), tokens);
    EXPECT_EQ(tokens.ids, row[name]["ids"].get<Ids>()) << line;
    std::vector<std::uint32_t> spans;
    for (const TextSpan& span : tokens.spans) {
      spans.push_back(span.begin);
      spans.push_back(span.end);
    }
    EXPECT_EQ(spans, row[name]["spans"].get<std::vector<std::uint32_t>>()) << line;
    EXPECT_TRUE(std::is_sorted(tokens.words.begin(), tokens.words.end())) << line;
  }
  EXPECT_GT(count, 250u);
}

TEST(TokenizerTest, RoFormerAgreesWithTransformers) {
  expect_golden(roformer_tokenizer(), "roformer");
}

TEST(TokenizerTest, BertAgreesWithTransformers) {
  expect_golden(*make_tokenizer(kBert, Vocabulary::load(golden("vocab.txt"))), "bert");
}

TEST(TokenizerTest, PairsAndTruncationAgreeWithTransformers) {
  std::ifstream lines(golden("pairs.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    const EncodeOptions options{.max_length = row["max_length"].get<std::size_t>()};
    const auto a = row["a"].get<std::string>();
    const Encoding got = row["b"].is_null() ? encode(roformer_tokenizer(), a, options)
                                            : encode_pair(roformer_tokenizer(), a,
                                                          row["b"].get<std::string>(), options);
    EXPECT_EQ(got.ids, row["ids"].get<Ids>()) << line;
    EXPECT_EQ(got.types, row["types"].get<Ids>()) << line;
    EXPECT_EQ(got.spans.size(), got.ids.size());
    EXPECT_EQ(got.words.size(), got.ids.size());
  }
  EXPECT_GT(count, 10u);
}

TEST(TokenizerTest, AllTokensOfASegmenterWordShareTheWordIndex) {
  const Tokens tokens = roformer_tokenizer().tokenize("今天天气非常好 。[MASK]好");
  EXPECT_THAT(tokens.words, ElementsAre(0, 0, 0, 0, 1, 2, 3, 4, 5));
}

TEST(TokenizerTest, WordIndicesContinueInThePairAndSpecialTokensHaveNone) {
  const Encoding pair = encode_pair(roformer_tokenizer(), "今天天气", "非常", {});
  EXPECT_THAT(pair.words,
              ElementsAre(Encoding::kNoWord, 0, 0, 0, 0, Encoding::kNoWord, 1, Encoding::kNoWord));
  EXPECT_EQ(pair.spans[1], (TextSpan{0, 3}));
  EXPECT_EQ(pair.spans[6], (TextSpan{0, 6}));
}

TEST(TokenizerTest, TruncationOfOneSide) {
  const auto tokenizer = make_tokenizer(kBert, vocabulary_of({"a", "b"}));
  const auto ids = [&](Truncation truncation, std::size_t limit) {
    return encode_pair(*tokenizer, "a a a a", "b b",
                       {.max_length = limit, .truncation = truncation})
        .ids;
  };
  EXPECT_THAT(ids(Truncation::kFirst, 7), ElementsAre(2, 5, 5, 3, 6, 6, 3));
  EXPECT_THAT(ids(Truncation::kSecond, 8), ElementsAre(2, 5, 5, 5, 5, 3, 6, 3));
  EXPECT_THAT(ids(Truncation::kLongestFirst, 6), ElementsAre(2, 5, 5, 3, 6, 3));
  EXPECT_EQ(thrown([&] { ids(Truncation::kSecond, 7); }),
            "[encode] the first text alone leaves no room: 4 and 2 tokens for 4");
  EXPECT_EQ(thrown([&] { ids(Truncation::kFirst, 2); }),
            "[encode] max_length must be at least 3, got 2");
}

TEST(TokenizerTest, SpecialTextIsRecognizedByDefault) {
  const auto tokenizer =
      make_tokenizer({.kind = TokenizerKind::kBert, .special_text = SpecialText::kPlain},
                     vocabulary_of({"[", "]", "mask"}));
  EXPECT_THAT(tokenizer->tokenize("[MASK]").ids, ElementsAre(5, 7, 6));
}

TEST(TokenizerTest, CaseAndAccentsCanBeKept) {
  const auto tokenizer = make_tokenizer(
      {.kind = TokenizerKind::kBert,
       .normalization = {.letter_case = LetterCase::kKeep, .accents = Accents::kKeep}},
      vocabulary_of({"É", "e"}));
  EXPECT_THAT(tokenizer->tokenize("É e E").ids, ElementsAre(5, 6, 1));
  const auto lower =
      make_tokenizer({.kind = TokenizerKind::kBert, .normalization = {.accents = Accents::kKeep}},
                     vocabulary_of({"é", "i\u0307"}));
  EXPECT_THAT(lower->tokenize("É é E İ").ids, ElementsAre(5, 5, 1, 6));
}

TEST(TokenizerTest, DropsInvalidUtf8AndKeepsSpans) {
  // A stray byte, a truncated sequence, an overlong form, a surrogate.
  const std::string text =
      "a\xff"
      "b\xe4\xbb c\xc0\xaf d\xed\xa0\x80";
  const auto tokenizer = make_tokenizer(kBert, vocabulary_of({"ab", "c", "d"}));
  const Tokens tokens = tokenizer->tokenize(text);
  EXPECT_THAT(tokens.ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(tokens.spans[0], (TextSpan{0, 3}));
  EXPECT_EQ(tokens.spans[1], (TextSpan{6, 7}));
}

TEST(TokenizerTest, BertWordsFollowASegmenter) {
  const auto segmenter = std::make_shared<const Segmenter>(Segmenter::parse("甲乙 5\n", "test"));
  const auto tokenizer = make_tokenizer(kBert, vocabulary_of({"甲", "乙", "ab", "##c"}), segmenter);
  const Tokens tokens = tokenizer->tokenize("甲乙乙 abc甲");
  EXPECT_THAT(tokens.ids, ElementsAre(5, 6, 6, 7, 8, 5));
  EXPECT_THAT(tokens.words, ElementsAre(0, 0, 1, 2, 2, 3));
  const auto plain = make_tokenizer(kBert, vocabulary_of({"甲", "乙", "ab", "##c"}));
  EXPECT_THAT(plain->tokenize("甲乙乙 abc甲").words, ElementsAre(0, 1, 2, 3, 3, 4));
}

TEST(TokenizerTest, DecodeInsertsSpaces) {
  const Tokenizer& tokenizer = roformer_tokenizer();
  const auto back = [&](const std::string& text) {
    return tokenizer.decode(encode(tokenizer, text).ids);
  };
  EXPECT_EQ(back("今天天气非常好。"), "今天天气非常好。");
  EXPECT_EQ(back("Hello, World (again)!"), "hello, world (again)!");
  EXPECT_EQ(back("我爱 music 和art"), "我爱music和art");
  EXPECT_THAT(back(""), IsEmpty());
  EXPECT_EQ(thrown([&] { tokenizer.decode(Ids{50000}); }),
            "[Vocabulary] token number must be below 50000, got 50000");
}

TEST(TokenizerTest, CharactersRoundTrip) {
  const auto tokenizer = make_tokenizer({.kind = TokenizerKind::kCharacter},
                                        vocabulary_of({"a", "B", " ", "<0x0A>", "中"}));
  const std::string text = "aB 中\na";
  const Tokens tokens = tokenizer->tokenize(text);
  EXPECT_THAT(tokens.ids, ElementsAre(5, 6, 7, 9, 8, 5));
  EXPECT_THAT(tokens.words, ElementsAre(0, 0, 1, 2, 3, 4));
  EXPECT_EQ(tokenizer->decode(tokens.ids), text);
  EXPECT_THAT(tokenizer->tokenize("é\xff").ids, ElementsAre(1, 1));
}

TEST(TokenizerTest, BytesRoundTrip) {
  const auto tokenizer = load_tokenizer({.kind = TokenizerKind::kByte});
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const Tokens tokens = tokenizer->tokenize(text);
  EXPECT_EQ(tokens.ids.front(), 5);
  EXPECT_EQ(tokens.ids.back(), 260);
  EXPECT_EQ(tokenizer->decode(tokens.ids), text);
  EXPECT_THAT(tokenizer->tokenize("a[MASK]").ids, ElementsAre(5 + 'a', 4));
}

TEST(TokenizerTest, FingerprintsDifferBetweenTokenizers) {
  const auto print = [](const TokenizerOptions& options) {
    return make_tokenizer(options, vocabulary_of({"a"}))->fingerprint();
  };
  EXPECT_EQ(print(kBert), print(kBert));
  EXPECT_NE(print(kBert), print({.kind = TokenizerKind::kCharacter}));
  EXPECT_NE(print(kBert), print({.kind = TokenizerKind::kBert,
                                 .normalization = {.letter_case = LetterCase::kKeep}}));
  EXPECT_NE(print(kBert), make_tokenizer(kBert, vocabulary_of({"b"}))->fingerprint());
}

TEST(TokenizerTest, RejectsMissingFilesAndTokens) {
  EXPECT_THAT(thrown([] { load_tokenizer({.vocabulary = "/no/vocab.txt", .dictionary = "x"}); }),
              HasSubstr("/no/vocab.txt: "));
  EXPECT_THAT(thrown([] {
                load_tokenizer({.vocabulary = golden("vocab.txt"), .dictionary = "/no/dict.txt"});
              }),
              HasSubstr("/no/dict.txt: "));
  EXPECT_EQ(thrown([] { load_tokenizer({.vocabulary = golden("vocab.txt")}); }),
            "[load_tokenizer] kRoFormer needs the dictionary of the segmenter");
  EXPECT_EQ(thrown([] { load_tokenizer(kBert); }),
            "[load_tokenizer] this kind of tokenizer needs a vocabulary");
  EXPECT_EQ(thrown([] { make_tokenizer(kBert, Vocabulary({"a"}, "v.txt")); }),
            "v.txt: the vocabulary has no [UNK]");
  const auto tokenizer = make_tokenizer(kBert, Vocabulary({"[UNK]"}, "v.txt"));
  EXPECT_EQ(thrown([&] { encode(*tokenizer, "a"); }),
            "v.txt: the vocabulary has no [CLS] or no [SEP]");
}

}  // namespace
}  // namespace rotary::roformer
