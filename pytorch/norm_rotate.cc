// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators norm_rotate and norm_rotate_: a norm of every head, then its rotation. On the CPU
// the library's engine runs them in one pass; elsewhere they are PyTorch's norm and rotate.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <array>
#include <mutex>

#include "pytorch/autograd_node.h"
#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/operator.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/norm.h"
#include "rotary/rope.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using NormSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList, std::string_view,
                                              const OptionalTensor&, const OptionalTensor&,
                                              c10::SymInt, std::int64_t, double, std::string_view,
                                              std::string_view);
using NormInPlaceSignature = void(at::TensorList, at::TensorList, std::string_view,
                                  const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                  std::int64_t, double, std::string_view, std::string_view);

const char* name_of_kind(NormKind kind) {
  return kind == NormKind::kNone ? "none" : kind == NormKind::kRms ? "rms" : "rms_one_plus";
}
const char* name_of_rounding(NormRounding rounding) {
  return rounding == NormRounding::kTensor ? "tensor" : "float32";
}

HeadNorm norm_of(double eps, std::string_view norm, std::string_view rounding) {
  HeadNorm found{.eps = eps};
  const auto find = [](std::string_view name, const auto& all, const auto& name_of_one, auto& to) {
    for (const auto each : all) {
      if (name == name_of_one(each)) {
        to = each;
        return true;
      }
    }
    return false;
  };
  TORCH_CHECK_VALUE(find(norm, std::array{NormKind::kNone, NormKind::kRms, NormKind::kRmsOnePlus},
                         name_of_kind, found.kind),
                    "[norm_rotate] norm must be none, rms or rms_one_plus, got ", norm);
  TORCH_CHECK_VALUE(find(rounding, std::array{NormRounding::kTensor, NormRounding::kFloat32},
                         name_of_rounding, found.rounding),
                    "[norm_rotate] rounding must be tensor or float32, got ", rounding);
  return found;
}

void check_norm(at::TensorList tensors, at::TensorList weights, std::string_view rope,
                std::int64_t token_dim) {
  TORCH_CHECK_VALUE(weights.empty() || weights.size() == tensors.size(),
                    "[norm_rotate] no weights, or one for each of ", tensors.size(),
                    " tensors, got ", weights.size());
  const std::int64_t head_dim = find_rope(rope)->layout().head_dim;
  for (const at::Tensor& x : tensors) {
    check_rank("norm_rotate", x, token_dim);
    TORCH_CHECK_VALUE(x.sym_size(-1) == head_dim, "[norm_rotate] the last size must be head_dim ",
                      head_dim, ", got ", x.sym_size(-1));
  }
  for (const at::Tensor& w : weights) {
    TORCH_CHECK_VALUE(w.dim() == 1 && w.sym_size(0) == head_dim, "[norm_rotate] weights must be [",
                      head_dim, "], got ", w.sym_sizes());
    TORCH_CHECK_VALUE(w.device() == tensors[0].device(),
                      "[norm_rotate] tensors and weights must be on one device, got ",
                      tensors[0].device(), " and ", w.device());
  }
}

at::ScalarType arithmetic_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

OptionalTensor weight_of(at::TensorList weights, std::size_t i) {
  return weights.empty() ? std::nullopt : OptionalTensor(weights[i]);
}

/// What the norm is multiplied by, in the type of the arithmetic; none for 1.
OptionalTensor factor_of(const OptionalTensor& weight, const HeadNorm& norm, at::ScalarType type) {
  if (!weight || norm.kind == NormKind::kNone) return std::nullopt;
  const at::Tensor w = weight->to(type);
  return norm.kind == NormKind::kRmsOnePlus ? 1 + w : w;
}

// ---- By PyTorch's norm --------------------------------------------------------------------------

