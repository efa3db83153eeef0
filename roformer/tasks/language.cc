// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/language.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "roformer/train/trainer.h"

namespace rotary::roformer {
namespace {

/// A masked text, and the label of each token.
struct Asked {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> labels{};
};

Asked masked_question(const TokenDocument& text, const Vocabulary& vocabulary,
                      const LanguageOptions& options, std::uint64_t number) {
  Asked question{.ids = {text.ids.begin(), text.ids.end()}};
  question.labels.resize(text.size());
  std::vector<MaskRole> roles(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool special = text.ids[i] == vocabulary.special().sep;
    roles[i] = special                         ? MaskRole::kNever
               : i == 0 || text.begins[i] != 0 ? MaskRole::kWordStart
                                               : MaskRole::kContinuation;
  }
  Random random(options.seed, number);
  mask_tokens(options.masking, vocabulary.special().mask,
              static_cast<std::uint32_t>(vocabulary.size()), random, roles, question.ids,
              question.labels);
  return question;
}

/// Rows of one length, padded.
class TextRows {
 public:
  TextRows(const Vocabulary& vocabulary, const LanguageOptions& options, bool causal)
      : special_(vocabulary.special()), options_(options), causal_(causal) {
    batch_.length = options.length;
  }

  /// Tokens [first, first + count) of a text.
  void add(const Asked& text, std::size_t first, std::size_t count) {
    const auto end = static_cast<std::size_t>(batch_.length) * ++batch_.rows;
    if (options_.framing == Framing::kClsSep) push(special_.cls, kIgnoreIndex);
    for (std::size_t i = first; i < first + count; ++i) {
      // A causal model predicts the next token.
      if (causal_ && !batch_.labels.empty() && batch_.ids.size() % length() != 0) {
        batch_.labels.back() = text.ids[i];
      }
      push(text.ids[i], causal_ ? kIgnoreIndex : text.labels[i]);
    }
    if (options_.framing != Framing::kNone) push(special_.sep, kIgnoreIndex);
    batch_.lengths.push_back(batch_.length - static_cast<std::int64_t>(end - batch_.ids.size()));
    while (batch_.ids.size() < end) push(special_.pad, kIgnoreIndex);
  }

  bool full() const noexcept { return batch_.rows * batch_.length >= options_.batch_tokens; }
  const Batch& batch() const noexcept { return batch_; }
  void clear() {
    batch_ = {};
    batch_.length = options_.length;
  }

 private:
  std::size_t length() const noexcept { return static_cast<std::size_t>(batch_.length); }
  void push(std::int64_t id, std::int64_t label) {
    batch_.ids.push_back(id);
    batch_.labels.push_back(label);
  }

  SpecialIds special_;
  LanguageOptions options_;
  bool causal_;
  Batch batch_;
};

/// Sums stay on the device until the end.
class LanguageSums {
 public:
  void add(ModelImpl& model, const Batch& batch) {
    const auto num_labels = std::ranges::count_if(
        batch.labels, [](std::int64_t label) { return label != kIgnoreIndex; });
    if (num_labels == 0) return;
    const Inputs in = to_inputs(batch, model.config().task, model.parameters().front().device());
    const Output out = model.forward(in);
    const at::Tensor labels = in.labels->flatten();
    const at::Tensor wanted = labels.index({labels.ne(kIgnored)});
    const at::Tensor right = out.logits.argmax(-1).eq(wanted).sum().to(at::kDouble);
    const at::Tensor both =
        at::stack({out.loss.to(at::kDouble) * static_cast<double>(num_labels), right});
    sums_ = sums_.defined() ? sums_ + both : both;
    tokens_ += num_labels;
  }

  LanguageScore score(std::int64_t length) const {
    LanguageScore score{.length = length, .tokens = tokens_};
    if (tokens_ == 0) return score;
    const at::Tensor mean = (sums_ / static_cast<double>(tokens_)).cpu();
    score.loss = mean[0].item<double>();
    score.accuracy = mean[1].item<double>();
    return score;
  }

 private:
  at::Tensor sums_;
  std::int64_t tokens_ = 0;
};

void append_tokens(const TokenDocument& from, std::size_t first, std::size_t count,
                   TokenDocument& to) {
  const auto begin = static_cast<std::ptrdiff_t>(first);
  const auto end = static_cast<std::ptrdiff_t>(first + count);
  to.ids.insert(to.ids.end(), from.ids.begin() + begin, from.ids.begin() + end);
  to.begins.insert(to.begins.end(), from.begins.begin() + begin, from.begins.begin() + end);
}

}  // namespace

std::vector<TokenDocument> take_texts(DocumentStream& documents, const Vocabulary& vocabulary,
                                      const TakeOptions& options) {
  if (options.tokens < 1) throw std::invalid_argument("[take_texts] tokens must be positive");
  const std::size_t max_texts = std::max<std::size_t>(1, options.max_total / options.tokens);
  std::vector<TokenDocument> texts;
  TokenDocument rest;
  for (TokenDocument document; texts.size() < max_texts && documents.next(document);) {
    if (options.choice == TextChoice::kLong) rest.clear();
    append_tokens(document, 0, document.size(), rest);
    std::size_t used = 0;
    for (; texts.size() < max_texts && rest.size() - used >= options.tokens;
         used += options.tokens) {
      append_tokens(rest, used, options.tokens, texts.emplace_back());
    }
    const auto gone = static_cast<std::ptrdiff_t>(used);
    rest.ids.erase(rest.ids.begin(), rest.ids.begin() + gone);
    rest.begins.erase(rest.begins.begin(), rest.begins.begin() + gone);
    if (vocabulary.special().sep != kNoToken) {
      rest.ids.push_back(vocabulary.special().sep);
      rest.begins.push_back(1);
    }
  }
  return texts;
}

double LanguageScore::perplexity() const noexcept { return std::exp(loss); }

LanguageScore score_language(ModelImpl& model, const Vocabulary& vocabulary,
                             std::span<const TokenDocument> texts, const LanguageOptions& options) {
  const Task task = model.config().task;
  if (task != Task::kMaskedLm && task != Task::kCausalLm) {
    throw std::invalid_argument("[score_language] the model must be a language model, got " +
                                std::string(architecture_of(task)));
  }
  const std::int64_t part = options.length - framing_tokens(options.framing);
  if (part < 1) {
    throw std::invalid_argument("[score_language] length must leave room for a token, got " +
                                std::to_string(options.length));
  }
  const at::NoGradGuard no_grad;
  const bool causal = task == Task::kCausalLm;
  const auto step = static_cast<std::size_t>(part);
  TextRows rows(vocabulary, options, causal);
  LanguageSums sums;
  for (std::size_t n = 0; n < texts.size(); ++n) {
    const Asked question =
        causal ? Asked{.ids = {texts[n].ids.begin(), texts[n].ids.end()}, .labels = {}}
               : masked_question(texts[n], vocabulary, options, n);
    for (std::size_t first = 0; first < question.ids.size(); first += step) {
      rows.add(question, first, std::min(step, question.ids.size() - first));
      if (!rows.full()) continue;
      sums.add(model, rows.batch());
      rows.clear();
    }
  }
  if (rows.batch().rows > 0) sums.add(model, rows.batch());
  return sums.score(options.length);
}

}  // namespace rotary::roformer
