// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/tasks_settings.h"

#include <cmath>

#include "roformer/lab/generated_tasks.h"
#include "roformer/lab/training.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Weights begin larger than BERT's 0.02, with which such narrow models learn nothing for long.
Json task_decoder(std::int64_t layers, std::int64_t width, std::int64_t heads,
                  std::int64_t positions) {
  return {{"num_hidden_layers", layers},
          {"hidden_size", width},
          {"num_attention_heads", heads},
          {"intermediate_size", 4 * width},
          {"max_position_embeddings", positions},
          {"initializer_range", 1.0 / std::sqrt(static_cast<double>(width))}};
}

Json roper_encoding(std::int64_t seeds) {
  Json json = encoding_entry("roper", "rope", seeds);
  json["rotary_output"] = true;
  return json;
}

/// A task of RoPER: one of the encodings rope and roper each.
Json roper_task(std::string_view name, std::int64_t seeds, std::int64_t rows, std::int64_t length,
                const Json& training, Json model) {
  Json json = {{"name", name}, {"seeds", seeds}, {"rows", rows}, {"length", length}};
  json["training"] = training;
  json["model"] = std::move(model);
  return json;
}

/// The index of longer strings. The authors' example has 13 letters, the lengths of their strings
/// are not published; of 2 to 16 letters there are 135 pairs of length and index, which every
/// encoding learns. Of 16 to 64 letters there are 1,960, the index often has two digits, and a row
/// of 641 characters still holds eight problems.
Json long_index(std::int64_t seeds, const Json& training, Json model) {
  Json json = roper_task("index_long", seeds, 32, 641, training, std::move(model));
  json["task"] = "index";
  json["letters"] = std::vector{16, 64};
  return json;
}

Json all_task_names() {
  Json names = Json::array();
  for (const TaskKind task : task_kinds()) names.push_back(name_of(task));
  return names;
}

Json quick_defaults() {
  Json json = {{"tasks", Json::Array{"copy", "sorting"}},
               {"rows_of_task", 16},
               {"train_length", 8},
               {"test_lengths", Json::Array{4, 8, 9, 10, 12, 16}},
               {"test_problems", 64},
               {"training", training_defaults(300, 3e-3)},
               {"model", task_decoder(2, 64, 4, 256)}};
  json["encodings"] = Json::Array{encoding_entry("rope", "rope", 1),
                                  encoding_entry("none", "none", 1), encoding_entry("t5", "t5", 1),
                                  encoding_entry("alibi", "alibi", 1), roper_encoding(1)};
  json["roper_problems"] = 32;
  json["roper"] = Json::Array{
      roper_task("index", 1, 8, 160, training_defaults(150, 2e-3), task_decoder(2, 64, 4, 256))};
  return json;
}

}  // namespace

Json tasks_defaults(bool quick) {
  if (quick) return quick_defaults();
  Json json = {{"tasks", all_task_names()},
               {"rows_of_task", 32},
               {"train_length", 20},
               {"test_lengths", Json::Array{10, 20, 22, 25, 30, 35, 40}},
               {"test_problems", 256},
               {"training", training_defaults(3000, 1e-3)},
               {"model", task_decoder(4, 256, 8, 256)}};
  // One table for all: a learned one has rows that training never sees.
  json["encodings"] = Json::Array{
      encoding_entry("rope", "rope", 3),
      encoding_entry("none", "none", 3),
      encoding_entry("t5", "t5", 3),
      encoding_entry("alibi", "alibi", 3),
      encoding_entry("sinusoidal", "sinusoidal", 1),
      encoding_entry("learned", "learned", 1),
      encoding_entry("xpos", "xpos", 1),
      encoding_entry("kerple_log", "kerple_log", 1),
      roper_encoding(1),
  };
  json["roper_problems"] = 128;
  json["roper"] = Json::Array{
      roper_task("addition", 1, 32, 641, training_defaults(5000, 5e-4),
                 task_decoder(6, 512, 8, 1024)),
      roper_task("index", 2, 32, 641, training_defaults(5000, 5e-4), task_decoder(6, 512, 8, 1024)),
      roper_task("prefix", 1, 16, 513, training_defaults(65000, 1e-3),
                 task_decoder(3, 128, 4, 1024)),
      long_index(2, training_defaults(5000, 5e-4), task_decoder(6, 512, 8, 1024))};
  return json;
}

}  // namespace rotary::roformer::lab
