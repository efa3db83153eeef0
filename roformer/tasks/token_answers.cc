// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/token_answers.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "roformer/data/question_windows.h"
#include "roformer/tasks/ask.h"
#include "roformer/text/normalizer.h"
#include "roformer/text/unicode.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {
namespace {

/// Longer answers are not considered.
constexpr std::size_t kMaxAnswerTokens = 128;

void check_task(const ModelImpl& model, Task task, const char* function) {
  if (model.config().task == task) return;
  throw std::invalid_argument(std::string("[") + function + "] the model must be a " +
                              std::string(architecture_of(task)) + ", got " +
                              std::string(architecture_of(model.config())));
}

/// Calls visit(example, row of the encoding, logits [tokens, ...]) for each; returns the mean loss.
template <typename Visit>
double ask_each(ModelImpl& model, const ExampleRows& rows,
                const std::shared_ptr<const Tokenizer>& tokenizer, const AnswerOptions& options,
                const Visit& visit) {
  const Task task = model.config().task;
  const at::Device device = model.parameters().front().device();
  double loss = 0.0;
  std::int64_t labels = 0;
  std::size_t example = 0;
  for_each_batch(rows, tokenizer, options, [&](const Batch& batch) {
    const Output out = model.forward(to_inputs(batch, task, device));
    const std::int64_t count = count_labels(batch, task);
    if (count > 0) loss += out.loss.item<double>() * static_cast<double>(count);
    labels += count;
    const at::Tensor logits = out.logits.to(at::kFloat).cpu();
    for (std::int64_t i = 0; i < batch.rows; ++i, ++example) {
      const ExampleRow row = rows.read(example, *tokenizer, {.max_length = options.max_length});
      visit(example, row, logits[i]);
    }
  });
  return labels > 0 ? loss / static_cast<double>(labels) : 0.0;
}

// ---- Tags ---------------------------------------------------------------------------------------

struct Tag {
  char place = 'O';
  std::string_view kind{};
};
Tag tag_of(std::string_view text) {
  const bool marks = text.size() > 2 && text[1] == '-' &&
                     std::string_view("BIES").find(text[0]) != std::string_view::npos;
  return marks ? Tag{text[0], text.substr(2)} : Tag{};
}

void count_entities(TagScore& score, std::span<const std::string> are,
                    std::span<const std::string> said) {
  const std::vector<Entity> there = entities_of(are);
  const std::vector<Entity> found = entities_of(said);
  score.entities += static_cast<std::int64_t>(there.size());
  score.said += static_cast<std::int64_t>(found.size());
  score.right += std::ranges::count_if(
      found, [&](const Entity& entity) { return std::ranges::find(there, entity) != there.end(); });
}

// ---- Answers ------------------------------------------------------------------------------------

/// The words that are compared.
std::vector<std::u32string> words_of(std::string_view text) {
  NormalizedText normal;
  normalize(text, 0, {.letter_case = LetterCase::kLower, .accents = Accents::kKeep}, normal);
  std::vector<std::u32string> words;
  std::u32string word;
  const auto end_word = [&] {
    const bool is_article = word == U"a" || word == U"an" || word == U"the";
    if (!word.empty() && !is_article) words.push_back(word);
    word.clear();
  };
  for (const char32_t c : normal.text) {
    if (is_whitespace(c) || is_han(c)) end_word();
    if (is_han(c)) {
      words.emplace_back(1, c);
    } else if (!is_whitespace(c) && !is_punctuation(c)) {
      word.push_back(c);
    }
  }
  end_word();
  return words;
}

TextMatch match_one(const std::vector<std::u32string>& said,
                    const std::vector<std::u32string>& right) {
  if (said.empty() || right.empty()) {
    const bool both = said.empty() && right.empty();
    return {.exact = both, .f1 = both ? 1.0 : 0.0};
  }
  std::map<std::u32string, std::int64_t> left;
  for (const std::u32string& word : right) ++left[word];
  const std::int64_t common =
      std::ranges::count_if(said, [&](const std::u32string& word) { return left[word]-- > 0; });
  return {.exact = said == right,
          .f1 = f1_of(ratio_of(common, static_cast<std::int64_t>(said.size())),
                      ratio_of(common, static_cast<std::int64_t>(right.size())))};
}

/// The best answer to a question so far. Scores are sums of the logits of first and last token, and
/// compared over windows, as BERT's script for SQuAD does.
struct BestAnswer {
  /// Of [CLS], in the window where it is least probable; without a window, none.
  std::optional<float> none{};
  float score = 0.0F;
  /// Bytes of the context.
  std::optional<TextSpan> span{};
};

/// Takes a window into account. logits: [tokens, 2].
void read_window(const Encoding& encoding, const at::Tensor& logits, BestAnswer& best) {
  const auto score = logits.accessor<float, 2>();
  const auto at = [&](std::size_t token, std::int64_t side) {
    return score[static_cast<std::int64_t>(token)][side];
  };
  const float none = at(0, 0) + at(0, 1);
  best.none = best.none ? std::min(*best.none, none) : none;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (!is_of_context(encoding, i)) continue;
    const std::size_t end = std::min(encoding.ids.size(), i + kMaxAnswerTokens);
    for (std::size_t k = i; k < end && is_of_context(encoding, k); ++k) {
      const float score = at(i, 0) + at(k, 1);
      if (best.span && score <= best.score) continue;
      best.score = score;
      best.span = {encoding.spans[i].begin, encoding.spans[k].end};
    }
  }
}

