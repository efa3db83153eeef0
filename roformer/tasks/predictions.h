// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Predictions for texts and pairs, labelled or not.
///
///   namespace rf = rotary::roformer;
///   rf::predict(*model, test, tokenizer, {});    // {"entailment", "not_entailment", ...}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "roformer/tasks/answers.h"

namespace rotary::roformer {

/// The predicted class of each example by its name (by its number, if the model has no names), or
/// the predicted number with three decimals. Throws std::invalid_argument as answers_of() does.
std::vector<std::string> predict(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                                 std::shared_ptr<const Tokenizer> tokenizer,
                                 const AnswerOptions& options);

/// A table with the columns index, from 0, and prediction: the files that GLUE's server takes.
std::string predictions_table(const std::vector<std::string>& predictions);

}  // namespace rotary::roformer
