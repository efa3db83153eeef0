// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies and scale as tensors, learned and on any device. cos and sin are computed from them
// by PyTorch's operators, in float64, on their device: no synchronisation with the host, and
// derivatives of any order from PyTorch.

#include "pytorch/learned.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <tuple>

#include "pytorch/autograd_node.h"
#include "pytorch/per_head.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// The position of each token of sequences that are packed end to end.
at::Tensor packed_positions(const at::Tensor& boundaries, const OptionalTensor& first,
                            const at::Tensor& tokens) {
  const at::Tensor ends = boundaries.slice_symint(0, 1, boundaries.sym_size(0) - 1);
  const at::Tensor sequence =
      at::searchsorted(ends.contiguous(), tokens.to(boundaries.scalar_type()),
                       /*out_int32=*/false, /*right=*/true);
  const at::Tensor within = tokens - boundaries.index_select(0, sequence);
  return is_given(first) ? within + first->index_select(0, sequence) : within;
}

}  // namespace

at::Tensor position_matrix(const TokenPositionsRef& token_positions, const c10::SymInt& tokens,
                           const at::TensorOptions& options) {
  at::Tensor x;
  if (is_given(token_positions.cu_seqlens)) {
    const at::Tensor all = at::arange(tokens, options.dtype(at::kLong));
    x = packed_positions(*token_positions.cu_seqlens, token_positions.positions, all);
  } else if (is_given(token_positions.positions)) {
    x = *token_positions.positions;
  } else {
    x = at::arange(token_positions.first, token_positions.first + tokens, options.dtype(at::kLong));
  }
  x = x.to(at::kDouble);
  while (x.dim() < 3) x = x.unsqueeze(0);
  return x;
}

