// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Decoding step of linear attention, shared by the operators and LinearState.
#pragma once

#include <ATen/core/Tensor.h>

#include "rotary/transformer/linear_attention.h"

namespace rotary::transformer {

/// Recurrent state: LinearState without the token count. Both undefined before the first token.
struct RecurrentState {
  at::Tensor kv{};
  at::Tensor k{};
};

struct StepResult {
  at::Tensor out{};
  RecurrentState state{};  // with the new tokens
};

/// options.first is the number of tokens before these.
StepResult linear_attend_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const RecurrentState& state, const LinearAttendOptions& options);

/// Throws c10::ValueError where the state's shape is that of another attention.
void check_state(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const RecurrentState& state, const LinearAttendOptions& options);

}  // namespace rotary::transformer
