// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Evaluation of token tasks: classes of words (tagging), and extractive question answering.
///
///   namespace rf = rotary::roformer;
///   rf::TagScore names = rf::score_tags(*tagger, test, tokenizer, {.max_length = 512});
///   names.f1();
///   rf::AnswerScore found = rf::score_answers(*reader, questions, tokenizer, {});
///   found.exact;
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/data/token_examples.h"
#include "roformer/model/model.h"
#include "roformer/tasks/answers.h"

namespace rotary::roformer {

/// An entity: words [begin, end).
struct Entity {
  std::string kind{};
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const Entity&, const Entity&) = default;
};
/// Entities marked by tags such as B-PER I-PER O: B and S begin one, E and S end it, and an I or E
/// that continues no entity of its kind begins one, too. Other tags are outside.
std::vector<Entity> entities_of(std::span<const std::string> tags);

struct TagScore {
  /// Of the words that the model read.
  ClassScore words{};
  /// Words beyond max_length; their entities count as missed.
  std::int64_t unread = 0;
  /// Entities in the data, predicted, and correct in kind and bounds.
  std::int64_t entities = 0;
  std::int64_t said = 0;
  std::int64_t right = 0;

  double precision() const noexcept;
  double recall() const noexcept;
  double f1() const noexcept;
};

/// For kTokenClassification. Throws std::invalid_argument for another model, or fewer classes.
TagScore score_tags(ModelImpl& model, std::shared_ptr<const TagSet> set,
                    std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

/// Exact match and F1 of an answer, as SQuAD defines them.
struct TextMatch {
  bool exact = false;
  double f1 = 0.0;
};
/// The best over several correct answers; if there are none, "" is correct. Case, punctuation and
/// the words a, an, the are ignored; a Han character is a word.
TextMatch match_answer(std::string_view said, std::span<const std::string> right);

struct AnswerScore {
  std::int64_t questions = 0;
  double loss = 0.0;
  /// Shares of the questions.
  double exact = 0.0;
  double f1 = 0.0;
};

/// The model's answer to each question: the most probable span of the context, or "" if [CLS] is
/// more probable. A context longer than max_length is read in windows (question_windows.h): the
/// best span of all of them is the answer, and the loss is their mean. For kQuestionAnswering;
/// throws std::invalid_argument for another model.
std::vector<std::string> find_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                                      std::shared_ptr<const Tokenizer> tokenizer,
                                      const AnswerOptions& options, double* loss = nullptr);
AnswerScore score_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                          std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

}  // namespace rotary::roformer
