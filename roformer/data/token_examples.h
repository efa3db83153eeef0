// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Examples whose labels are of tokens: a class for each word, and answers that stand in a text.
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

/// Words, each with its class.
struct TaggedText {
  std::vector<std::string> words{};
  /// Numbers in TagSet::labels.
  std::vector<std::int64_t> tags{};
};
struct TagSet {
  std::vector<TaggedText> texts{};
  /// In the order of ExampleSet::labels.
  std::vector<std::string> labels{};
};

/// Columns parted by spaces or tabs, the word in the first and its class in the last, a blank line
/// after each text; lines of -DOCSTART- are passed over. `labels` as in read_tsv(). Throws IoError
/// with path and line.
TagSet read_conll(const std::filesystem::path& path, std::span<const std::string> labels = {});
/// Lines of {"tokens": [...], "labels": [...]}.
TagSet read_tags_jsonl(const std::filesystem::path& path, std::span<const std::string> labels = {});

struct Question {
  std::string question{};
  std::string context{};
  /// All that are right, the first of which is learnt. None: the context has no answer.
  std::vector<std::string> answers{};
  /// The byte of the context at which the first answer begins.
  std::size_t begin = 0;
};
struct QuestionSet {
  std::vector<Question> questions{};
};

/// Lines of {"question": ..., "context": ..., "answer": ..., "answer_start": ...}. The start counts
/// code points, as SQuAD does; without it the answer is where the context has it first. Several
/// answers are two lists; no answer is "" or null. Throws IoError with path and line.
QuestionSet read_questions(const std::filesystem::path& path);

/// [CLS] words [SEP]: the class of a word is the label of its first token.
ExampleRows rows_of(std::shared_ptr<const TagSet> set);
/// [CLS] question [SEP] context [SEP], the context cut where both are too long. The targets of an
/// answer that was cut off, or does not exist, are [CLS], twice.
ExampleRows rows_of(std::shared_ptr<const QuestionSet> set);

/// Whether the token stands in the context of a question.
bool is_of_context(const Encoding& encoding, std::size_t token) noexcept;

}  // namespace rotary::roformer
