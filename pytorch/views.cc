// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/views.h"

#include <c10/util/Exception.h>

namespace rotary::torch {
namespace {

DType dtype_of(std::string_view function, const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    default:
      break;
  }
  C10_THROW_ERROR(ValueError,
                  c10::str("[", function, "] tensors of ", x.scalar_type(), " are not supported"));
}

Device rotary_device(const at::Tensor& x) {
  if (!x.is_cuda()) return {};
  return {.type = DeviceType::kCuda, .index = x.get_device()};
}

template <typename Void>
BasicTensorView<Void> view_of(std::string_view function, const at::Tensor& x, Void* data) {
  TORCH_CHECK_VALUE(x.dim() <= kMaxRank, "[", function, "] at most ", kMaxRank, " dimensions, got ",
                    x.dim());
  BasicTensorView<Void> view{.data = data,
                             .dtype = dtype_of(function, x),
                             .rank = static_cast<int>(x.dim()),
                             .device = rotary_device(x)};
  const at::IntArrayRef sizes = x.sizes();
  const at::IntArrayRef strides = x.strides();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    view.shape[i] = sizes[i];
    view.strides[i] = strides[i];
  }
  return view;
}

template <typename Void>
BasicTensorView<Void> heads_of(std::string_view function, const at::Tensor& x,
                               std::int64_t token_dim, Void* data) {
  check_rank(function, x, token_dim);
  BasicTensorView<Void> view = view_of(function, x, data);
  if (token_dim == -2) {
    const auto at = static_cast<std::size_t>(view.rank - 3);
    std::swap(view.shape[at], view.shape[at + 1]);
    std::swap(view.strides[at], view.strides[at + 1]);
  }
  return view;
}

/// Drops a leading dimension of size 1.
ConstTensorView without(const ConstTensorView& view, std::size_t dimension) {
  ConstTensorView less = view;
  less.rank = view.rank - 1;
  for (std::size_t i = dimension; i < static_cast<std::size_t>(less.rank); ++i) {
    less.shape[i] = view.shape[i + 1];
    less.strides[i] = view.strides[i + 1];
  }
  return less;
}

/// [batch, tokens] as [1, batch, tokens].
ConstTensorView with_axis(const ConstTensorView& view) {
  ConstTensorView more = view;
  more.rank = 3;
  more.shape = {1, view.shape[0], view.shape[1], 0};
  more.strides = {0, view.strides[0], view.strides[1], 0};
  return more;
}

/// A single position is broadcast over tokens.
void broadcast_over_tokens(ConstTensorView& view, std::int64_t tokens) {
  const auto last = static_cast<std::size_t>(view.rank - 1);
  if (view.shape[last] != 1) return;
  view.shape[last] = tokens;
  view.strides[last] = 0;
}

Positions ids(std::string_view function, const at::Tensor& positions, PositionKind kind,
              const ConstTensorView& x) {
  TORCH_CHECK_VALUE(positions.dim() >= 1 && positions.dim() <= 3, "[", function,
                    "] positions must be [tokens], [batch, tokens] or [axes, batch, tokens], got ",
                    positions.dim(), " dimensions");
  TORCH_CHECK_VALUE(
      positions.scalar_type() != at::kHalf && positions.scalar_type() != at::kBFloat16, "[",
      function, "] positions must be int32, int64, float32 or float64, got ",
      positions.scalar_type(), ", which does not hold every whole number");
  ConstTensorView view = plain_view(function, positions);
  if (kind == PositionKind::kDistance) {
    broadcast_over_tokens(view, x.shape[static_cast<std::size_t>(x.rank - 3)]);
  }
  if (view.rank == 1) return Positions::ids(view);
  if (view.rank == 2) view = with_axis(view);
  const std::int64_t batch = x.rank == 4 ? x.shape[0] : 1;
  if (view.shape[1] == 1 && batch != 1) view = without(view, 1);
  return Positions::ids(view);
}

Positions packed(std::string_view function, const TokenPositionsRef& token_positions,
                 PositionKind kind) {
  const at::Tensor& boundaries = *token_positions.cu_seqlens;
  TORCH_CHECK_VALUE(boundaries.dim() == 1, "[", function,
                    "] cu_seqlens must be [sequences + 1], got ", boundaries.dim(), " dimensions");
  const bool given = is_given(token_positions.positions);
  const ConstTensorView first =
      given ? plain_view(function, *token_positions.positions) : ConstTensorView{};
  const ConstTensorView view = plain_view(function, boundaries);
  if (kind == PositionKind::kAbsolute) return Positions::packed(view, first);
  TORCH_CHECK_VALUE(given, "[", function, "] packed sequences need a distance for each");
  return Positions::packed_at(view, first);
}

/// As given, before an axis is broadcast to several.
Positions positions_as_given(std::string_view function, const TokenPositionsRef& token_positions,
                             const ConstTensorView& x, PositionKind kind) {
  const bool is_packed = is_given(token_positions.cu_seqlens);
  const bool given = is_given(token_positions.positions);
  const std::int64_t first = token_positions.first.expect_int();
  TORCH_CHECK_VALUE(first == 0 || (!is_packed && !given), "[", function,
                    "] first is for calls without positions, got ", first);
  if (is_packed) return packed(function, token_positions, kind);
  if (given) return ids(function, *token_positions.positions, kind, x);
  return kind == PositionKind::kDistance ? Positions::at(first) : Positions::range(first);
}

}  // namespace

void check_rank(std::string_view function, const at::Tensor& x, std::int64_t token_dim) {
  TORCH_CHECK_VALUE(token_dim == -3 || token_dim == -2, "[", function,
                    "] token_dim must be -3 (tokens, heads, head_dim) or -2 (heads, tokens, "
                    "head_dim), got ",
                    token_dim);
  TORCH_CHECK_VALUE(x.dim() >= 3, "[", function,
                    "] a tensor must have tokens, heads and head_dim, got ", x.dim(),
                    " dimensions");
}

ConstTensorView heads_view(std::string_view function, const at::Tensor& x, std::int64_t token_dim) {
  return heads_of<const void>(function, x, token_dim, x.const_data_ptr());
}

TensorView writable_heads_view(std::string_view function, const at::Tensor& x,
                               std::int64_t token_dim) {
  return heads_of<void>(function, x, token_dim, x.mutable_data_ptr());
}

ConstTensorView plain_view(std::string_view function, const at::Tensor& x) {
  return view_of<const void>(function, x, x.const_data_ptr());
}

Positions make_positions(std::string_view function, const SharedRope& rope,
                         const TokenPositionsRef& token_positions, const ConstTensorView& x,
                         PositionKind kind) {
  const Positions positions = positions_as_given(function, token_positions, x, kind);
  const bool broadcast_axis = rope.one_axis() == OneAxisPositions::kOnAllAxes &&
                              rope.frequencies().axes > 1 && positions.axes() == 1;
  return broadcast_axis ? positions.on_all_axes() : positions;
}

}  // namespace rotary::torch
