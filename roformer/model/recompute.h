// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Activation checkpointing: recomputation instead of saved activations.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace rotary::roformer {

/// A function of tensors. The results must be new tensors.
using Computation = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// compute(inputs), of which autograd saves only the inputs: the backward pass computes it again,
/// with the same random numbers. `parameters` are those that `compute` uses beside its inputs;
/// gradients go to both. There is no second derivative.
std::vector<at::Tensor> recomputed(const Computation& compute,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace rotary::roformer
