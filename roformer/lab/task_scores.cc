// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/task_scores.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "roformer/train/trainer.h"

namespace rotary::roformer::lab {
namespace {

at::Device device_of(const ModelImpl& model) { return model.roformer().word_embeddings().device(); }

/// [prompts, max_tokens]: ids, and -1 where a prompt has ended.
at::Tensor forced_ids(const Alphabet& alphabet, const std::vector<std::string>& prompts,
                      std::int64_t max_tokens) {
  const at::Tensor forced =
      at::full({static_cast<std::int64_t>(prompts.size()), max_tokens}, -1, at::kLong);
  auto* row = forced.mutable_data_ptr<std::int64_t>();
  for (const std::string& prompt : prompts) {
    std::ranges::copy(alphabet.ids(prompt), row);
    row += max_tokens;
  }
  return forced;
}

}  // namespace

TaskScore score_task(ModelImpl& model, TaskKind task, std::int64_t length, std::int64_t problems,
                     std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  Random random(seed, static_cast<std::uint64_t>(length));
  const Batch batch =
      task_batch(task, {.rows = problems, .min_length = length, .max_length = length}, random);
  const Inputs inputs = to_inputs(batch, Task::kCausalLm, device_of(model));
  // One prediction for each label, in the order of the rows.
  const at::Tensor predicted = model.forward(inputs).logits.argmax(-1).cpu().contiguous();
  const auto* next = predicted.const_data_ptr<std::int64_t>();
  std::vector<bool> is_right(static_cast<std::size_t>(problems), true);
  std::int64_t right = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == kIgnoreIndex) continue;
    if (*next++ == batch.labels[i]) {
      ++right;
    } else {
      is_right[i / static_cast<std::size_t>(batch.length)] = false;
    }
  }
  return {.exact = static_cast<double>(std::ranges::count(is_right, true)) /
                   static_cast<double>(problems),
          .tokens = static_cast<double>(right) / static_cast<double>(predicted.numel())};
}

std::vector<std::string> continue_greedily(ModelImpl& model, const Alphabet& alphabet,
                                           const std::vector<std::string>& prompts,
                                           std::int64_t max_tokens) {
  const at::NoGradGuard no_grad;
  const at::Tensor forced = forced_ids(alphabet, prompts, max_tokens).to(device_of(model));
  // All rows advance together: a row's next token is that of its prompt, after it the model's.
  Cache cache;
  std::vector<at::Tensor> tokens = {forced.select(1, 0)};
  for (std::int64_t i = 1; i < max_tokens; ++i) {
    const Inputs inputs{.ids = tokens.back().unsqueeze(1), .cache = &cache};
    const at::Tensor predicted = model.forward(inputs).logits.select(1, 0).argmax(-1);
    const at::Tensor given = forced.select(1, i);
    tokens.push_back(at::where(given.ge(0), given, predicted));
  }
  const at::Tensor all = at::stack(tokens, 1).cpu().contiguous();
  const auto* id = all.const_data_ptr<std::int64_t>();
  std::vector<std::string> texts;
  for (const std::string& prompt : prompts) {
    std::string text;
    for (std::int64_t i = 0; i < max_tokens; ++i) text += alphabet.character(id[i]);
    text.erase(0, prompt.size());
    texts.push_back(text.substr(0, text.find('#')));
    id += max_tokens;
  }
  return texts;
}

std::int64_t count_solved(ModelImpl& model, RoperTask task, std::int64_t problems,
                          std::uint64_t seed, const RoperStrings& strings) {
  Random random(seed, 0);
  std::vector<std::string> questions;
  std::vector<std::string> results;
  std::size_t longest = 0;
  for (std::int64_t i = 0; i < problems; ++i) {
    const TextProblem problem = make_roper_problem(task, random, strings);
    questions.push_back(problem.question);
    results.emplace_back(result_of(problem.solution));
    longest = std::max(longest, problem.question.size() + problem.solution.size());
  }
  const std::vector<std::string> continued =
      continue_greedily(model, alphabet_of(task), questions, static_cast<std::int64_t>(longest));
  std::int64_t solved = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (result_of(continued[i]) == results[i]) ++solved;
  }
  return solved;
}

double batch_loss(ModelImpl& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  const Inputs inputs = to_inputs(batch, Task::kCausalLm, device_of(model));
  return model.forward(inputs).loss.item<double>();
}

}  // namespace rotary::roformer::lab
