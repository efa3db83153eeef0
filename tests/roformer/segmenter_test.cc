// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/segmenter.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "roformer/roformer_testing.h"
#include "roformer/text/unicode.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

TEST(SegmenterTest, AgreesWithJiebaOnGoldenLines) {
  const Segmenter segmenter = Segmenter::load(golden("dict.txt"));
  std::ifstream lines(golden("lines.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(segmenter.words(row["text"].get<std::string>()),
              row["words"].get<std::vector<std::string>>())
        << line;
  }
  EXPECT_GT(count, 250u);
}

TEST(SegmenterTest, MaximizesTheProductOfFrequencies) {
  const Segmenter segmenter = Segmenter::parse("ab 4\nbc 9\na 2\nc 2\nb 1\n", "test");
  // 4/18 * 2/18 < 2/18 * 9/18
  EXPECT_THAT(segmenter.words("abc"), ElementsAre("a", "bc"));
}

TEST(SegmenterTest, TiesGoToTheLongerFirstWord) {
  const Segmenter segmenter = Segmenter::parse("甲乙 4\n乙丙 4\n甲 2\n丙 2\n", "test");
  EXPECT_THAT(segmenter.words("甲乙丙"), ElementsAre("甲乙", "丙"));
}

TEST(SegmenterTest, PrefixesAreNotWordsAndUnknownCharactersAreSeparate) {
  const Segmenter segmenter = Segmenter::parse("甲乙丙 4\n丁 0\n", "test");
  EXPECT_THAT(segmenter.words("甲乙丙甲乙丁戊"), ElementsAre("甲乙丙", "甲", "乙", "丁", "戊"));
}

TEST(SegmenterTest, JoinsSingleLettersAndDigitsOnly) {
  const Segmenter segmenter = Segmenter::parse("甲 1\nc++ 3\n", "test");
  EXPECT_THAT(segmenter.words("ab12甲x.y c++z é\r\n\t"),
              ElementsAre("ab12", "甲", "x", ".", "y", " ", "c++", "z", " ", "é", "\r\n", "\t"));
}

TEST(SegmenterTest, AcceptsEmptyAndVeryLongText) {
  const Segmenter segmenter = Segmenter::parse("甲乙 4\r\n乙 1", "test");
  EXPECT_THAT(segmenter.words(""), IsEmpty());
  std::u32string text;
  for (int i = 0; i < 100000; ++i) text += U"甲乙";
  std::vector<std::uint32_t> ends;
  segmenter.cut(text, ends);
  ASSERT_EQ(ends.size(), 100000u);
  EXPECT_EQ(ends.back(), 200000u);
}

TEST(SegmenterTest, IsThreadSafe) {
  const Segmenter segmenter = Segmenter::parse("甲乙 4\n乙 1\n", "test");
  std::vector<std::vector<std::string>> words(4);
  std::vector<std::thread> threads;
  threads.reserve(words.size());
  for (auto& mine : words) threads.emplace_back([&] { mine = segmenter.words("甲乙乙甲乙"); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : words) EXPECT_THAT(mine, ElementsAre("甲乙", "乙", "甲乙"));
}

TEST(SegmenterTest, RejectsInvalidDictionaryWithItsLine) {
  const auto error_of = [](const std::string& text) {
    return thrown([&] { Segmenter::parse(text, "dict.txt"); });
  };
  EXPECT_EQ(error_of("甲 1\n乙\n"),
            "dict.txt: line 2: expected \"word frequency [tag]\", got \"乙\"");
  EXPECT_EQ(error_of("甲 x n\n"),
            "dict.txt: line 1: expected \"word frequency [tag]\", got \"甲 x n\"");
  EXPECT_EQ(error_of("甲 -1\n"),
            "dict.txt: line 1: expected \"word frequency [tag]\", got \"甲 -1\"");
  EXPECT_EQ(error_of(" 1\n"), "dict.txt: line 1: expected \"word frequency [tag]\", got \" 1\"");
  EXPECT_EQ(error_of("甲 99999999999999999999\n").substr(0, 17), "dict.txt: line 1:");
  EXPECT_EQ(error_of(""), "dict.txt: the dictionary has no words");
  EXPECT_THROW(Segmenter::load("/no/such/dict.txt"), IoError);
}

TEST(SegmenterTest, ErrorsQuoteBinaryDataBriefly) {
  const std::string error =
      thrown([] { Segmenter::parse(std::string(100, '\x01') + "\n", "dict.txt"); });
  EXPECT_THAT(error, EndsWith("got \"" + std::string(40, '?') + "...\""));
}

}  // namespace
}  // namespace rotary::roformer