/// Rounded as `norm` says.
at::Tensor plain_norm(const at::Tensor& x, const OptionalTensor& weight, const HeadNorm& norm) {
  const bool is_wide = norm.rounding == NormRounding::kFloat32;
  const at::ScalarType type = arithmetic_of(x);
  if (norm.kind == NormKind::kNone) return is_wide ? x.to(type) : x;
  const c10::SymInt size[] = {x.sym_size(-1)};
  if (norm.kind == NormKind::kRms && !is_wide) {
    return at::rms_norm_symint(x, size, weight, norm.eps);
  }
  const at::Tensor y =
      at::rms_norm_symint(x.to(type), size, factor_of(weight, norm, type), norm.eps);
  return is_wide ? y : y.to(x.scalar_type());
}

/// The chain that the operator stands for, differentiable in everything.
std::vector<at::Tensor> plain_norm_rotate(at::TensorList tensors, at::TensorList weights,
                                          std::string_view rope,
                                          const TokenPositionsRef& token_positions,
                                          const HeadNorm& norm) {
  std::vector<at::Tensor> normed;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    normed.push_back(plain_norm(tensors[i], weight_of(weights, i), norm));
  }
  std::vector<at::Tensor> results = call(RotationOp::kRotate, normed, rope, token_positions);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = results[i].to(tensors[i].scalar_type());
  }
  return results;
}

// ---- By the library's engine --------------------------------------------------------------------

/// The sum_lanes with which the engine has the bits of this PyTorch's rms_norm on this CPU, tried
/// once; 0 if there is none, and then PyTorch's norm is used.
int sum_lanes_of_pytorch() {
  static const int found = [] {
    constexpr std::int64_t kHeads = 32;
    constexpr std::int64_t kSize =
        576;  // sums of PyTorch's vectors have all their levels and rests
    const at::Tensor x =
        at::arange(kHeads * kSize, at::kFloat).mul_(0.731).sin_().reshape({1, kHeads, kSize});
    const at::Tensor expected = at::rms_norm(x, {kSize}, std::nullopt, 1e-6);
    const Rope rope(make_frequencies({.rotary_dim = 2, .theta = 1e4}),
                    {.head_dim = kSize, .pairing = Pairing::kHalf});
    for (const int lanes : {4, 8, 16}) {
      const at::Tensor y = at::empty_like(x);
      const Operand operand(heads_view("norm_rotate", x, -3),
                            writable_heads_view("norm_rotate", y, -3));
      // At position 0, which rotates by nothing.
      rope.norm_rotate({operand}, {.eps = 1e-6, .sum_lanes = lanes}, Positions::range());
      if (y.equal(expected)) return lanes;
    }
    return 0;
  }();
  return found;
}

bool has_engine(at::TensorList tensors, at::TensorList weights) {
  const auto fits = [](const at::Tensor& x) {
    return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
                          x.scalar_type() == at::kHalf);
  };
  for (const at::Tensor& x : tensors) {
    if (!fits(x) || x.dim() > kMaxDimensions || x.size(-1) > kMaxNormHeadDim) return false;
  }
  for (const at::Tensor& w : weights) {
    if (!fits(w)) return false;
  }
  return sum_lanes_of_pytorch() != 0;
}

void run_engine(at::TensorList from, at::TensorList to, at::TensorList weights,
                std::string_view text, const TokenPositionsRef& token_positions, HeadNorm norm) {
  constexpr std::string_view kName = "norm_rotate";
  const auto rope = find_rope(text);
  norm.sum_lanes = sum_lanes_of_pytorch();
  std::vector<at::Tensor> kept;
  std::vector<NormOperand> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TensorView out = writable_heads_view(kName, to[i], token_positions.token_dim);
    const Operand operand =
        from[i].is_same(to[i])
            ? Operand(out)
            : Operand(heads_view(kName, from[i], token_positions.token_dim), out);
    if (weights.empty()) {
      operands.emplace_back(operand);
      continue;
    }
    kept.push_back(weights[i].contiguous());
    operands.emplace_back(operand, plain_view(kName, kept.back()));
  }
  translate_errors([&] {
    rope->rope().norm_rotate(
        operands, norm, make_positions(kName, *rope, token_positions, operands.front().tensors.in));
  });
}

// ---- With the operators' signatures -------------------------------------------------------------

