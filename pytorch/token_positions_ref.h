// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// TokenPositions by reference.
#pragma once

#include <utility>

#include "rotary/torch_positions.h"

namespace rotary::torch {

/// TokenPositions whose tensors belong to the caller. An operator receives its arguments one by
/// one; this bundles them without touching reference counts, which would cost a small call time.
/// Valid as long as the arguments are.
struct TokenPositionsRef {
  TokenPositionsRef(const std::optional<at::Tensor>& position_ids,
                    const std::optional<at::Tensor>& boundaries, c10::SymInt first_position,
                    std::int64_t dimension)
      : positions(position_ids),
        cu_seqlens(boundaries),
        first(std::move(first_position)),
        token_dim(dimension) {}
  TokenPositionsRef(const TokenPositions& owned)  // NOLINT(google-explicit-constructor)
      : TokenPositionsRef(owned.positions, owned.cu_seqlens, owned.first, owned.token_dim) {}

  const std::optional<at::Tensor>& positions;
  const std::optional<at::Tensor>& cu_seqlens;
  c10::SymInt first;
  std::int64_t token_dim;
};

inline bool is_given(const std::optional<at::Tensor>& x) { return x.has_value() && x->defined(); }

}  // namespace rotary::torch
