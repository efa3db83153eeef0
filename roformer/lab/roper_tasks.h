// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The three tasks of RoPER (Harik and Jayasiri 2022, research.labml.ai/RoPER.html), by the formats
/// that it states:
///
///   addition   ?d=77+38446365; 7e0+5e0+0e0==12e0 and 7e1+6e1+1e1==14e1 and ... d==38446442#
///   index      ?s='dyjeofuxvejmg'; s[8:]=='vejmg'#
///   prefix     [random string]>[substring][random string]>[substring]...
///
/// Problems follow one another in a row; a model learns all characters of it. It does not state the
/// lengths of the strings, which are those of RoperStrings.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/data/random.h"

namespace rotary::roformer::lab {

enum class RoperTask : std::uint8_t { kAddition, kIndex, kPrefix };
/// "addition"
std::string_view name_of(RoperTask task) noexcept;

/// Characters of a task, by id; id 0 is for padding.
class Alphabet {
 public:
  explicit Alphabet(std::string_view characters) noexcept;
  /// Number of ids.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(characters_.size()) + 1; }
  /// Throws std::invalid_argument for a character that the task has not.
  std::int64_t id(char character) const;
  std::vector<std::int64_t> ids(std::string_view text) const;
  /// '?' for ids that are none.
  char character(std::int64_t id) const noexcept;

 private:
  std::string_view characters_;
  /// Of each byte; 0 for characters that the task has not.
  std::array<std::uint8_t, 256> ids_{};
};
const Alphabet& alphabet_of(RoperTask task) noexcept;

/// Lengths of the strings. By default those of `index` have 2 to 16 letters (its examples have 13);
/// those of `prefix` begin with 32 letters, then have substrings of 32 and random strings of 4,
/// whose entropy, about 0.3 nats a character, is near the losses that it reports.
struct RoperStrings {
  std::uint32_t min_letters = 2;
  std::uint32_t max_letters = 16;
  std::uint32_t substring = 32;
  std::uint32_t random = 4;
};

/// A problem of addition or index.
struct TextProblem {
  std::string question{};  // "?s='dyj'; s[1:]=="
  std::string solution{};  // "'yj'#"
};
/// Throws std::invalid_argument for kPrefix, which has no questions.
TextProblem make_roper_problem(RoperTask task, Random& random, const RoperStrings& strings = {});
/// What is judged of a solution: the text after its last "==", up to '#'.
std::string_view result_of(std::string_view solution) noexcept;

/// `length` characters of a row.
std::string roper_row(RoperTask task, std::int64_t length, Random& random,
                      const RoperStrings& strings = {});
/// Rows of kCausalLm of `length` tokens; every next character is a label.
Batch roper_batch(RoperTask task, std::int64_t rows, std::int64_t length, Random& random,
                  const RoperStrings& strings = {});

}  // namespace rotary::roformer::lab