std::vector<at::Tensor> norm_rotate(at::TensorList tensors, at::TensorList weights,
                                    std::string_view rope, const OptionalTensor& positions,
                                    const OptionalTensor& cu_seqlens, std::int64_t first,
                                    std::int64_t token_dim, double eps, std::string_view norm,
                                    std::string_view rounding) {
  const HeadNorm how = norm_of(eps, norm, rounding);
  check_norm(tensors, weights, rope, token_dim);
  if (tensors.empty()) return {};
  const TokenPositionsRef token_positions{positions, cu_seqlens, first, token_dim};
  if (!has_engine(tensors, weights)) {
    return plain_norm_rotate(tensors, weights, rope, token_positions, how);
  }
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(empty_result_like(x));
  run_engine(tensors, results, weights, rope, token_positions, how);
  return results;
}

void norm_rotate_in_place(at::TensorList tensors, at::TensorList weights, std::string_view rope,
                          const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                          std::int64_t first, std::int64_t token_dim, double eps,
                          std::string_view norm, std::string_view rounding) {
  const HeadNorm how = norm_of(eps, norm, rounding);
  check_norm(tensors, weights, rope, token_dim);
  if (tensors.empty()) return;
  const TokenPositionsRef token_positions{positions, cu_seqlens, first, token_dim};
  if (has_engine(tensors, weights)) {
    return run_engine(tensors, tensors, weights, rope, token_positions, how);
  }
  const auto results = plain_norm_rotate(tensors, weights, rope, token_positions, how);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
}

std::vector<at::Tensor> norm_rotate_meta(at::TensorList tensors, at::TensorList weights,
                                         std::string_view rope, const OptionalTensor&,
                                         const OptionalTensor&, c10::SymInt, std::int64_t token_dim,
                                         double eps, std::string_view norm,
                                         std::string_view rounding) {
  norm_of(eps, norm, rounding);
  check_norm(tensors, weights, rope, token_dim);
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(at::empty_like(x));
  return results;
}

void norm_rotate_in_place_meta(at::TensorList tensors, at::TensorList weights,
                               std::string_view rope, const OptionalTensor&, const OptionalTensor&,
                               c10::SymInt, std::int64_t token_dim, double eps,
                               std::string_view norm, std::string_view rounding) {
  norm_of(eps, norm, rounding);
  check_norm(tensors, weights, rope, token_dim);
}

// ---- Derivatives --------------------------------------------------------------------------------

std::vector<at::Tensor> call_norm_rotate(at::TensorList tensors, at::TensorList weights,
                                         std::string_view rope,
                                         const TokenPositionsRef& token_positions,
                                         const HeadNorm& norm) {
  static const auto handle = find_operator<NormSignature>("rotary::norm_rotate");
  return handle.call(tensors, weights, rope, token_positions.positions, token_positions.cu_seqlens,
                     token_positions.first, token_positions.token_dim, norm.eps,
                     name_of_kind(norm.kind), name_of_rounding(norm.rounding));
}

void call_norm_rotate_in_place(at::TensorList tensors, at::TensorList weights,
                               std::string_view rope, const TokenPositionsRef& token_positions,
                               const HeadNorm& norm) {
  static const auto handle = find_operator<NormInPlaceSignature>("rotary::norm_rotate_");
  handle.call(tensors, weights, rope, token_positions.positions, token_positions.cu_seqlens,
              token_positions.first, token_positions.token_dim, norm.eps, name_of_kind(norm.kind),
              name_of_rounding(norm.rounding));
}

/// With n = r x the norm before its factor w, r = 1 / sqrt(mean(x^2) + eps), and g the gradient of
/// the norm's result: dx = r (g w - n mean(g w n)), dw = sum g n.
struct NormGradient {
  at::Tensor input{};
  at::Tensor weight{};
};

