// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/question_windows.h"

#include <string>
#include <utility>
#include <vector>

#include "roformer/roformer_testing.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::shared_ptr<const Tokenizer> bytes() {
  static const std::shared_ptr<const Tokenizer> kOnce =
      load_tokenizer({.kind = TokenizerKind::kByte});
  return kOnce;
}

QuestionWindows windows_of(std::vector<Question> questions, const WindowOptions& options) {
  return {std::make_shared<const QuestionSet>(QuestionSet{.questions = std::move(questions)}),
          bytes(), options};
}

/// The context of each window, and its targets.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> all(const QuestionWindows& windows) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> out;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const ExampleRow row = windows.read(w);
    const std::string& context = windows.questions().questions[windows.question_of(w)].context;
    std::string text;
    for (std::size_t t = 0; t < row.encoding.ids.size(); ++t) {
      const TextSpan span = row.encoding.spans[t];
      if (is_of_context(row.encoding, t)) text += context.substr(span.begin, span.end - span.begin);
    }
    out.emplace_back(text, row.targets);
  }
  return out;
}

// [CLS] q [SEP] context [SEP]: the context begins at token 3.
const Question kQuestion{.question = "q", .context = "abcdefgh", .answers = {"def"}, .begin = 3};

TEST(QuestionWindows, OneWindowIfTheContextFits) {
  for (const std::size_t max_length : {0u, 12u, 13u, 100u}) {
    EXPECT_THAT(all(windows_of({kQuestion}, {.max_length = max_length})),
                ElementsAre(Pair("abcdefgh", ElementsAre(6, 8))))
        << max_length;
  }
  EXPECT_THAT(all(windows_of({{.question = "q", .context = "ab"}}, {})),
              ElementsAre(Pair("ab", ElementsAre(0, 0))));
  EXPECT_THAT(all(windows_of({{.question = "q", .context = ""}}, {})),
              ElementsAre(Pair("", ElementsAre(0, 0))));
}

TEST(QuestionWindows, LongContextsAreReadInOverlappingWindows) {
  // Room for 5 tokens of the context. Only a window with the whole answer has it.
  EXPECT_THAT(all(windows_of({kQuestion}, {.max_length = 9, .stride = 2})),
              ElementsAre(Pair("abcde", ElementsAre(0, 0)), Pair("cdefg", ElementsAre(4, 6)),
                          Pair("efgh", ElementsAre(0, 0))));
  EXPECT_THAT(all(windows_of({kQuestion}, {.max_length = 9, .stride = 3})),
              ElementsAre(Pair("abcde", ElementsAre(0, 0)), Pair("defgh", ElementsAre(3, 5))));
  // A stride beyond the window would skip tokens.
  EXPECT_THAT(all(windows_of({kQuestion}, {.max_length = 9, .stride = 99})),
              ElementsAre(Pair("abcde", ElementsAre(0, 0)), Pair("fgh", ElementsAre(0, 0))));
  // The default is half a window.
  EXPECT_EQ(all(windows_of({kQuestion}, {.max_length = 9})),
            all(windows_of({kQuestion}, {.max_length = 9, .stride = 2})));
}

TEST(QuestionWindows, QuestionHasAtMostHalfOfTheTokens) {
  Question question = kQuestion;
  question.question = "a long question";
  const QuestionWindows windows = windows_of({question}, {.max_length = 9, .stride = 3});
  EXPECT_THAT(all(windows),
              ElementsAre(Pair("abc", ElementsAre(0, 0)), Pair("def", ElementsAre(5, 7)),
                          Pair("gh", ElementsAre(0, 0))));
  EXPECT_EQ(windows.read(0).encoding.ids.size(), 9u);
}

TEST(QuestionWindows, WindowsOfSeveralQuestions) {
  Question late = kQuestion;
  late.answers = {"gh"};
  late.begin = 6;
  const QuestionWindows windows = windows_of({kQuestion, {.question = "q", .context = "xy"}, late},
                                             {.max_length = 9, .stride = 3});
  EXPECT_THAT(all(windows),
              ElementsAre(Pair("abcde", ElementsAre(0, 0)), Pair("defgh", ElementsAre(3, 5)),
                          Pair("xy", ElementsAre(0, 0)), Pair("abcde", ElementsAre(0, 0)),
                          Pair("defgh", ElementsAre(6, 7))));
  const ExampleRows rows = rows_of(std::make_shared<const QuestionWindows>(windows));
  ASSERT_EQ(rows.count, 5u);
  EXPECT_THAT(rows.read(4, *bytes(), {}).targets, ElementsAre(6, 7));
}

TEST(QuestionWindows, RejectsLengthsWithoutRoom) {
  EXPECT_EQ(thrown([] { windows_of({kQuestion}, {.max_length = 3}); }),
            "[QuestionWindows] max_length must be at least 4, got 3");
  EXPECT_EQ(windows_of({kQuestion}, {.max_length = 4}).size(), 8u);
}

}  // namespace
}  // namespace rotary::roformer
