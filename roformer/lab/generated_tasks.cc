// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/generated_tasks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

using Id = TaskTokens;

constexpr std::int64_t kMaxTaskLength = 64;
constexpr std::int64_t kQueries = 4;
constexpr std::int64_t kPasskeyDigits = 4;
constexpr std::int64_t kWordsPerUnit = 4;
constexpr std::int64_t kBase = 10;

struct NamedTask {
  TaskKind kind;
  std::string_view name;
};
constexpr std::array<NamedTask, Id::kTasks> kNamedTasks = {{
    {TaskKind::kCopy, "copy"},
    {TaskKind::kReverse, "reverse"},
    {TaskKind::kAddition, "addition"},
    {TaskKind::kSorting, "sorting"},
    {TaskKind::kParity, "parity"},
    {TaskKind::kIndexing, "indexing"},
    {TaskKind::kRecall, "recall"},
    {TaskKind::kPasskey, "passkey"},
}};

std::int64_t draw_below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(n)));
}

/// Appends the tokens of a problem.
class Writer {
 public:
  Writer(TaskKind task, std::int64_t size) {
    problem_.tokens.reserve(static_cast<std::size_t>(size));
    problem_.is_answer.reserve(static_cast<std::size_t>(size));
    ask(Id::kTask + static_cast<std::int64_t>(task));
  }
  void ask(std::int64_t token) { add(token, false); }
  void ask_all(std::span<const std::int64_t> tokens) {
    for (const std::int64_t token : tokens) ask(token);
  }
  void answer(std::int64_t token) { add(token, true); }
  void answer_all(std::span<const std::int64_t> tokens) {
    for (const std::int64_t token : tokens) answer(token);
  }
  Problem end() {
    answer(Id::kEnd);
    return std::move(problem_);
  }

 private:
  void add(std::int64_t token, bool is_answer) {
    problem_.tokens.push_back(token);
    problem_.is_answer.push_back(is_answer);
  }
  Problem problem_;
};

std::vector<std::int64_t> draw_tokens(Random& random, std::int64_t count, std::int64_t first,
                                      std::int64_t kinds) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  for (std::int64_t& token : tokens) token = first + draw_below(random, kinds);
  return tokens;
}

/// `count` distinct numbers below n, in random order: the beginning of a Fisher-Yates shuffle.
std::vector<std::int64_t> draw_distinct(Random& random, std::int64_t count, std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = i;
  for (std::int64_t i = 0; i < count; ++i) {
    std::swap(all[static_cast<std::size_t>(i)],
              all[static_cast<std::size_t>(i + draw_below(random, n - i))]);
  }
  all.resize(static_cast<std::size_t>(count));
  return all;
}

void write_letters(TaskKind task, std::int64_t length, Random& random, Writer& writer) {
  std::vector<std::int64_t> letters = draw_tokens(random, length, Id::kLetter, Id::kLetters);
  writer.ask_all(letters);
  writer.ask(Id::kEquals);
  if (task == TaskKind::kReverse) std::ranges::reverse(letters);
  if (task == TaskKind::kSorting) std::ranges::sort(letters);
  writer.answer_all(letters);
}

void write_addition(std::int64_t length, Random& random, Writer& writer) {
  const std::vector<std::int64_t> x = draw_tokens(random, length, Id::kDigit, kBase);
  const std::vector<std::int64_t> y = draw_tokens(random, length, Id::kDigit, kBase);
  writer.ask_all(x);
  writer.ask(Id::kPlus);
  writer.ask_all(y);
  writer.ask(Id::kEquals);
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t sum = x[i] - Id::kDigit + y[i] - Id::kDigit + carry;
    writer.answer(Id::kDigit + sum % kBase);
    carry = sum / kBase;
  }
  writer.answer(Id::kDigit + carry);
}

void write_parity(std::int64_t length, Random& random, Writer& writer) {
  const std::vector<std::int64_t> bits = draw_tokens(random, length, Id::kDigit, 2);
  writer.ask_all(bits);
  writer.ask(Id::kEquals);
  std::int64_t parity = 0;
  for (const std::int64_t bit : bits) {
    parity ^= bit - Id::kDigit;
    writer.answer(Id::kDigit + parity);
  }
}

void write_indexing(std::int64_t length, Random& random, Writer& writer) {
  const std::vector<std::int64_t> letters = draw_tokens(random, length, Id::kLetter, Id::kLetters);
  const std::int64_t index = draw_below(random, std::min(length, Id::kIndices));
  writer.ask_all(letters);
  writer.ask(Id::kIndex + index);
  writer.ask(Id::kEquals);
  writer.answer(letters[static_cast<std::size_t>(index)]);
}

