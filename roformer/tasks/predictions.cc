// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/predictions.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "roformer/tasks/labels.h"

namespace rotary::roformer {
namespace {

std::string number_text(float value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(value));
  return text;
}

/// A single logit is that of the second of two classes.
std::size_t likeliest(const float* logits, std::int64_t classes) {
  if (classes == 1) return logits[0] > 0 ? 1 : 0;
  std::size_t best = 0;
  for (std::size_t i = 1; i < static_cast<std::size_t>(classes); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return best;
}

}  // namespace

std::vector<std::string> predict(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                                 std::shared_ptr<const Tokenizer> tokenizer,
                                 const AnswerOptions& options) {
  const at::Tensor answers =
      answers_of(model, std::move(set), std::move(tokenizer), options).contiguous();
  const bool is_number = predicts_number(model.config());
  const std::vector<std::string> names = label_names(model.config());
  const std::int64_t classes = answers.size(1);
  const auto* logits = answers.const_data_ptr<float>();
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < answers.size(0); ++i, logits += classes) {
    if (is_number) {
      out.push_back(number_text(*logits));
      continue;
    }
    const std::size_t label = likeliest(logits, classes);
    out.push_back(label < names.size() ? names[label] : std::to_string(label));
  }
  return out;
}

std::string predictions_table(const std::vector<std::string>& predictions) {
  std::string table = "index\tprediction\n";
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    table.append(std::to_string(i)).append("\t").append(predictions[i]).append("\n");
  }
  return table;
}

}  // namespace rotary::roformer
