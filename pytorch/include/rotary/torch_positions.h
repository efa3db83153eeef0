// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Positions in terms of PyTorch's tensors.
///
///   rotary::torch::rotate({q, k}, text, {.positions = position_ids, .token_dim = -2});
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <optional>

namespace rotary::torch {

/// The position of every token of a call, and which dimension the tokens are.
struct TokenPositions {
  /// [tokens], [batch, tokens] or [axes, batch, tokens] of int32, int64, float32 or float64; a
  /// batch of 1 is broadcast. With cu_seqlens: the first position of each sequence.
  std::optional<at::Tensor> positions{};
  /// [sequences + 1], int32 or int64: sequences packed along the tokens, each from 0.
  std::optional<at::Tensor> cu_seqlens{};
  /// Without positions: the first of consecutive positions; the distance of a shift.
  c10::SymInt first = 0;
  /// -3: [.., tokens, heads, head_dim]; -2: [.., heads, tokens, head_dim].
  std::int64_t token_dim = -3;
};

}  // namespace rotary::torch
