// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradient checkpointing: memory for time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace rotary::roformer {

/// Tensors out of tensors; the results are different ones.
using Computation = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// compute(inputs), of which autograd keeps the inputs alone: the way back computes it again, with
/// the random numbers of the first time. `parameters` are what `compute` uses beside its inputs;
/// gradients go to both. Derivatives of the first order only.
std::vector<at::Tensor> recomputed(const Computation& compute,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace rotary::roformer