void write_recall(std::int64_t length, Random& random, Writer& writer) {
  const std::vector<std::int64_t> keys = draw_distinct(random, length, Id::kKeys);
  const std::vector<std::int64_t> values = draw_tokens(random, length, Id::kLetter, Id::kLetters);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    writer.ask(Id::kKey + keys[i]);
    writer.ask(values[i]);
  }
  writer.ask(Id::kEquals);
  for (const std::int64_t query : draw_distinct(random, std::min(length, kQueries), length)) {
    writer.ask(Id::kKey + keys[static_cast<std::size_t>(query)]);
    writer.answer(values[static_cast<std::size_t>(query)]);
  }
}

void write_passkey(std::int64_t length, Random& random, Writer& writer) {
  const std::int64_t words = kWordsPerUnit * length;
  const std::vector<std::int64_t> digits = draw_tokens(random, kPasskeyDigits, Id::kDigit, kBase);
  const std::int64_t depth = draw_below(random, words + 1);
  for (std::int64_t i = 0; i <= words; ++i) {
    if (i == depth) writer.ask_all(digits);
    if (i < words) writer.ask(Id::kWord + i % Id::kWords);
  }
  writer.ask(Id::kEquals);
  writer.answer_all(digits);
}

void check_task_length(std::int64_t length) {
  if (length < 1 || length > kMaxTaskLength) {
    internal::reject("[make_problem] length must be from 1 to ", kMaxTaskLength, ", got ", length);
  }
}

}  // namespace

std::span<const TaskKind> task_kinds() noexcept {
  static constexpr auto kKinds = [] {
    std::array<TaskKind, kNamedTasks.size()> kinds{};
    for (std::size_t i = 0; i < kNamedTasks.size(); ++i) kinds[i] = kNamedTasks[i].kind;
    return kinds;
  }();
  return kKinds;
}

std::string_view name_of(TaskKind task) noexcept {
  return kNamedTasks[static_cast<std::size_t>(task)].name;
}

Problem make_problem(TaskKind task, std::int64_t length, Random& random) {
  check_task_length(length);
  Writer writer(task, max_tokens(task, length));
  switch (task) {
    case TaskKind::kCopy:
    case TaskKind::kReverse:
    case TaskKind::kSorting:
      write_letters(task, length, random, writer);
      break;
    case TaskKind::kAddition:
      write_addition(length, random, writer);
      break;
    case TaskKind::kParity:
      write_parity(length, random, writer);
      break;
    case TaskKind::kIndexing:
      write_indexing(length, random, writer);
      break;
    case TaskKind::kRecall:
      write_recall(length, random, writer);
      break;
    case TaskKind::kPasskey:
      write_passkey(length, random, writer);
      break;
  }
  return writer.end();
}

std::int64_t max_tokens(TaskKind task, std::int64_t length) {
  check_task_length(length);
  constexpr std::int64_t kFrame = 3;  // [task] [=] [end]
  switch (task) {
    case TaskKind::kAddition:
      return 3 * length + 2 + kFrame;  // +, and the sum's first digit
    case TaskKind::kIndexing:
      return length + 2 + kFrame;
    case TaskKind::kRecall:
      return 2 * length + 2 * std::min(length, kQueries) + kFrame;
    case TaskKind::kPasskey:
      return kWordsPerUnit * length + 2 * kPasskeyDigits + kFrame;
    default:
      return 2 * length + kFrame;
  }
}

Batch task_batch(TaskKind task, const TaskBatchOptions& options, Random& random) {
  return task_batch({&task, 1}, options, random);
}

Batch task_batch(std::span<const TaskKind> tasks, const TaskBatchOptions& options, Random& random) {
  std::int64_t row = 0;
  for (const TaskKind task : tasks) row = std::max(row, max_tokens(task, options.max_length) - 1);
  const auto size = static_cast<std::size_t>(options.rows * row);
  Batch batch;
  batch.rows = options.rows;
  batch.length = row;
  batch.ids.assign(size, TaskTokens::kPad);
  batch.types.assign(size, 0);
  batch.labels.assign(size, kIgnoreIndex);
  batch.lengths.assign(static_cast<std::size_t>(options.rows), row);
  for (std::int64_t r = 0; r < options.rows; ++r) {
    const std::int64_t length =
        options.min_length + draw_below(random, options.max_length - options.min_length + 1);
    const TaskKind task = tasks[static_cast<std::size_t>(r) % tasks.size()];
    const Problem problem = make_problem(task, length, random);
    const auto begin = static_cast<std::size_t>(r * row);
    for (std::size_t i = 0; i + 1 < problem.tokens.size(); ++i) {
      batch.ids[begin + i] = problem.tokens[i];
      if (problem.is_answer[i + 1]) batch.labels[begin + i] = problem.tokens[i + 1];
    }
  }
  return batch;
}

}  // namespace rotary::roformer::lab
