// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of frequencies that are tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "pytorch/token_positions_ref.h"

namespace rotary::torch {

/// cos and sin, [batch or 1, tokens, pairs], differentiable in frequencies, scale and positions.
/// token_positions.token_dim is not used.
std::tuple<at::Tensor, at::Tensor> learned_cos_sin(const at::Tensor& frequencies,
                                                   std::string_view text, const c10::SymInt& tokens,
                                                   const std::optional<at::Tensor>& scale,
                                                   const TokenPositionsRef& token_positions,
                                                   at::ScalarType dtype);

/// The position of every token: [axes or 1, batch or 1, tokens], float64.
at::Tensor position_matrix(const TokenPositionsRef& token_positions, const c10::SymInt& tokens,
                           const at::TensorOptions& options);

}  // namespace rotary::torch
