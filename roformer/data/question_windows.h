// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Questions with contexts of any length: a context that does not fit into a row is read in
/// overlapping windows.
///
///   namespace rf = rotary::roformer;
///   std::shared_ptr<const rf::Tokenizer> tokenizer =
///       rf::load_tokenizer({.vocabulary = "vocab.txt"});
///   auto questions = std::make_shared<const rf::QuestionSet>(rf::read_questions("squad.jsonl"));
///   auto windows = std::make_shared<const rf::QuestionWindows>(
///       questions, tokenizer, rf::WindowOptions{.max_length = 384, .stride = 128});
///   rf::ExampleBatches batches(rf::rows_of(windows), tokenizer, {.max_length = 384});
///
///   [CLS] question [SEP] context tokens 0 to 319 [SEP]
///   [CLS] question [SEP] context tokens 128 to 447 [SEP]   ...   until the context ends
///
/// A question has at most half of the tokens of a row; the rest of it is truncated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "roformer/data/example_batches.h"
#include "roformer/data/token_examples.h"

namespace rotary::roformer {

struct WindowOptions {
  /// Of a row, with [CLS] and [SEP]; at least 4. 0: no limit.
  std::size_t max_length = 512;
  /// Context tokens from the beginning of a window to that of the next, at most those of a window;
  /// 0: half of them.
  std::size_t stride = 0;
};

/// The windows of all questions, in their order. Keeps the tokens of contexts that need several:
/// memory and time are linear in the texts, and in max_length / stride. Immutable.
class QuestionWindows {
 public:
  /// Throws std::invalid_argument for a max_length that is too small.
  QuestionWindows(std::shared_ptr<const QuestionSet> set,
                  std::shared_ptr<const Tokenizer> tokenizer, const WindowOptions& options);

  std::size_t size() const noexcept { return windows_.size(); }
  /// The index of the question of a window.
  std::size_t question_of(std::size_t window) const noexcept { return windows_[window].question; }
  const QuestionSet& questions() const noexcept { return *set_; }
  /// The targets are first and last token of the first answer; [CLS], twice, if the question has no
  /// answer, or the window does not contain the whole of it.
  ExampleRow read(std::size_t window) const;

 private:
  struct Window {
    std::size_t question = 0;
    /// Tokens [begin, end) of the context.
    std::size_t begin = 0;
    std::size_t end = 0;
    /// Tokens of the question.
    std::size_t keep = 0;
  };

  std::shared_ptr<const QuestionSet> set_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Window> windows_{};
  /// Of contexts with several windows.
  std::unordered_map<std::string_view, Tokens> long_contexts_{};
};

/// Reads with the tokenizer and the lengths that the windows were made with.
ExampleRows rows_of(std::shared_ptr<const QuestionWindows> windows);

/// Whether the token belongs to the context of a question.
bool is_of_context(const Encoding& encoding, std::size_t token) noexcept;

}  // namespace rotary::roformer
