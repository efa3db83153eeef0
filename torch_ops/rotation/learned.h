// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin from frequencies that are tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "rotation/turn.h"

namespace rotary::torch {

/// [batch or 1, tokens, pairs], differentiable in frequencies, scale and positions.
std::tuple<at::Tensor, at::Tensor> learned_cos_sin(const at::Tensor& frequencies,
                                                   std::string_view text, c10::SymInt tokens,
                                                   const std::optional<at::Tensor>& scale,
                                                   const std::optional<at::Tensor>& positions,
                                                   const std::optional<at::Tensor>& cu_seqlens,
                                                   c10::SymInt first, at::ScalarType dtype);

/// Where tokens stand: [axes or 1, batch or 1, tokens], float64.
at::Tensor position_matrix(const Where& where, const c10::SymInt& tokens,
                           const at::TensorOptions& options);

}  // namespace rotary::torch
