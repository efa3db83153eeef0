// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/question_windows.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace rotary::roformer {
namespace {

/// [CLS] and two [SEP].
constexpr std::size_t kNumSpecial = 3;

/// First and last token of the first answer in the window; [CLS] if it has not all of it.
std::vector<std::int64_t> answer_tokens(const Question& question, const Tokens& context,
                                        std::size_t begin, std::size_t end, std::size_t offset) {
  if (question.answers.empty()) return {0, 0};
  const std::size_t answer_end = question.begin + question.answers.front().size();
  // Spans ascend: the answer is the tokens from the first that ends behind its beginning to the
  // last that begins before its end.
  const auto first = std::ranges::partition_point(
      context.spans, [&](const TextSpan& span) { return span.end <= question.begin; });
  const auto last = std::ranges::partition_point(
      context.spans, [&](const TextSpan& span) { return span.begin < answer_end; });
  const auto a = static_cast<std::size_t>(first - context.spans.begin());
  const auto b = static_cast<std::size_t>(last - context.spans.begin());
  if (a >= b || a < begin || b > end) return {0, 0};
  return {static_cast<std::int64_t>(offset + a - begin),
          static_cast<std::int64_t>(offset + b - 1 - begin)};
}

}  // namespace

QuestionWindows::QuestionWindows(std::shared_ptr<const QuestionSet> set,
                                 std::shared_ptr<const Tokenizer> tokenizer,
                                 const WindowOptions& options)
    : set_(std::move(set)), tokenizer_(std::move(tokenizer)) {
  if (options.max_length > 0 && options.max_length <= kNumSpecial) {
    throw std::invalid_argument("[QuestionWindows] max_length must be at least 4, got " +
                                std::to_string(options.max_length));
  }
  const std::size_t capacity = options.max_length == 0 ? std::numeric_limits<std::size_t>::max()
                                                       : options.max_length - kNumSpecial;
  Tokens question;
  for (std::size_t i = 0; i < set_->questions.size(); ++i) {
    const Question& one = set_->questions[i];
    tokenizer_->tokenize(one.question, question);
    const auto kept = long_contexts_.find(one.context);
    Tokens context;
    if (kept == long_contexts_.end()) tokenizer_->tokenize(one.context, context);
    const std::size_t size = kept == long_contexts_.end() ? context.size() : kept->second.size();
    const bool fits = question.size() + size <= capacity;
    const std::size_t keep = fits ? question.size() : std::min(question.size(), capacity / 2);
    const std::size_t room = capacity - keep;
    if (size <= room) {
      windows_.push_back({.question = i, .begin = 0, .end = size, .keep = keep});
      continue;
    }
    const std::size_t stride =
        std::min(room, options.stride > 0 ? options.stride : std::max<std::size_t>(1, room / 2));
    for (std::size_t begin = 0;; begin += stride) {
      const std::size_t end = std::min(size, begin + room);
      windows_.push_back({.question = i, .begin = begin, .end = end, .keep = keep});
      if (end == size) break;
    }
    if (kept == long_contexts_.end()) long_contexts_.emplace(one.context, std::move(context));
  }
}

ExampleRow QuestionWindows::read(std::size_t window) const {
  const Window& at = windows_[window];
  const Question& question = set_->questions[at.question];
  const Tokens first = tokenizer_->tokenize(question.question);
  Tokens whole;
  const Tokens* context = &whole;
  if (const auto kept = long_contexts_.find(question.context); kept != long_contexts_.end()) {
    context = &kept->second;
  } else {
    tokenizer_->tokenize(question.context, whole);
  }
  return {.encoding =
              encode_window(tokenizer_->vocabulary(), first, at.keep, *context, at.begin, at.end),
          .targets = answer_tokens(question, *context, at.begin, at.end, at.keep + 2)};
}

ExampleRows rows_of(std::shared_ptr<const QuestionWindows> windows) {
  if (!windows) return {};
  const std::size_t count = windows->size();
  return {
      .count = count,
      .read = [windows = std::move(windows)](std::size_t k, const Tokenizer&,
                                             const EncodeOptions&) { return windows->read(k); }};
}

bool is_of_context(const Encoding& encoding, std::size_t token) noexcept {
  return encoding.types[token] == 1 && encoding.words[token] != Encoding::kNoWord;
}

}  // namespace rotary::roformer
