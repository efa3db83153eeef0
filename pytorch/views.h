// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's tensors as the library sees them: views, never copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "pytorch/rope_cache.h"
#include "pytorch/shared/call_positions.h"
#include "pytorch/token_positions_ref.h"
#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/table.h"
#include "rotary/tensor.h"

namespace rotary::torch {

/// The library's device of a tensor.
Device rotary_device(const at::Tensor& x);

/// -3: [.., tokens, heads, head_dim]; -2: [.., heads, tokens, head_dim]. Throws c10::ValueError for
/// another number or a tensor of less than three dimensions.
void check_rank(std::string_view function, const at::Tensor& x, std::int64_t token_dim);

/// As [batch, tokens, heads, head_dim], or without batch. At most four dimensions.
ConstTensorView heads_view(std::string_view function, const at::Tensor& x, std::int64_t token_dim);
TensorView writable_heads_view(std::string_view function, const at::Tensor& x,
                               std::int64_t token_dim);

/// Any tensor of up to four dimensions, as it is.
ConstTensorView plain_view(std::string_view function, const at::Tensor& x);

/// One column per pair, or two, as in Hugging Face transformers. Throws c10::ValueError for others.
TableWidth table_width(const SharedRope& rope, const at::Tensor& cos);

/// The most dimensions of a view: a tensor of more goes through flatten_batch() first.
inline constexpr std::int64_t kMaxDimensions = 4;

/// Leading dimensions as one. A copy, if `x` cannot be viewed so.
inline at::Tensor flatten_batch(const at::Tensor& x) {
  if (x.dim() <= kMaxDimensions) return x;
  return x.reshape({-1, x.size(-3), x.size(-2), x.size(-1)});
}
inline std::vector<at::Tensor> flatten_batches(at::TensorList tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& x : tensors) flat.push_back(flatten_batch(x));
  return flat;
}
/// Without copies, to be written to: an error, if a tensor cannot be viewed so.
inline std::vector<at::Tensor> view_batches(at::TensorList tensors) {
  std::vector<at::Tensor> views;
  for (const at::Tensor& x : tensors) {
    views.push_back(x.dim() <= kMaxDimensions ? x
                                              : x.view({-1, x.size(-3), x.size(-2), x.size(-1)}));
  }
  return views;
}
inline bool all_fit_a_view(at::TensorList tensors) {
  return std::ranges::all_of(tensors,
                             [](const at::Tensor& x) { return x.dim() <= kMaxDimensions; });
}

/// The positions of a call on tensors like `x`, a heads_view. They point into the tensors. Throws
/// c10::ValueError.
Positions make_positions(std::string_view function, const SharedRope& rope,
                         const TokenPositionsRef& token_positions, const ConstTensorView& x,
                         PositionKind kind = PositionKind::kAbsolute);

}  // namespace rotary::torch
