// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of the model and of its tasks.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdint>

#include "roformer/model/model.h"

namespace rotary::roformer {

/// A small model with weights large enough to matter.
inline Config small(Task task, std::int64_t vocab_size = 50) {
  Config config;
  config.task = task;
  config.vocab_size = vocab_size;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 48;
  config.initializer_range = 0.2;
  config.max_position_embeddings = 64;
  return config;
}

/// The same weights each time, in inference mode.
inline Model make(const Config& config) {
  at::manual_seed(7);
  Model model = make_model(config);
  model->eval();
  return model;
}

/// Random tokens of small(), the same each time.
inline at::Tensor ids_of(std::int64_t rows, std::int64_t tokens) {
  at::manual_seed(11);
  return at::randint(1, 50, {rows, tokens}, at::kLong);
}

/// The largest absolute difference.
inline double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<double>();
}

}  // namespace rotary::roformer
