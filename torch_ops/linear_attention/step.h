// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear attention of tokens that follow others, as operators and LinearState share it.
#pragma once

#include <ATen/core/Tensor.h>

#include "rotary/torch_linear_attention.h"

namespace rotary::torch {

/// LinearState without the number of tokens; both undefined before the first.
struct Sums {
  at::Tensor kv{};
  at::Tensor k{};
};

struct Stepped {
  at::Tensor out{};
  Sums sums{};  // with the new tokens
};

/// options.first says how many tokens came before.
Stepped linear_attend_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Sums& sums, const LinearAttendOptions& options);

/// Throws c10::ValueError where sums are those of another attention.
void check_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Sums& sums,
                const LinearAttendOptions& options);

}  // namespace rotary::torch
