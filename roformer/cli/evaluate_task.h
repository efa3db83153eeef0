// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer evaluate for fine-tuned models: metrics on labelled data.
#pragma once

#include <string>

#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/tasks/answers.h"

namespace rotary::roformer::cli {

struct TaskEvaluation {
  std::string data;
  ExampleOptions examples;
  AnswerOptions reading;
  /// A file for the predictions of texts or pairs; may be empty.
  std::string predictions;
  bool json = false;
};

/// Prints the metrics of the model for its task, or for triples. Throws UsageError for a model
/// without a head.
void evaluate_task(const TaskEvaluation& evaluation, const TextModel& text);

}  // namespace rotary::roformer::cli
