// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/answers.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "roformer/tasks/ask.h"
#include "roformer/tasks/correlation.h"
#include "roformer/tasks/labels.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {
namespace {

/// [examples, ...] in float on the CPU: the results of `ask` for all batches, concatenated.
at::Tensor ask_all(std::shared_ptr<const ExampleSet> set,
                   std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options,
                   const std::function<at::Tensor(const Batch&)>& ask) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for_each_batch(rows_of(std::move(set)), std::move(tokenizer), options,
                 [&](const Batch& batch) { parts.push_back(ask(batch).to(at::kFloat)); });
  return at::cat(parts).cpu();
}

/// The texts alone.
Inputs question_of(const Batch& batch, const ModelImpl& model) {
  Inputs in = to_inputs(batch, model.config().task, model.parameters().front().device());
  in.labels.reset();
  in.logits_at = LogitsAt::kAllTokens;
  return in;
}

bool has_classes(const Config& config) noexcept {
  return config.task == Task::kSequenceClassification || config.task == Task::kPairMatching;
}

/// Throws std::invalid_argument if the model or the examples have labels of another kind.
void require_labels(const Config& config, const ExampleSet& set, LabelKind kind,
                    const char* function) {
  const bool numbers = kind == LabelKind::kNumber;
  const auto fail = [&](const char* rule) {
    throw std::invalid_argument(std::string("[") + function + "] " + rule);
  };
  if (predicts_number(config) != numbers) {
    fail(numbers ? "the model must predict a number, not classes"
                 : "the model must predict classes, not a number");
  }
  if (set.label_kind != kind) {
    fail(numbers ? "the examples must be labelled with numbers"
                 : "the examples must be labelled with classes");
  }
}

at::Tensor targets_of(const ExampleSet& set) {
  std::vector<std::int64_t> targets;
  for (const Example& example : set.examples) targets.push_back(example.label);
  return at::tensor(targets, at::kLong);
}

/// [examples, 2 or more] for [examples, 1]: a match is the second class.
at::Tensor as_classes(const at::Tensor& answers) {
  return answers.size(1) == 1 ? at::cat({at::zeros_like(answers), answers}, 1) : answers;
}

/// Embeds each document once, even if it is in several triples.
at::Tensor cosines(ModelImpl& model, std::span<const Triple> triples,
                   std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options) {
  auto set = std::make_shared<ExampleSet>(ExampleSet{.examples = {}, .labels = {"0"}});
  std::unordered_map<std::string, std::int64_t> numbers;
  std::vector<std::int64_t> rows;
  for (const Triple& triple : triples) {
    for (const std::string* text : {&triple.a, &triple.b, &triple.c}) {
      const auto [at, is_new] = numbers.emplace(*text, static_cast<std::int64_t>(numbers.size()));
      if (is_new) set->examples.push_back({.first = *text});
      rows.push_back(at->second);
    }
  }
  const at::Tensor vectors =
      ask_all(set, std::move(tokenizer), options, [&model](const Batch& batch) {
        const Inputs in = question_of(batch, model);
        return mean_pool(model.roformer().forward(in), in.mask);
      });
  const at::Tensor all = vectors.index_select(0, at::tensor(rows, at::kLong)).unflatten(0, {-1, 3});
  const at::Tensor a = all.select(1, 0);
  return at::stack({at::cosine_similarity(a, all.select(1, 1), 1),
                    at::cosine_similarity(a, all.select(1, 2), 1)},
                   1);
}

}  // namespace

void for_each_batch(ExampleRows rows, std::shared_ptr<const Tokenizer> tokenizer,
                    const AnswerOptions& options, const std::function<void(const Batch&)>& visit) {
  const at::NoGradGuard no_grad;
  ExampleBatches batches(std::move(rows), std::move(tokenizer),
                         {.rows = options.rows,
                          .max_length = options.max_length,
                          .pair_types = options.pair_types,
                          .order = Order::kInOrder});
  for (Batch batch; batches.next(batch);) visit(batch);
}

at::Tensor answers_of(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                      std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options) {
  if (!has_classes(model.config())) {
    throw std::invalid_argument("[answers_of] the model must be a classifier, got " +
                                std::string(architecture_of(model.config())));
  }
  return ask_all(std::move(set), std::move(tokenizer), options, [&model](const Batch& batch) {
    return model.forward(question_of(batch, model)).logits;
  });
}