NormGradient norm_gradient(const at::Tensor& x, const OptionalTensor& weight,
                           const at::Tensor& grad, const HeadNorm& norm) {
  if (norm.kind == NormKind::kNone) return {grad.to(x.scalar_type()), {}};
  const at::ScalarType type = arithmetic_of(x);
  const at::Tensor wide = x.to(type);
  const at::Tensor g = grad.to(type);
  const at::Tensor r = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + norm.eps);
  const at::Tensor n = wide * r;
  const OptionalTensor factor = factor_of(weight, norm, type);
  const at::Tensor scaled = factor ? g * *factor : g;
  NormGradient all{
      .input = (r * (scaled - n * (scaled * n).mean(-1, /*keepdim=*/true))).to(x.scalar_type())};
  if (factor) all.weight = (g * n).flatten(0, -2).sum(0).to(weight->scalar_type());
  return all;
}

struct NormBackward : ::torch::autograd::Node {
  std::string rope{};
  HeadNorm norm{};
  std::size_t count = 0;
  SavedTokenPositions saved_positions{};
  SavedTensors tensors{};
  SavedTensors weights{};  // none, or one of each

  std::string name() const override { return "Rotary_norm_rotate_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_positions.release();
    tensors.release();
    weights.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(weights.empty() ? count : 2 * count);
    DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    if (norm.rounding == NormRounding::kFloat32) {
      for (at::Tensor& g : defined.tensors) g = g.to(arithmetic_of(g));
    }
    const auto rotated = call(RotationOp::kAdjoint, defined.tensors, rope, saved_positions.get());
    for (std::size_t k = 0; k < defined.indices.size(); ++k) {
      const std::size_t i = defined.indices[k];
      const OptionalTensor w = weights.empty() ? std::nullopt : OptionalTensor(weights.get(i));
      const NormGradient one = norm_gradient(tensors.get(i), w, rotated[k], norm);
      results[i] = one.input;
      if (w) results[count + i] = one.weight;
    }
    return results;
  }
};

/// Derivatives that the node does not have: of positions, and forward mode.
bool needs_chain(at::TensorList tensors, at::TensorList weights, const OptionalTensor& positions) {
  return ::torch::autograd::compute_requires_grad(positions) || has_tangent(positions) ||
         any_has_tangent(tensors) || any_has_tangent(weights);
}

std::vector<at::Tensor> norm_rotate_autograd(at::TensorList tensors, at::TensorList weights,
                                             std::string_view rope, const OptionalTensor& positions,
                                             const OptionalTensor& cu_seqlens, c10::SymInt first,
                                             std::int64_t token_dim, double eps,
                                             std::string_view norm, std::string_view rounding) {
  const HeadNorm how = norm_of(eps, norm, rounding);
  check_norm(tensors, weights, rope, token_dim);
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), token_dim};
  if (needs_chain(tensors, weights, positions)) {
    return plain_norm_rotate(tensors, weights, rope, token_positions, how);
  }
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_norm_rotate(tensors, weights, rope, token_positions, how);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, weights)) return results;
  auto node = make_node<NormBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, weights));
  node->rope = rope;
  node->norm = how;
  node->count = tensors.size();
  node->saved_positions.set(token_positions);
  node->tensors.add(tensors);
  node->weights.add(weights);
  ::torch::autograd::set_history(results, node);
  return results;
}

void norm_rotate_in_place_autograd(at::TensorList tensors, at::TensorList weights,
                                   std::string_view rope, const OptionalTensor& positions,
                                   const OptionalTensor& cu_seqlens, c10::SymInt first,
                                   std::int64_t token_dim, double eps, std::string_view norm,
                                   std::string_view rounding) {
  const HeadNorm how = norm_of(eps, norm, rounding);
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), token_dim};
  if (needs_chain(tensors, weights, positions) ||
      ::torch::autograd::compute_requires_grad(tensors, weights)) {
    std::vector<at::Tensor> copies;  // the gradient needs the values from before
    for (const at::Tensor& x : tensors) copies.push_back(x.clone());
    const auto results = call_norm_rotate(copies, weights, rope, token_positions, how);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
    return;
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_norm_rotate_in_place(tensors, weights, rope, token_positions, how);
  }
  for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
}

void implement_norm(::torch::Library& m) {
  m.impl("norm_rotate", norm_rotate);
  m.impl("norm_rotate_", norm_rotate_in_place);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_meta);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_autograd);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_autograd);
}
