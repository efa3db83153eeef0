// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/pairs.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

namespace rotary::torch {
namespace {

bool is_forward(RotationOp op) {
  return op == RotationOp::kRotate || op == RotationOp::kUnrotateAdjoint;
}

/// +1 where the angle grows with the position.
double angle_sign(RotationOp op) { return is_forward(op) || op == RotationOp::kShift ? 1.0 : -1.0; }

/// +1 where the length grows with that of z.
double growth_sign(RotationOp op) {
  return op == RotationOp::kUnrotate || op == RotationOp::kUnrotateAdjoint ? -1.0 : 1.0;
}

/// [.., tokens, columns] as [batch, tokens, columns].
at::Tensor one_batch(const at::Tensor& x) {
  return x.reshape_symint({-1, x.sym_size(-2), x.sym_size(-1)});
}

at::Tensor plus(const at::Tensor& sum, const at::Tensor& term) {
  return sum.defined() ? sum + term : term;
}

/// [batch, tokens, pairs] summed over dimensions that a table of the shape of `like` broadcasts.
at::Tensor summed_like(const at::Tensor& x, const at::Tensor& like) {
  if (like.dim() == 2) return x.sum(0);
  return like.sym_size(0) == 1 ? x.sum(0, /*keepdim=*/true) : x;
}

/// A table with two columns per pair holds each value twice. Only the first is read: the other has
/// gradient 0.
at::Tensor with_zero_copies(const at::Tensor& x, Pairing pairing) {
  const at::Tensor zeros = at::zeros_like(x);
  if (pairing == Pairing::kHalf) return at::cat({x, zeros}, -1);
  return at::stack({x, zeros}, -1).flatten(-2);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> split_pairs(const at::Tensor& x, Pairing pairing,
                                              const SharedRope& rope) {
  const std::int64_t pairs = rope.frequencies().pairs;
  const at::Tensor slice = x.narrow(-1, rope.layout().rotary_offset, 2 * pairs);
  if (pairing == Pairing::kHalf) {
    return {slice.narrow(-1, 0, pairs), slice.narrow(-1, pairs, pairs)};
  }
  const at::Tensor both = slice.unflatten(-1, {pairs, 2});
  return {both.select(-1, 0), both.select(-1, 1)};
}

Pairing input_pairing(RotationOp op, const HeadLayout& layout) {
  return is_forward(op) ? *layout.pairing : *layout.output_pairing;
}

Pairing output_pairing(RotationOp op, const HeadLayout& layout) {
  return is_forward(op) || is_shift(op) ? *layout.output_pairing : *layout.pairing;
}

at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

at::Tensor sum_over_heads(const at::Tensor& x, std::int64_t token_dim) {
  return x.sum(token_dim == -3 ? -2 : -3);
}

PhaseGradient phase_gradient(at::TensorList tensors, at::TensorList grads, Pairing pairing,
                             const SharedRope& rope, std::int64_t token_dim) {
  PhaseGradient sums;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [x, y] = split_pairs(widened(tensors[i]), pairing, rope);
    const auto [gx, gy] = split_pairs(widened(grads[i]), pairing, rope);
    const auto sum = [token_dim](const at::Tensor& t) {
      return one_batch(sum_over_heads(t, token_dim).to(at::kDouble));
    };
    sums.angle = plus(sums.angle, sum(gy * x - gx * y));
    sums.length = plus(sums.length, sum(gx * x + gy * y));
  }
  return sums;
}

at::Tensor position_gradient(RotationOp op, at::TensorList tensors, at::TensorList grads,
                             const SharedRope& rope, const at::Tensor& positions,
                             std::int64_t token_dim) {
  const Pairing pairing = input_pairing(op, rope.layout());
  const bool one_sign = !rope.grows() || angle_sign(op) == growth_sign(op);
  at::Tensor gradient;  // [axes, batch, tokens]
  if (one_sign && !at::GradMode::is_enabled()) {
    gradient = call_position_gradient(tensors, grads, rope.text(), name_of(pairing), token_dim) *
               angle_sign(op);
  } else {
    const PhaseGradient sums = phase_gradient(tensors, grads, pairing, rope, token_dim);
    gradient =
        at::matmul(sums.angle, call_frequencies_like(sums.angle, rope.text())) * angle_sign(op);
    if (rope.grows()) {
      gradient = gradient + at::matmul(sums.length, call_growth_like(sums.length, rope.text())) *
                                growth_sign(op);
    }
    gradient = gradient.permute({2, 0, 1});
  }
  // Summed over broadcast dimensions.
  c10::SymDimVector shape(3, 1);
  for (std::int64_t i = 1; i <= positions.dim(); ++i) {
    shape[static_cast<std::size_t>(3 - i)] = positions.sym_size(-i);
  }
  return gradient.sum_to_size_symint(shape)
      .reshape_symint(positions.sym_sizes())
      .to(positions.scalar_type());
}

std::pair<at::Tensor, at::Tensor> table_gradient(RotationOp op, at::TensorList ins,
                                                 at::TensorList grads, const SharedRope& rope,
                                                 const at::Tensor& cos, std::int64_t token_dim) {
  const HeadLayout& layout = rope.layout();
  at::Tensor cos_grad;
  at::Tensor sin_grad;
  for (std::size_t i = 0; i < ins.size(); ++i) {
    const auto [x, y] = split_pairs(widened(ins[i]), input_pairing(op, layout), rope);
    const auto [gx, gy] = split_pairs(widened(grads[i]), output_pairing(op, layout), rope);
    const auto sum = [&](const at::Tensor& t) {
      return summed_like(one_batch(sum_over_heads(t, token_dim)), cos);
    };
    cos_grad = plus(cos_grad, sum(gx * x + gy * y));
    sin_grad = plus(sin_grad, sum(op == RotationOp::kRotate ? gy * x - gx * y : gx * y - gy * x));
  }
  if (cos.sym_size(-1) != rope.frequencies().pairs) {
    // The columns of the table are in the input pairing of rotate().
    cos_grad = with_zero_copies(cos_grad, *layout.pairing);
    sin_grad = with_zero_copies(sin_grad, *layout.pairing);
  }
  return {cos_grad.to(cos.scalar_type()), sin_grad.to(cos.scalar_type())};
}

}  // namespace rotary::torch
