// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Generated problems, solved again from their prompts.
#include "roformer/lab/generated_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "roformer/lab/roper_tasks.h"

namespace rotary::roformer::lab {
namespace {

using T = TaskTokens;
using Ids = std::vector<std::int64_t>;

/// Tokens between [task] and [=], and those of the answer without [end].
struct Parts {
  Ids prompt;
  Ids answer;
};

Parts parts_of(const Problem& problem) {
  const auto equals = std::ranges::find(problem.tokens, T::kEquals);
  Parts parts{.prompt = Ids(problem.tokens.begin() + 1, equals), .answer = {}};
  for (std::size_t i = 0; i + 1 < problem.tokens.size(); ++i) {
    if (problem.is_answer[i]) parts.answer.push_back(problem.tokens[i]);
  }
  return parts;
}

/// The number whose digits, the last one first, are tokens.
std::uint64_t number_of(std::span<const std::int64_t> digits) {
  std::string text;
  for (const std::int64_t digit : digits) {
    text.insert(text.begin(), static_cast<char>('0' + digit - T::kDigit));
  }
  return std::stoull(text);
}

Ids solve_parity(const Ids& bits) {
  Ids answer;
  for (auto end = bits.begin() + 1;; ++end) {
    answer.push_back(T::kDigit + std::count(bits.begin(), end, T::kDigit + 1) % 2);
    if (end == bits.end()) return answer;
  }
}

/// The answers to the keys after [=].
Ids solve_recall(const Problem& problem, const Ids& pairs) {
  std::map<std::int64_t, std::int64_t> values;
  for (std::size_t i = 0; i < pairs.size(); i += 2) values[pairs[i]] = pairs[i + 1];
  EXPECT_EQ(2 * values.size(), pairs.size()) << "keys are distinct";
  Ids answer;
  for (std::size_t i = pairs.size() + 2; i + 1 < problem.tokens.size(); i += 2) {
    EXPECT_FALSE(problem.is_answer[i]);
    answer.push_back(values.at(problem.tokens[i]));
  }
  return answer;
}

Ids solve_passkey(const Ids& prompt) {
  Ids digits;
  for (const std::int64_t token : prompt) {
    if (token < T::kLetter) digits.push_back(token);
  }
  return digits;
}

/// Of the prompt alone, by other means than the generator's.
Ids solve(TaskKind task, const Problem& problem, const Ids& prompt) {
  switch (task) {
    case TaskKind::kCopy:
      return prompt;
    case TaskKind::kReverse:
      return {prompt.rbegin(), prompt.rend()};
    case TaskKind::kSorting: {
      const std::multiset<std::int64_t> sorted(prompt.begin(), prompt.end());
      return {sorted.begin(), sorted.end()};
    }
    case TaskKind::kParity:
      return solve_parity(prompt);
    case TaskKind::kIndexing:
      return {prompt.at(static_cast<std::size_t>(prompt.back() - T::kIndex))};
    case TaskKind::kRecall:
      return solve_recall(problem, prompt);
    case TaskKind::kPasskey:
      return solve_passkey(prompt);
    case TaskKind::kAddition:
      break;
  }
  const auto plus = std::ranges::find(prompt, T::kPlus);
  std::uint64_t sum = number_of({prompt.begin(), plus}) + number_of({plus + 1, prompt.end()});
  Ids answer;
  for (std::size_t i = 0; i < (prompt.size() + 1) / 2; ++i, sum /= 10) {
    answer.push_back(T::kDigit + static_cast<std::int64_t>(sum % 10));
  }
  EXPECT_EQ(sum, 0u);
  return answer;
}

class GeneratedTask : public testing::TestWithParam<TaskKind> {};
INSTANTIATE_TEST_SUITE_P(All, GeneratedTask,
                         testing::ValuesIn(task_kinds().begin(), task_kinds().end()),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(GeneratedTask, AnswersAreRight) {
  Random random(7, 1);
  for (std::int64_t length = 1; length <= 18; ++length) {  // 18 digits fit into 64 bits
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Problem problem = make_problem(GetParam(), length, random);
      ASSERT_EQ(problem.tokens.size(), problem.is_answer.size());
      EXPECT_EQ(static_cast<std::int64_t>(problem.tokens.size()), max_tokens(GetParam(), length));
      EXPECT_EQ(problem.tokens.front(), T::kTask + static_cast<std::int64_t>(GetParam()));
      EXPECT_EQ(problem.tokens.back(), T::kEnd);
      EXPECT_TRUE(problem.is_answer.back());
      const Parts parts = parts_of(problem);
      EXPECT_EQ(parts.answer, solve(GetParam(), problem, parts.prompt)) << "length " << length;
      for (const std::int64_t token : problem.tokens) {
        EXPECT_GE(token, 0);
        EXPECT_LT(token, T::kCount);
      }
    }
  }
}

TEST_P(GeneratedTask, DependsOnTheSeedAlone) {
  const auto batch = [](std::uint64_t seed) {
    Random random(seed, 0);
    return task_batch(GetParam(), {.rows = 8, .min_length = 2, .max_length = 12}, random);
  };
  EXPECT_EQ(batch(1).ids, batch(1).ids);
  EXPECT_EQ(batch(1).labels, batch(1).labels);
  EXPECT_NE(batch(1).ids, batch(2).ids);
}

TEST_P(GeneratedTask, LabelsAreTheNextTokensOfTheAnswer) {
  Random random(3, 0);
  const Batch batch = task_batch(GetParam(), {.rows = 16, .max_length = 6}, random);
  ASSERT_EQ(batch.ids.size(), static_cast<std::size_t>(16 * batch.length));
  std::int64_t ends = 0;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const std::int64_t label = batch.labels[i];
    if (label == T::kEnd) ++ends;
    if (label == kIgnoreIndex || label == T::kEnd) continue;
    EXPECT_EQ(label, batch.ids[i + 1]);
  }
  EXPECT_EQ(ends, 16) << "every row has its end as a label";
}

TEST(GeneratedTasks, RejectsLengthsOutOfRange) {
  Random random(0, 0);
  EXPECT_THROW(make_problem(TaskKind::kCopy, 0, random), std::invalid_argument);
  EXPECT_THROW(make_problem(TaskKind::kRecall, 65, random), std::invalid_argument);
  EXPECT_NO_THROW(make_problem(TaskKind::kRecall, 64, random));
}

// ---- RoPER's tasks ------------------------------------------------------------------------------

/// The number at the beginning, which is removed with `skip` characters after it.
std::uint64_t take_number(std::string_view& text, std::size_t skip) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + skip);
  return number;
}

