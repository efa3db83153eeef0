// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's tensors as the library sees them: views, never copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotation/rope_cache.h"

namespace rotary::torch {

/// -3: [.., tokens, heads, head_dim]; -2: [.., heads, tokens, head_dim]. Throws c10::ValueError for
/// another number or a tensor of less than three dimensions.
void check_rank(std::string_view function, const at::Tensor& x, std::int64_t token_dim);

/// As [batch, tokens, heads, head_dim], or without batch. At most four dimensions.
ConstTensorView heads_view(std::string_view function, const at::Tensor& x, std::int64_t token_dim);
TensorView writable_heads_view(std::string_view function, const at::Tensor& x,
                               std::int64_t token_dim);

/// Any tensor of up to four dimensions, as it is.
ConstTensorView plain_view(std::string_view function, const at::Tensor& x);

/// The positions of a call on tensors like `x`, a heads_view. They point into the tensors.
struct PositionArguments {
  const std::optional<at::Tensor>& positions;
  const std::optional<at::Tensor>& cu_seqlens;
  std::int64_t first = 0;
  bool distances = false;  // Rope::shift: one may stand for all tokens
};
Positions make_positions(std::string_view function, const SharedRope& rope,
                         const PositionArguments& arguments, const ConstTensorView& x);

}  // namespace rotary::torch