namespace {

/// sum_a x_a m[.., a]: [batch or 1, tokens, pairs]. Element by element: a GEMM might round to TF32.
at::Tensor sum_over_axes(const at::Tensor& x, const at::Tensor& matrix) {
  at::Tensor sum;
  const std::int64_t axes = matrix.sym_size(1).guard_int(__FILE__, __LINE__);
  const bool shared = x.sym_size(0) == 1;
  for (std::int64_t a = 0; a < axes; ++a) {
    const at::Tensor axis = x.select(0, shared ? 0 : a);
    const at::Tensor term = axis.unsqueeze(-1) * matrix.select(1, a);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

void check(const SharedRope& rope, const at::Tensor& frequencies, const at::Tensor& x) {
  const Frequencies& f = rope.frequencies();
  const bool fits = (frequencies.dim() == 2 || (frequencies.dim() == 1 && f.axes == 1)) &&
                    frequencies.sym_size(0) == f.pairs &&
                    (frequencies.dim() == 1 || frequencies.sym_size(1) == f.axes);
  TORCH_CHECK_VALUE(fits, "[learned_cos_sin] frequencies must be [", f.pairs, " pairs, ", f.axes,
                    " axes], got ", frequencies.sym_sizes());
  const bool axes_fit = x.sym_size(0) == f.axes ||
                        (x.sym_size(0) == 1 && rope.one_axis() == OneAxisPositions::kOnAllAxes);
  TORCH_CHECK_VALUE(axes_fit, "[learned_cos_sin] positions must have ", f.axes, " axes, got ",
                    x.sym_size(0));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> learned_cos_sin(const at::Tensor& frequencies,
                                                   std::string_view text, const c10::SymInt& tokens,
                                                   const OptionalTensor& scale,
                                                   const TokenPositionsRef& token_positions,
                                                   at::ScalarType dtype) {
  const auto rope = find_rope(text);
  const at::Tensor x = position_matrix(token_positions, tokens, frequencies.options());
  check(*rope, frequencies, x);
  at::Tensor f = frequencies.to(at::kDouble);
  if (f.dim() == 1) f = f.unsqueeze(1);
  const at::Tensor phase = sum_over_axes(x, f);
  at::Tensor cos = phase.cos();
  at::Tensor sin = phase.sin();
  at::Tensor size;
  if (rope->grows()) {
    const at::Tensor growth = call_growth_like(f, text);
    size = sum_over_axes(x - rope->frequencies().growth_origin, growth).exp();
  }
  if (is_given(scale)) {
    const at::Tensor s = scale->to(at::kDouble);
    size = size.defined() ? size * s : s;
  } else if (rope->frequencies().scale != 1.0) {
    const double s = rope->frequencies().scale;
    size = size.defined() ? size * s : at::scalar_tensor(s, f.options());
  }
  if (size.defined()) {
    cos = cos * size;
    sin = sin * size;
  }
  return {cos.to(dtype), sin.to(dtype)};
}

namespace {

/// Whether the library's kernels can compute the gradient of frequencies: op is rotate, in reverse
/// mode, and only tensors, frequencies and a single scale are differentiated.
bool has_fused_gradient(at::TensorList tensors, const at::Tensor& frequencies,
                        const OptionalTensor& scale, const OptionalTensor& positions,
                        std::string_view op) {
  return op == "rotate" && !::torch::autograd::compute_requires_grad(positions) &&
         !has_tangent(positions) && !has_tangent(frequencies) && !has_tangent(scale) &&
         !any_has_tangent(tensors) && (!is_given(scale) || scale->sym_numel() == 1);
}

OptionalTensor detached(const OptionalTensor& x) {
  return is_given(x) ? OptionalTensor(x->detach()) : x;
}

std::vector<at::Tensor> rotate_learned(std::string_view op, at::TensorList tensors,
                                       std::string_view text, const at::Tensor& frequencies,
                                       const OptionalTensor& scale,
                                       const TokenPositionsRef& token_positions) {
  if (tensors.empty()) return {};
  TORCH_CHECK_VALUE(op == "rotate" || op == "adjoint" || op == "unrotate",
                    "[rotate_learned] op must be rotate, adjoint or unrotate, got ", op);
  if (frequencies.dim() == 3) {
    const RotationOp rotation = op == "rotate"    ? RotationOp::kRotate
                                : op == "adjoint" ? RotationOp::kAdjoint
                                                  : RotationOp::kUnrotate;
    return rotate_heads(rotation, tensors, text, frequencies, scale, token_positions);
  }
  at::ScalarType dtype = at::kFloat;
  for (const at::Tensor& x : tensors) {
    if (x.scalar_type() == at::kDouble) dtype = at::kDouble;
  }
  const std::int64_t token_dim = token_positions.token_dim;
  const c10::SymInt tokens = tensors[0].sym_size(token_dim);
  if (has_fused_gradient(tensors, frequencies, scale, token_positions.positions, op)) {
    const auto [cos, sin] = learned_cos_sin(frequencies.detach(), text, tokens, detached(scale),
                                            token_positions, dtype);
    return call_learned_table(tensors, cos, sin, {frequencies, scale}, text, token_positions);
  }
  auto [cos, sin] = learned_cos_sin(frequencies, text, tokens, scale, token_positions, at::kDouble);
  if (op == "unrotate") {
    const at::Tensor square = cos * cos + sin * sin;
    cos = cos / square;
    sin = sin / square;
  }
  return call_table(op == "rotate" ? RotationOp::kRotate : RotationOp::kAdjoint, tensors,
                    cos.to(dtype), sin.to(dtype), text, token_dim);
}

// ---- With the operators' signatures -----------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> learned_cos_sin_op(const at::Tensor& frequencies,
                                                      std::string_view text, c10::SymInt tokens,
                                                      const OptionalTensor& scale,
                                                      const OptionalTensor& positions,
                                                      const OptionalTensor& cu_seqlens,
                                                      c10::SymInt first, at::ScalarType dtype) {
  constexpr std::int64_t kUnused = -3;
  return learned_cos_sin(frequencies, text, tokens, scale,
                         {positions, cu_seqlens, std::move(first), kUnused}, dtype);
}

std::vector<at::Tensor> rotate_learned_op(at::TensorList tensors, std::string_view text,
                                          const at::Tensor& frequencies,
                                          const OptionalTensor& scale,
                                          const OptionalTensor& positions,
                                          const OptionalTensor& cu_seqlens, c10::SymInt first,
                                          std::int64_t token_dim, std::string_view op) {
  return rotate_learned(op, tensors, text, frequencies, scale,
                        {positions, cu_seqlens, std::move(first), token_dim});
}

void implement_learned(::torch::Library& m) {
  m.impl("learned_cos_sin", learned_cos_sin_op);
  m.impl("rotate_learned", rotate_learned_op);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) { rotary::torch::implement_learned(m); }
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  rotary::torch::implement_learned(m);
}