TEST(RoperTasks, AdditionStatesItsSteps) {
  Random random(5, 0);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const TextProblem problem = make_roper_problem(RoperTask::kAddition, random);
    std::string_view question = problem.question;
    ASSERT_TRUE(question.starts_with("?d="));
    question.remove_prefix(3);
    const std::uint64_t x = take_number(question, 1);
    const std::uint64_t y = take_number(question, 1);
    EXPECT_LT(x, 100000000u);
    EXPECT_LT(y, 100000000u);
    EXPECT_EQ(result_of(problem.solution), std::to_string(x + y));

    std::string_view steps = problem.solution;
    std::uint64_t sum = 0;
    std::uint64_t power = 1;
    std::uint64_t carry = 0;
    for (; !steps.starts_with(" d=="); power *= 10) {
      steps.remove_prefix(1);  // " 7e0+5e0+0e0==12e0 and"
      const std::uint64_t a = take_number(steps, 3);
      const std::uint64_t b = take_number(steps, 3);
      EXPECT_EQ(take_number(steps, 4), carry);
      const std::uint64_t total = take_number(steps, 2);
      EXPECT_EQ(total, a + b + carry);
      EXPECT_EQ(a, x / power % 10);
      EXPECT_EQ(b, y / power % 10);
      carry = total / 10;
      sum += total % 10 * power;
      ASSERT_TRUE(steps.starts_with(" and"));
      steps.remove_prefix(4);
    }
    EXPECT_EQ(sum, x + y);
  }
}

TEST(RoperTasks, FormatsAreThePublishedOnes) {
  Random random(1, 0);
  EXPECT_THAT(make_roper_problem(RoperTask::kAddition, random).question,
              testing::MatchesRegex(R"(\?d=[0-9]+\+[0-9]+;)"));
  for (int repeat = 0; repeat < 100; ++repeat) {
    const TextProblem problem = make_roper_problem(RoperTask::kIndex, random);
    ASSERT_THAT(problem.question, testing::MatchesRegex(R"(\?s='[a-z]+'; s\[[0-9]+:\]==)"));
    ASSERT_THAT(problem.solution, testing::MatchesRegex("'[a-z]+'#"));
    const std::string_view question = problem.question;
    const std::string_view text = question.substr(4, question.find("';") - 4);
    const std::string_view rest = question.substr(question.find('[') + 1);
    EXPECT_EQ(result_of(problem.solution),
              "'" + std::string(text.substr(std::stoul(std::string(rest)))) + "'");
  }
  EXPECT_THROW(make_roper_problem(RoperTask::kPrefix, random), std::invalid_argument);
}

TEST(RoperTasks, PrefixRepeatsWhatCameBefore) {
  Random random(2, 0);
  const std::string row = roper_row(RoperTask::kPrefix, 513, random);
  ASSERT_EQ(row.size(), 513u);
  std::string letters;
  int found = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] != '>') {
      letters += row[i];
      continue;
    }
    const std::string part = row.substr(i + 1, 32);
    if (part.size() < 32) break;
    EXPECT_NE(letters.find(part), std::string::npos) << part;
    ++found;
  }
  EXPECT_GE(found, 10);
  EXPECT_EQ(row.find_first_not_of("abcd>"), std::string::npos);
}

TEST(RoperTasks, BatchesPredictEveryNextCharacter) {
  for (const RoperTask task : {RoperTask::kAddition, RoperTask::kIndex, RoperTask::kPrefix}) {
    Random random(4, 0);
    const Batch batch = roper_batch(task, 3, 100, random);
    ASSERT_EQ(batch.ids.size(), 300u);
    ASSERT_EQ(batch.labels.size(), 300u);
    const Alphabet& alphabet = alphabet_of(task);
    for (std::size_t i = 0; i + 1 < batch.ids.size(); ++i) {
      if (i % 100 != 99) {
        EXPECT_EQ(batch.labels[i], batch.ids[i + 1]);
      }
      EXPECT_EQ(alphabet.id(alphabet.character(batch.ids[i])), batch.ids[i]);
    }
  }
}

}  // namespace
}  // namespace rotary::roformer::lab
