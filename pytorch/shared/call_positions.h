// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Where the tokens of a call are, as the library takes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "pytorch/shared/rope_set.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"

namespace rotary::torch {

/// What positions are: of tokens, or distances of a shift, where a single one is broadcast over
/// tokens.
enum class PositionKind { kAbsolute, kDistance };

/// The arguments of an operator: see rotary/torch_positions.h.
struct CallPositions {
  std::optional<ConstTensorView> positions{};
  std::optional<ConstTensorView> cu_seqlens{};
  std::int64_t first = 0;
};

/// The positions of a call on tensors like `x`, [.., tokens, heads, head_dim]. They point into the
/// tensors. Throws std::invalid_argument.
Positions make_positions(std::string_view function, const RopeSet& ropes,
                         const CallPositions& given, const ConstTensorView& x, PositionKind kind);

/// -3: [.., tokens, heads, head_dim]; -2: [.., heads, tokens, head_dim]. Throws
/// std::invalid_argument for another number, or for less than three dimensions.
void check_rank(std::string_view function, std::int64_t dimensions, std::int64_t token_dim);

/// A view with token_dim -2 as one with -3.
template <typename Void>
void put_tokens_before_heads(BasicTensorView<Void>& view, std::int64_t token_dim) {
  if (token_dim != -2) return;
  const auto at = static_cast<std::size_t>(view.rank - 3);
  std::swap(view.shape[at], view.shape[at + 1]);
  std::swap(view.strides[at], view.strides[at + 1]);
}

}  // namespace rotary::torch