std::int64_t ClassScore::examples() const noexcept {
  std::int64_t sum = 0;
  for (const auto& row : table) {
    for (const std::int64_t count : row) sum += count;
  }
  return sum;
}

double ClassScore::accuracy() const noexcept {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < table.size(); ++i) right += table[i][i];
  return ratio_of(right, examples());
}

double ClassScore::precision(std::size_t label) const noexcept {
  std::int64_t said = 0;
  for (const auto& row : table) said += row[label];
  return ratio_of(table[label][label], said);
}

double ClassScore::recall(std::size_t label) const noexcept {
  std::int64_t are = 0;
  for (const std::int64_t count : table[label]) are += count;
  return ratio_of(table[label][label], are);
}

double ClassScore::f1(std::size_t label) const noexcept {
  return f1_of(precision(label), recall(label));
}

double ClassScore::macro_f1() const noexcept {
  double sum = 0.0;
  for (std::size_t i = 0; i < table.size(); ++i) sum += f1(i);
  return table.empty() ? 0.0 : sum / static_cast<double>(table.size());
}

double ClassScore::matthews() const { return roformer::matthews(table); }

ClassScore score_classes(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                         std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options) {
  require_labels(model.config(), *set, LabelKind::kClass, "score_classes");
  const at::Tensor targets = targets_of(*set);
  const auto classes = static_cast<std::int64_t>(set->labels.size());
  const at::Tensor logits = as_classes(answers_of(model, set, std::move(tokenizer), options));
  if (logits.size(1) < classes) {
    throw std::invalid_argument("[score_classes] the model has " + std::to_string(logits.size(1)) +
                                " classes, the examples have " + std::to_string(classes));
  }
  const auto count = static_cast<std::size_t>(logits.size(1));
  ClassScore score{.loss = at::cross_entropy_loss(logits.to(at::kDouble), targets).item<double>()};
  score.table.assign(count, std::vector<std::int64_t>(count));
  const at::Tensor said = logits.argmax(1);
  for (std::int64_t i = 0; i < said.size(0); ++i) {
    ++score.table[static_cast<std::size_t>(targets[i].item<std::int64_t>())]
                 [static_cast<std::size_t>(said[i].item<std::int64_t>())];
  }
  return score;
}

NumberScore score_numbers(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                          std::shared_ptr<const Tokenizer> tokenizer,
                          const AnswerOptions& options) {
  require_labels(model.config(), *set, LabelKind::kNumber, "score_numbers");
  const at::Tensor answers = answers_of(model, set, std::move(tokenizer), options).flatten();
  const auto* const values = answers.const_data_ptr<float>();
  const std::vector<double> predicted(values, values + answers.numel());
  std::vector<double> labels;
  NumberScore score{.examples = answers.numel()};
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    labels.push_back(set->examples[i].number);
    const double error = predicted[i] - labels[i];
    score.loss += error * error / static_cast<double>(predicted.size());
  }
  score.pearson = pearson(labels, predicted);
  score.spearman = spearman(labels, predicted);
  return score;
}

double TripleScore::accuracy() const noexcept { return ratio_of(right, triples); }

TripleScore score_triples(ModelImpl& model, std::span<const Triple> triples,
                          std::shared_ptr<const Tokenizer> tokenizer,
                          const AnswerOptions& options) {
  at::Tensor scores;
  if (model.config().task == Task::kPairMatching) {
    auto set = std::make_shared<const ExampleSet>(pairs_of(triples));
    const at::Tensor logits =
        as_classes(answers_of(model, std::move(set), std::move(tokenizer), options));
    // The last of several classes is "match".
    scores = at::log_softmax(logits.to(at::kDouble), 1).select(1, -1).unflatten(0, {-1, 2});
  } else {
    scores = cosines(model, triples, std::move(tokenizer), options);
  }
  const at::Tensor ahead = (scores.select(1, 0) - scores.select(1, 1)).to(at::kDouble);
  TripleScore score{.triples = static_cast<std::int64_t>(triples.size())};
  for (std::size_t i = 0; i < triples.size(); ++i) {
    const double lead = ahead[static_cast<std::int64_t>(i)].item<double>();
    if (triples[i].b_is_nearer ? lead > 0 : lead < 0) ++score.right;
  }
  return score;
}

}  // namespace rotary::roformer