std::string answer_text(const BestAnswer& best, const std::string& context) {
  if (!best.span || best.score <= *best.none) return {};
  return context.substr(best.span->begin, best.span->end - best.span->begin);
}

}  // namespace

std::vector<Entity> entities_of(std::span<const std::string> tags) {
  std::vector<Entity> out;
  bool open = false;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const Tag tag = tag_of(tags[i]);
    const bool goes_on =
        open && (tag.place == 'I' || tag.place == 'E') && out.back().kind == tag.kind;
    if (tag.place == 'O') {
      open = false;
      continue;
    }
    if (!goes_on) out.push_back({std::string(tag.kind), i, i});
    out.back().end = i + 1;
    open = tag.place == 'B' || tag.place == 'I';
  }
  return out;
}

double TagScore::precision() const noexcept { return ratio_of(right, said); }
double TagScore::recall() const noexcept { return ratio_of(right, entities); }
double TagScore::f1() const noexcept { return f1_of(precision(), recall()); }

TagScore score_tags(ModelImpl& model, std::shared_ptr<const TagSet> set,
                    std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options) {
  check_task(model, Task::kTokenClassification, "score_tags");
  const auto classes = static_cast<std::size_t>(model.config().num_labels);
  if (classes < set->labels.size()) {
    throw std::invalid_argument("[score_tags] the model has " + std::to_string(classes) +
                                " classes, the examples have " +
                                std::to_string(set->labels.size()));
  }
  TagScore score;
  score.words.table.assign(classes, std::vector<std::int64_t>(classes));
  const auto visit = [&](std::size_t example, const ExampleRow& row, const at::Tensor& logits) {
    const TaggedText& text = set->texts[example];
    const at::Tensor likeliest = logits.argmax(1);
    std::vector<std::string> are;
    for (const std::int64_t tag : text.tags)
      are.push_back(set->labels[static_cast<std::size_t>(tag)]);
    std::vector<std::string> said(text.words.size());
    score.unread += static_cast<std::int64_t>(text.words.size());
    for (std::size_t t = 0; t < row.labels.size(); ++t) {
      if (row.labels[t] == kIgnoreIndex) continue;
      const auto tag =
          static_cast<std::size_t>(likeliest[static_cast<std::int64_t>(t)].item<std::int64_t>());
      if (tag < set->labels.size()) said[row.encoding.words[t]] = set->labels[tag];
      ++score.words.table[static_cast<std::size_t>(row.labels[t])][tag];
      --score.unread;
    }
    count_entities(score, are, said);
  };
  score.words.loss = ask_each(model, rows_of(set), tokenizer, options, visit);
  return score;
}

TextMatch match_answer(std::string_view said, std::span<const std::string> right) {
  const std::vector<std::u32string> words = words_of(said);
  if (right.empty()) return match_one(words, {});
  TextMatch best;
  for (const std::string& one : right) {
    const TextMatch match = match_one(words, words_of(one));
    best = {.exact = best.exact || match.exact, .f1 = std::max(best.f1, match.f1)};
  }
  return best;
}

std::vector<std::string> find_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                                      std::shared_ptr<const Tokenizer> tokenizer,
                                      const AnswerOptions& options, double* loss) {
  check_task(model, Task::kQuestionAnswering, "find_answers");
  const auto windows = std::make_shared<const QuestionWindows>(
      set, tokenizer, WindowOptions{.max_length = options.max_length, .stride = options.stride});
  std::vector<BestAnswer> best(set->questions.size());
  const double mean =
      ask_each(model, rows_of(windows), tokenizer, options,
               [&](std::size_t window, const ExampleRow& row, const at::Tensor& logits) {
                 read_window(row.encoding, logits, best[windows->question_of(window)]);
               });
  if (loss != nullptr) *loss = mean;
  std::vector<std::string> answers;
  for (std::size_t i = 0; i < best.size(); ++i) {
    answers.push_back(answer_text(best[i], set->questions[i].context));
  }
  return answers;
}

AnswerScore score_answers(ModelImpl& model, std::shared_ptr<const QuestionSet> set,
                          std::shared_ptr<const Tokenizer> tokenizer,
                          const AnswerOptions& options) {
  AnswerScore score{.questions = static_cast<std::int64_t>(set->questions.size())};
  const std::vector<std::string> said =
      find_answers(model, set, std::move(tokenizer), options, &score.loss);
  const auto count = static_cast<double>(said.size());
  for (std::size_t i = 0; i < said.size(); ++i) {
    const TextMatch match = match_answer(said[i], set->questions[i].answers);
    score.exact += match.exact ? 1 / count : 0.0;
    score.f1 += match.f1 / count;
  }
  return score;
}

}  // namespace rotary::roformer
