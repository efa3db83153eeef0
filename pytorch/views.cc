// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/views.h"

#include <c10/util/Exception.h>

#include "pytorch/errors.h"

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
  put_tokens_before_heads(view, token_dim);
  return view;
}

std::optional<ConstTensorView> view_if_given(std::string_view function,
                                             const std::optional<at::Tensor>& x) {
  if (!is_given(x)) return std::nullopt;
  return plain_view(function, *x);
}

}  // namespace

Device rotary_device(const at::Tensor& x) {
  if (!x.is_cuda()) return {};
  return {.type = DeviceType::kCuda, .index = x.get_device()};
}

void check_rank(std::string_view function, const at::Tensor& x, std::int64_t token_dim) {
  translate_errors([&] { check_rank(function, x.dim(), token_dim); });
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
  const CallPositions given = {.positions = view_if_given(function, token_positions.positions),
                               .cu_seqlens = view_if_given(function, token_positions.cu_seqlens),
                               .first = token_positions.first.expect_int()};
  return translate_errors([&] { return make_positions(function, rope, given, x, kind); });
}

TableWidth table_width(const SharedRope& rope, const at::Tensor& cos) {
  const std::int64_t pairs = rope.frequencies().pairs;
  const std::int64_t columns = cos.size(-1);
  TORCH_CHECK_VALUE(columns == pairs || columns == 2 * pairs,
                    "[rotate_table] cos and sin must have ", pairs, " or ", 2 * pairs,
                    " columns, got ", columns);
  return columns == pairs ? TableWidth::kPairs : TableWidth::kTwicePairs;
}

}  // namespace rotary::torch
