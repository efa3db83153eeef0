// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Examples with labels on tokens: a class per word (tagging), and answers within a context.
///
///   namespace rf = rotary::roformer;
///   const rf::TagSet train = rf::read_conll("train.conll");
///   const rf::TagSet test = rf::read_conll("test.conll", train.labels);
///   const rf::QuestionSet questions = rf::read_questions("squad.jsonl");
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "roformer/data/example_batches.h"

namespace rotary::roformer {

/// Words with a class each.
struct TaggedText {
  std::vector<std::string> words{};
  /// Indices into TagSet::labels.
  std::vector<std::int64_t> tags{};
};
struct TagSet {
  std::vector<TaggedText> texts{};
  /// Ordered like ExampleSet::labels.
  std::vector<std::string> labels{};
};

/// CoNLL: columns separated by spaces or tabs, the word in the first and its class in the last, a
/// blank line after each text; -DOCSTART- lines are skipped. `labels` as in read_tsv(). Throws
/// IoError with path and line.
TagSet read_conll(const std::filesystem::path& path, std::span<const std::string> labels = {});
/// Lines of {"tokens": [...], "labels": [...]}.
TagSet read_tags_jsonl(const std::filesystem::path& path, std::span<const std::string> labels = {});

struct Question {
  std::string question{};
  std::string context{};
  /// All correct answers; the first is the training target. Empty: the context has no answer.
  std::vector<std::string> answers{};
  /// Byte offset of the first answer in the context.
  std::size_t begin = 0;
};
struct QuestionSet {
  std::vector<Question> questions{};
};

/// Lines of {"question": ..., "context": ..., "answer": ..., "answer_start": ...}. The start is
/// in code points, as in SQuAD; without it the first occurrence in the context counts. Several
/// answers are two lists; no answer is "" or null. Throws IoError with path and line.
QuestionSet read_questions(const std::filesystem::path& path);

/// [CLS] words [SEP]: the class of a word is the label of its first token.
ExampleRows rows_of(std::shared_ptr<const TagSet> set);

}  // namespace rotary::roformer
