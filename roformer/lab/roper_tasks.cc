// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/roper_tasks.h"

#include <fmt/core.h>

#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

constexpr std::uint32_t kMaxDigits = 8;
constexpr std::uint32_t kAlphabetSize = 26;
constexpr std::string_view kPrefixLetters = "abcd";

/// A number of one to eight digits.
std::uint64_t draw_number(Random& random) {
  const std::uint32_t digits = 1 + random.below(kMaxDigits);
  std::uint64_t number = 1 + random.below(9);
  for (std::uint32_t i = 1; i < digits; ++i) number = number * 10 + random.below(10);
  return number;
}

TextProblem make_addition(Random& random) {
  const std::uint64_t x = draw_number(random);
  const std::uint64_t y = draw_number(random);
  TextProblem problem{.question = fmt::format("?d={}+{};", x, y)};
  std::uint64_t carry = 0;
  std::uint64_t a = x;
  std::uint64_t b = y;
  for (int e = 0; a > 0 || b > 0 || carry > 0; ++e) {
    const std::uint64_t sum = a % 10 + b % 10 + carry;
    problem.solution +=
        fmt::format(" {0}e{3}+{1}e{3}+{2}e{3}=={4}e{3} and", a % 10, b % 10, carry, e, sum);
    carry = sum / 10;
    a /= 10;
    b /= 10;
  }
  problem.solution += fmt::format(" d=={}#", x + y);
  return problem;
}

TextProblem make_index(const RoperStrings& strings, Random& random) {
  const std::uint32_t length =
      strings.min_letters + random.below(strings.max_letters - strings.min_letters + 1);
  std::string text(length, 'a');
  for (char& c : text) c = static_cast<char>('a' + random.below(kAlphabetSize));
  const std::uint32_t index = random.below(length);
  return {.question = fmt::format("?s='{}'; s[{}:]==", text, index),
          .solution = fmt::format("'{}'#", std::string_view(text).substr(index))};
}

std::string prefix_row(std::size_t length, const RoperStrings& strings, Random& random) {
  std::string row;
  std::string letters;  // the row without '>'
  const auto add_random = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) letters += kPrefixLetters[random.below(4)];
    row += std::string_view(letters).substr(letters.size() - count);
  };
  add_random(strings.substring);
  while (row.size() < length) {
    const std::size_t begin =
        random.below(static_cast<std::uint32_t>(letters.size() - strings.substring + 1));
    const std::string found = letters.substr(begin, strings.substring);
    row += '>' + found;
    letters += found;
    add_random(strings.random);
  }
  row.resize(length);
  return row;
}

}  // namespace

std::string_view name_of(RoperTask task) noexcept {
  switch (task) {
    case RoperTask::kAddition:
      return "addition";
    case RoperTask::kIndex:
      return "index";
    case RoperTask::kPrefix:
      break;
  }
  return "prefix";
}

Alphabet::Alphabet(std::string_view characters) noexcept : characters_(characters) {
  std::uint8_t id = 0;
  for (const char c : characters) ids_[static_cast<unsigned char>(c)] = ++id;
}

std::int64_t Alphabet::id(char character) const {
  const std::int64_t id = ids_[static_cast<unsigned char>(character)];
  if (id == 0) internal::reject("[Alphabet] the task has no character '", character, "'");
  return id;
}

std::vector<std::int64_t> Alphabet::ids(std::string_view text) const {
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(id(c));
  return ids;
}

char Alphabet::character(std::int64_t id) const noexcept {
  return id >= 1 && id < size() ? characters_[static_cast<std::size_t>(id - 1)] : '?';
}

const Alphabet& alphabet_of(RoperTask task) noexcept {
  static const Alphabet addition("0123456789+=;#? aden");
  static const Alphabet index("abcdefghijklmnopqrstuvwxyz0123456789?='; []:#");
  static const Alphabet prefix("abcd>");
  switch (task) {
    case RoperTask::kAddition:
      return addition;
    case RoperTask::kIndex:
      return index;
    case RoperTask::kPrefix:
      break;
  }
  return prefix;
}

TextProblem make_roper_problem(RoperTask task, Random& random, const RoperStrings& strings) {
  if (task == RoperTask::kAddition) return make_addition(random);
  if (task == RoperTask::kIndex) return make_index(strings, random);
  internal::reject("[make_roper_problem] task must be addition or index, got ", name_of(task));
}

std::string_view result_of(std::string_view solution) noexcept {
  solution = solution.substr(0, solution.find('#'));
  const std::size_t at = solution.rfind("==");
  return at == std::string_view::npos ? solution : solution.substr(at + 2);
}

std::string roper_row(RoperTask task, std::int64_t length, Random& random,
                      const RoperStrings& strings) {
  const auto size = static_cast<std::size_t>(length);
  if (task == RoperTask::kPrefix) return prefix_row(size, strings, random);
  std::string row;
  while (row.size() < size) {
    const TextProblem problem = make_roper_problem(task, random, strings);
    row += problem.question + problem.solution;
  }
  row.resize(size);
  return row;
}

Batch roper_batch(RoperTask task, std::int64_t rows, std::int64_t length, Random& random,
                  const RoperStrings& strings) {
  const auto size = static_cast<std::size_t>(rows * length);
  Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.types.assign(size, 0);
  batch.lengths.assign(static_cast<std::size_t>(rows), length);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::vector<std::int64_t> ids =
        alphabet_of(task).ids(roper_row(task, length + 1, random, strings));
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end() - 1);
    batch.labels.insert(batch.labels.end(), ids.begin() + 1, ids.end());
  }
  return batch;
}

}  // namespace rotary::roformer::lab
