// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer evaluate: metrics of a model on data.
#include "roformer/cli/evaluate.h"

#include <ATen/Functions.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "roformer/cli/commands.h"
#include "roformer/cli/evaluate_task.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/tasks/labels.h"

namespace rotary::roformer::cli {
namespace {

constexpr const char* kEvaluateFooter =
    R"(A masked or causal LM predicts the tokens of texts: loss (nats per token), perplexity and
accuracy, for each context length. Every length predicts the same tokens of the same texts, so that
only the context differs. Texts are documents separated by blank lines (--format lines: one per
line; jsonl: the field of --text), or a token cache. Several --rope compare ways to stretch the
model's context: one table of losses.

A model for classes or pairs reads a table with a header line (.tsv), or JSON lines (.jsonl):
accuracy, loss, F1, Matthews' correlation, and each class; a model for numbers: the mean squared
error, and Pearson's and Spearman's correlation. Files of GLUE (--format glue) are read as they are.
With --format triples, JSON lines of {"A", "B", "C"}: how often
the nearer document of two has the higher score; models that were not fine-tuned are scored by the
cosine similarity of the documents' vectors.

A model for tokens reads words with their classes (columns, or lines of {"tokens", "labels"}):
accuracy, and precision, recall and F1 of the entities that tags such as B-PER I-PER mark. A model
for answers reads lines of {"question", "context", "answer", "answer_start"}: exact match and F1; a
context longer than --max-length is read in windows.

Examples:
  roformer evaluate model/ held_out.txt --lengths 128,512,2048
  roformer evaluate model/ held_out.txt --train-length 512      from a quarter of it up to 8 times
  roformer evaluate model/ held_out.txt --lengths 512,2048 --rope model \
      --rope '{"rope_type": "yarn", "factor": 4}' --rope '{"rope_type": "dynamic", "factor": 1}'
  roformer evaluate tuned/ test.tsv --json
  roformer evaluate tuned/ GLUE/MRPC/dev.tsv --format glue
  roformer evaluate tuned/ scm.jsonl --format triples --max-length 1024)";

// ---- Labelled data ------------------------------------------------------------------------------

TaskEvaluation task_evaluation(const EvaluateOptions& options, const Config& config) {
  const std::size_t length = options.text.max_length == 0 ? 512 : options.text.max_length;
  TaskEvaluation task{.data = options.data.front(),
                      .examples = options.examples,
                      .reading = {.max_length = length,
                                  .pair_types = pair_types_of(options.examples),
                                  .rows = std::max<std::int64_t>(
                                      1, options.batch_tokens / static_cast<std::int64_t>(length)),
                                  .stride = options.stride},
                      .predictions = options.predictions,
                      .json = options.json};
  if (predicts_number(config)) task.examples.columns.label_kind = LabelKind::kNumber;
  if (options.examples.format == "glue" || !options.task.empty()) {
    task.examples.glue = glue_task_of(options.task, task.data);
  }
  return task;
}

void evaluate(const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  TextModel text = open_model_to_evaluate(options, 0);
  const Task task = text.model->config().task;
  const bool is_language = task == Task::kMaskedLm || task == Task::kCausalLm;
  if (options.ropes.size() > 1) {
    if (!is_language) {
      throw UsageError("several --rope are for language models, not for " +
                       std::string(architecture_of(text.model->config())));
    }
    return compare_ropes(options, std::move(text));
  }
  if (is_language && !are_triples(options.examples)) return evaluate_language(options, text);
  evaluate_task(task_evaluation(options, text.model->config()), text);
}

}  // namespace

TextModel open_model_to_evaluate(const EvaluateOptions& options, std::size_t i) {
  const at::Device device = device_of(options.compute);
  TextOptions own = options.text;
  if (i < options.ropes.size() && options.ropes[i] != "model") own.rope.rope = options.ropes[i];
  TextModel text = open_text_model(own);
  text.model->to(device);
  text.model->set_compute_type(type_of(options.compute));
  return text;
}

void add_evaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* verb = app.add_subcommand("evaluate", "Compute metrics of a model");
  verb->footer(kEvaluateFooter);
  add_text_options(*verb, options->text);
  verb->add_option("DATA", options->data, "Texts, a token cache, or labelled examples")
      ->required()
      ->type_name("");
  verb->add_option("--format", options->examples.format,
                   "text, lines, jsonl, tsv, conll, triples or glue; default: by the model and the "
                   "file's name")
      ->type_name("KIND")
      ->check(CLI::IsMember({"text", "lines", "jsonl", "tsv", "conll", "triples", "glue"}));
  verb->add_option("--task", options->task,
                   "The task of a file of GLUE: cola, mrpc, rte, sst-2 or sts-b; default with "
                   "--format glue: by its folder or its first line")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cola", "mrpc", "rte", "sst-2", "sts-b"}));
  add_example_options(*verb, options->examples);
  verb->add_option("--predictions", options->predictions,
                   "Write the predicted class or number of each text or pair to this table")
      ->type_name("FILE");
  verb->add_option("--stride", options->stride,
                   "Of questions: tokens between the windows that read a long context; default: "
                   "half a window")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24));
  add_language_options(*verb, *options);
  verb->add_option("--batch-tokens", options->batch_tokens, "Tokens per batch")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  add_compute_options(*verb, options->compute);
  verb->add_flag("--json", options->json, "Print one line of JSON");
  verb->callback([options] { evaluate(*options); });
}

}  // namespace rotary::roformer::cli
