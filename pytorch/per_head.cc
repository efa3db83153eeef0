// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head: the formula by PyTorch's operators, and the choice between it and the
// kernels.

#include "pytorch/per_head.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "pytorch/autograd_node.h"
#include "pytorch/learned.h"
#include "pytorch/pairs.h"
#include "pytorch/views.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// [.., tokens, heads, columns] of either layout, and back.
at::Tensor swap_heads(const at::Tensor& x, std::int64_t token_dim) {
  return token_dim == -3 ? x : x.transpose(-3, -2);
}

/// sum_a positions_a matrix[.., a]: [batch or 1, tokens, heads, pairs] of [heads, pairs, axes].
at::Tensor sum_over_head_axes(const at::Tensor& positions, const at::Tensor& matrix) {
  at::Tensor sum;
  const std::int64_t axes = matrix.sym_size(2).guard_int(__FILE__, __LINE__);
  const bool one_axis = positions.sym_size(0) == 1;
  for (std::int64_t a = 0; a < axes; ++a) {
    const at::Tensor axis = positions.select(0, one_axis ? 0 : a);
    const at::Tensor term = axis.unsqueeze(-1).unsqueeze(-1) * matrix.select(2, a);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

/// cos and sin of the factor of `op`, [batch or 1, tokens, frequency heads, pairs], float64.
std::pair<at::Tensor, at::Tensor> per_head_cos_sin(const PerHeadArgs& args,
                                                   const SharedRope& rope) {
  const at::Tensor phase = sum_over_head_axes(args.positions, args.frequencies);
  at::Tensor cos = phase.cos();
  at::Tensor sin = phase_sign(args.op) * phase.sin();
  at::Tensor size = is_given(args.scale) ? args.scale->reshape({1})
                                         : at::full({1}, rope.frequencies().scale, phase.options());
  if (rope.grows()) {
    const at::Tensor growth = call_growth_like(phase, args.rope).unsqueeze(0);
    size =
        size * sum_over_head_axes(args.positions - rope.frequencies().growth_origin, growth).exp();
  }
  if (divides_by_scale(args.op)) size = size.reciprocal();
  return {cos * size, sin * size};
}

at::Tensor join_pairs(const at::Tensor& x, const at::Tensor& y, Pairing pairing) {
  if (pairing == Pairing::kHalf) return at::cat({x, y}, -1);
  return at::stack({x, y}, -1).flatten(-2);
}

/// Heads in a row that share frequencies: [.., frequency heads, pairs] for all heads of a tensor.
at::Tensor for_all_heads(const at::Tensor& x, const c10::SymInt& heads) {
  const c10::SymInt group = heads / x.sym_size(-2);
  if (group == 1) return x;
  return x.unsqueeze(-2)
      .expand_symint({x.sym_size(0), x.sym_size(1), x.sym_size(2), group, x.sym_size(3)})
      .flatten(2, 3);
}

void check_per_head(const SharedRope& rope, at::TensorList tensors, const at::Tensor& frequencies,
                    const at::Tensor& positions, std::int64_t token_dim) {
  const Frequencies& f = rope.frequencies();
  TORCH_CHECK_VALUE(frequencies.dim() == 3 && frequencies.sym_size(0) > 0 &&
                        frequencies.sym_size(1) == f.pairs && frequencies.sym_size(2) == f.axes,
                    "[rotate_learned] frequencies per head must be [heads, ", f.pairs, " pairs, ",
                    f.axes, " axes], got ", frequencies.sym_sizes());
  const bool axes_fit =
      positions.sym_size(0) == f.axes ||
      (positions.sym_size(0) == 1 && rope.one_axis() == OneAxisPositions::kOnAllAxes);
  TORCH_CHECK_VALUE(axes_fit, "[rotate_learned] positions must have ", f.axes, " axes, got ",
                    positions.sym_size(0));
  for (const at::Tensor& x : tensors) {
    check_rank("rotate_learned", x, token_dim);
    TORCH_CHECK_VALUE(x.sym_size(-1) == rope.layout().head_dim,
                      "[rotate_learned] the last size must be head_dim ", rope.layout().head_dim,
                      ", got ", x.sym_size(-1));
    const c10::SymInt heads = x.sym_size(token_dim == -3 ? -2 : -3);
    TORCH_CHECK_VALUE(heads % frequencies.sym_size(0) == 0,
                      "[rotate_learned] heads must be a multiple of the ", frequencies.sym_size(0),
                      " heads of the frequencies, got ", heads);
    c10::SymInt batch = 1;
    for (std::int64_t i = 0; i < x.dim() - 3; ++i) batch = batch * x.sym_size(i);
    TORCH_CHECK_VALUE(x.sym_size(token_dim) == positions.sym_size(2) &&
                          (positions.sym_size(1) == 1 || positions.sym_size(1) == batch),
                      "[rotate_learned] positions must be of ", x.sym_size(token_dim),
                      " tokens in 1 or ", batch, " batch rows, got ", positions.sym_sizes());
  }
}

/// Whether the kernels can do it: no growth, and no derivatives of positions or in forward mode.
bool has_per_head_kernel(at::TensorList tensors, const SharedRope& rope,
                         const at::Tensor& frequencies, const OptionalTensor& scale,
                         const at::Tensor& positions) {
  const Frequencies& f = rope.frequencies();
  if (rope.grows() || f.axes > kMaxPerHeadAxes || f.pairs > kMaxPerHeadPairs) return false;
  if (is_given(scale) && scale->sym_numel() != 1) return false;
  if (positions.requires_grad() || has_tangent(positions) || has_tangent(frequencies) ||
      has_tangent(scale) || any_has_tangent(tensors)) {
    return false;
  }
  return !tensors[0].is_cuda() || has_per_head_kernels();
}

}  // namespace

at::Tensor in_random_directions(const at::Tensor& frequencies, std::int64_t heads) {
  const std::int64_t axes = frequencies.size(1);
  if (axes == 1) return frequencies.unsqueeze(0).repeat({heads, 1, 1});
  if (axes > 2) {
    const at::Tensor random = at::randn({heads, axes, axes}, frequencies.options());
    return at::matmul(frequencies, std::get<0>(at::linalg_qr(random)).transpose(1, 2));
  }
  constexpr double kTurn = 6.283185307179586;
  const at::Tensor angle = at::rand({heads, 1}, frequencies.options()) * kTurn;
  const at::Tensor x = frequencies.select(1, 0);
  const at::Tensor y = frequencies.select(1, 1);
  return at::stack({angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y}, -1);
}

std::vector<at::Tensor> plain_rotate_per_head(at::TensorList tensors, const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  const auto [cos, sin] = per_head_cos_sin(args, *rope);
  const std::int64_t begin = rope->layout().rotary_offset;
  const std::int64_t end = begin + 2 * rope->frequencies().pairs;
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor given = swap_heads(tensor, args.token_dim);
    const at::Tensor wide = widened(given).reshape_symint(
        {-1, given.sym_size(-3), given.sym_size(-2), given.sym_size(-1)});
    const at::Tensor c = for_all_heads(cos, wide.sym_size(2)).to(wide.scalar_type());
    const at::Tensor s = for_all_heads(sin, wide.sym_size(2)).to(wide.scalar_type());
    const auto [x, y] = split_pairs(wide, input_pairing(args.op, rope->layout()), *rope);
    const at::Tensor rotated =
        join_pairs(x * c - y * s, x * s + y * c, output_pairing(args.op, rope->layout()));
    const at::Tensor all = at::cat(
        {wide.narrow(-1, 0, begin), rotated, wide.narrow_symint(-1, end, wide.sym_size(-1) - end)},
        -1);
    results.push_back(
        swap_heads(all.reshape_symint(given.sym_sizes()).to(tensor.scalar_type()), args.token_dim));
  }
  return results;
}

