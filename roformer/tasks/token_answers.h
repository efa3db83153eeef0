// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// How well a tuned model answers with tokens: classes of words, and answers found in a text.
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

/// Words [begin, end) that are one thing.
struct Entity {
  std::string kind{};
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const Entity&, const Entity&) = default;
};
/// What tags such as B-PER I-PER O mark: B and S begin an entity, E and S end it, and an I or E
/// that goes on with nothing of its kind begins one, too. Other tags are outside.
std::vector<Entity> entities_of(std::span<const std::string> tags);

struct TagScore {
  /// Of the words that the model read.
  ClassScore words{};
  /// Words that were cut off; what they mark is not found.
  std::int64_t unread = 0;
  /// Entities that there are, that were said, and that are both, with kind and bounds.
  std::int64_t entities = 0;
  std::int64_t said = 0;
  std::int64_t right = 0;

  double precision() const noexcept;
  double recall() const noexcept;
  double f1() const noexcept;
};

/// Of kTokenClassification. Throws std::invalid_argument for another model, or fewer classes.
TagScore score_tags(ModelImpl& model, std::shared_ptr<const TagSet> set,
                    std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

/// How near a text comes to one that is right, as SQuAD counts it.
struct TextMatch {
  bool exact = false;
  double f1 = 0.0;
};
/// The nearest of several; none: the right answer is "". Case, punctuation and the words a, an, the
/// do not count; a Han character is a word.
TextMatch match_answer(std::string_view said, std::span<const std::string> right);

struct AnswerScore {
  std::int64_t questions = 0;
  double loss = 0.0;
  /// Shares of the questions.
  double exact = 0.0;
  double f1 = 0.0;
};

/// What the model answers to each question: the likeliest part of the context, or "" where [CLS] is
/// likelier. Of kQuestionAnswering; throws std::invalid_argument for another model.
std::vector<std::string> find_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                                      std::shared_ptr<const Tokenizer> tokenizer,
                                      const AnswerOptions& options, double* loss = nullptr);
AnswerScore score_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                          std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

}  // namespace rotary::roformer
