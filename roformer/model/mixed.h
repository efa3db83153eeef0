// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Mixed precision: what a layer needs beside the operators of rotary/torch_layers.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace rotary::roformer {

/// Each group of tensors as one, end to end along the first dimension, in another type: all are
/// copied at once. Gradients come back in the type of the tensors.
std::vector<at::Tensor> joined_as(at::ScalarType type,
                                  const std::vector<std::vector<at::Tensor>>& groups);

}  // namespace rotary::roformer