std::tuple<at::Tensor, at::Tensor> plain_per_head_gradient(at::TensorList tensors,
                                                           at::TensorList input_grads,
                                                           const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  const Pairing pairing = input_pairing(args.op, rope->layout());
  at::Tensor angle;   // [batch, tokens, frequency heads, pairs]
  at::Tensor length;  // a sum
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto pairs_of = [&](const at::Tensor& tensor) {
      const at::Tensor wide = swap_heads(widened(tensor), args.token_dim);
      return split_pairs(wide, pairing, *rope);
    };
    const auto [x, y] = pairs_of(tensors[i]);
    const auto [gx, gy] = pairs_of(input_grads[i]);
    const at::Tensor turned = (gy * x - gx * y).to(at::kDouble);
    const at::Tensor one =
        turned
            .reshape_symint({-1, turned.sym_size(-3), args.frequencies.sym_size(0),
                             turned.sym_size(-2) / args.frequencies.sym_size(0),
                             turned.sym_size(-1)})
            .sum(3);
    angle = angle.defined() ? angle + one : one;
    const at::Tensor grown = (gx * x + gy * y).to(at::kDouble).sum();
    length = length.defined() ? length + grown : grown;
  }
  std::vector<at::Tensor> axes;
  for (std::int64_t a = 0; a < rope->frequencies().axes; ++a) {
    const at::Tensor axis = args.positions.select(0, args.positions.sym_size(0) == 1 ? 0 : a);
    axes.push_back((axis.unsqueeze(-1).unsqueeze(-1) * angle).sum(at::IntArrayRef({0, 1})));
  }
  return {at::stack(axes, -1) * phase_sign(args.op),
          length.reshape({1}) * (divides_by_scale(args.op) ? -1.0 : 1.0)};
}

std::vector<at::Tensor> rotate_heads(RotationOp op, at::TensorList tensors, std::string_view text,
                                     const at::Tensor& frequencies, const OptionalTensor& scale,
                                     const TokenPositionsRef& token_positions) {
  const auto rope = find_rope(text);
  const std::int64_t token_dim = token_positions.token_dim;
  const at::Tensor positions =
      position_matrix(token_positions, tensors[0].sym_size(token_dim), frequencies.options());
  check_per_head(*rope, tensors, frequencies, positions, token_dim);
  const PerHeadArgs args{
      .positions = positions,
      .frequencies = frequencies.to(at::kDouble),
      .scale = is_given(scale) ? OptionalTensor(scale->to(at::kDouble)) : std::nullopt,
      .rope = text,
      .token_dim = token_dim,
      .op = op};
  if (!has_per_head_kernel(tensors, *rope, frequencies, scale, positions)) {
    return plain_rotate_per_head(tensors, args);
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& x : tensors) {
    flat.push_back(x.dim() <= kMaxDimensions
                       ? x
                       : x.reshape_symint({-1, x.sym_size(-3), x.sym_size(-2), x.sym_size(-1)}));
  }
  std::vector<at::Tensor> results = call_rotate_per_head(flat, args);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (tensors[i].dim() > kMaxDimensions) {
      results[i] = results[i].reshape_symint(tensors[i].sym_sizes());
    }
  }
  return results;
}

}  // namespace rotary::torch
