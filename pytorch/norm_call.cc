// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Arguments of the norm operators, and the chain of PyTorch's operators that they stand for.

#include "pytorch/norm_call.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>

#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/rope.h"

namespace rotary::torch {
namespace {

/// The enumerator of that name.
template <typename Enum, std::size_t kCount>
Enum find_name(const char* argument, std::string_view given,
               const std::array<Enum, kCount>& known) {
  std::string all;
  for (const Enum each : known) {
    if (given == name_of(each)) return each;
    all += std::string(all.empty() ? "" : ", ") + name_of(each);
  }
  TORCH_CHECK_VALUE(false, "[norm_rotate] ", argument, " must be one of ", all, ", got ", given);
  return known[0];
}

at::Tensor plain_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      const HeadNorm& norm) {
  const bool is_wide = norm.rounding == NormRounding::kFloat32;
  const at::ScalarType type = arithmetic_of(x);
  const c10::SymInt size[] = {x.sym_size(-1)};
  if (norm.kind == NormKind::kRms && norm.rounding == NormRounding::kTensor) {
    return at::rms_norm_symint(x, size, weight, norm.eps);
  }
  const OptionalTensor factor = factor_of(weight, norm, type);
  if (norm.rounding == NormRounding::kEveryStep) {
    const at::Tensor scaled = at::rms_norm_symint(x, size, std::nullopt, norm.eps);
    return factor ? (scaled * *factor).to(x.scalar_type()) : scaled;
  }
  const at::Tensor wide = x.to(type);
  at::Tensor y;
  if (norm.kind == NormKind::kLayer) {
    const OptionalTensor added = bias ? OptionalTensor(bias->to(type)) : std::nullopt;
    y = at::layer_norm_symint(wide, size, factor, added, norm.eps);
  } else {
    y = at::rms_norm_symint(wide, size, factor, norm.eps);
  }
  return is_wide ? y : y.to(x.scalar_type());
}

}  // namespace

const char* name_of(NormKind kind) {
  switch (kind) {
    case NormKind::kNone:
      return "none";
    case NormKind::kRms:
      return "rms";
    case NormKind::kRmsOnePlus:
      return "rms_one_plus";
    case NormKind::kLayer:
      return "layer";
  }
  return "";
}
const char* name_of(NormRounding rounding) {
  switch (rounding) {
    case NormRounding::kTensor:
      return "tensor";
    case NormRounding::kFloat32:
      return "float32";
    case NormRounding::kEveryStep:
      return "every_step";
  }
  return "";
}
const char* name_of(NormScope scope) { return scope == NormScope::kHead ? "head" : "all_heads"; }
const char* name_of(NormOrder order) {
  return order == NormOrder::kBeforeRotation ? "before" : "after";
}

HeadNorm norm_of(double eps, std::string_view norm, std::string_view rounding,
                 std::string_view scope, std::string_view order, bool inverse) {
  return {.kind = find_name(
              "norm", norm,
              std::array{NormKind::kNone, NormKind::kRms, NormKind::kRmsOnePlus, NormKind::kLayer}),
          .eps = eps,
          .rounding = find_name(
              "rounding", rounding,
              std::array{NormRounding::kTensor, NormRounding::kFloat32, NormRounding::kEveryStep}),
          .scope = find_name("scope", scope, std::array{NormScope::kHead, NormScope::kAllHeads}),
          .order = find_name("order", order,
                             std::array{NormOrder::kBeforeRotation, NormOrder::kAfterRotation}),
          .rotation = inverse ? NormRotation::kInverse : NormRotation::kForward};
}

void check_norm(at::TensorList tensors, const NormWeights& given, std::string_view rope,
                std::int64_t token_dim, const HeadNorm& norm) {
  const std::int64_t head_dim = find_rope(rope)->layout().head_dim;
  for (const at::Tensor& x : tensors) {
    check_rank("norm_rotate", x, token_dim);
    TORCH_CHECK_VALUE(x.sym_size(-1) == head_dim, "[norm_rotate] the last size must be head_dim ",
                      head_dim, ", got ", x.sym_size(-1));
  }
  TORCH_CHECK_VALUE(norm.rounding != NormRounding::kEveryStep || norm.kind == NormKind::kRms,
                    "[norm_rotate] rounding every_step is for the norm rms only");
  TORCH_CHECK_VALUE(given.biases.empty() || norm.kind == NormKind::kLayer,
                    "[norm_rotate] only the norm layer has biases");
  const auto check = [&](at::TensorList list, const char* name) {
    TORCH_CHECK_VALUE(list.empty() || list.size() == tensors.size(), "[norm_rotate] no ", name,
                      ", or one for each of ", tensors.size(), " tensors, got ", list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const at::Tensor& w = list[i];
      const c10::SymInt heads = tensors[i].sym_size(token_dim == -2 ? -3 : -2);
      const c10::SymInt size =
          norm.scope == NormScope::kHead ? c10::SymInt(head_dim) : heads * c10::SymInt(head_dim);
      TORCH_CHECK_VALUE(w.dim() == 1 && w.sym_size(0) == size, "[norm_rotate] ", name, " must be [",
                        size, "], got ", w.sym_sizes());
      TORCH_CHECK_VALUE(w.device() == tensors[0].device(),
                        "[norm_rotate] tensors and weights must be on one device, got ",
                        tensors[0].device(), " and ", w.device());
    }
  };
  check(given.weights, "weights");
  check(given.biases, "biases");
}

at::ScalarType arithmetic_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

OptionalTensor factor_of(const OptionalTensor& weight, const HeadNorm& norm, at::ScalarType type) {
  if (!weight || norm.kind == NormKind::kNone) return std::nullopt;
  const at::Tensor w = weight->to(type);
  return norm.kind == NormKind::kRmsOnePlus ? 1 + w : w;
}

at::Tensor to_norm_rows(const at::Tensor& x, const HeadNorm& norm, std::int64_t token_dim) {
  if (norm.scope == NormScope::kHead) return x;
  return (token_dim == -2 ? x.transpose(-2, -3) : x).flatten(-2);
}

at::Tensor from_norm_rows(const at::Tensor& rows, const at::Tensor& x, const HeadNorm& norm,
                          std::int64_t token_dim) {
  if (norm.scope == NormScope::kHead) return rows;
  if (token_dim == -2) {
    return rows.reshape_symint(x.transpose(-2, -3).sym_sizes()).transpose(-2, -3);
  }
  return rows.reshape_symint(x.sym_sizes());
}

std::vector<at::Tensor> rotate_by(const AnglesRef& angles, at::TensorList tensors,
                                  NormRotation rotation) {
  const bool forward = rotation == NormRotation::kForward;
  if (!angles.has_table()) {
    return call(forward ? RotationOp::kRotate : RotationOp::kUnrotate, tensors, angles.rope,
                *angles.positions);
  }
  if (forward) {
    return call_table(RotationOp::kRotate, tensors, *angles.cos, *angles.sin, angles.rope,
                      angles.token_dim);
  }
  // 1/z = conj(z) / |z|^2
  const at::Tensor cos = angles.cos->to(arithmetic_of(*angles.cos));
  const at::Tensor sin = angles.sin->to(arithmetic_of(*angles.sin));
  const at::Tensor square = cos * cos + sin * sin;
  return call_table(RotationOp::kAdjoint, tensors, cos / square, sin / square, angles.rope,
                    angles.token_dim);
}

std::vector<at::Tensor> adjoint_by(const AnglesRef& angles, at::TensorList tensors) {
  if (!angles.has_table()) {
    return call(RotationOp::kAdjoint, tensors, angles.rope, *angles.positions);
  }
  return call_table(RotationOp::kAdjoint, tensors, *angles.cos, *angles.sin, angles.rope,
                    angles.token_dim);
}

std::vector<at::Tensor> plain_norm_rotate(at::TensorList tensors, const NormWeights& given,
                                          const AnglesRef& angles, const HeadNorm& norm) {
  const std::int64_t token_dim = angles.token_dim;
  const auto apply_norm = [&](std::vector<at::Tensor>& list) {
    if (norm.kind == NormKind::kNone) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const at::Tensor rows = to_norm_rows(list[i], norm, token_dim);
      list[i] = from_norm_rows(plain_norm(rows, given.weight(i), given.bias(i), norm), list[i],
                               norm, token_dim);
    }
  };
  std::vector<at::Tensor> list;
  for (const at::Tensor& x : tensors) {
    const bool is_wide = norm.rounding == NormRounding::kFloat32;
    list.push_back(is_wide ? x.to(arithmetic_of(x)) : x);
  }
  if (norm.order == NormOrder::kBeforeRotation) apply_norm(list);
  list = rotate_by(angles, list, norm.rotation);
  if (norm.order == NormOrder::kAfterRotation) apply_norm(list);
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = list[i].to(tensors[i].scalar_type());
  return list;
}

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

int sum_lanes_of_engine(const at::Tensor& x, const HeadNorm& norm) {
  constexpr int kLanesOnCuda = 32;
  if (x.is_cuda() && norm.rounding != NormRounding::kFloat32) return kLanesOnCuda;
  const int lanes = sum_lanes_of_pytorch();
  return lanes == 0 ? HeadNorm{}.sum_lanes : lanes;
}

bool fits_fused_launch(std::string_view rope) {
  const Frequencies& f = find_rope(rope)->frequencies();
  constexpr std::int64_t kMaxPairs = 512;
  constexpr std::int64_t kMaxEntries = 1024;  // in three planes: real positions, growth
  return f.pairs <= kMaxPairs && f.pairs * f.axes <= kMaxEntries;
}

bool has_norm_engine(at::TensorList tensors, const NormWeights& given, std::string_view rope) {
  const bool on_cuda = tensors[0].is_cuda();
  const auto fits = [on_cuda](const at::Tensor& x) {
    return (on_cuda ? x.is_cuda() : x.is_cpu()) &&
           (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
            x.scalar_type() == at::kHalf);
  };
  for (const at::Tensor& x : tensors) {
    if (!fits(x) || x.size(-1) > kMaxNormHeadDim) return false;
  }
  for (const at::TensorList list : {given.weights, given.biases}) {
    for (const at::Tensor& w : list) {
      if (!fits(w)) return false;
    }
  }
  return on_cuda ? fits_fused_launch(rope) : sum_lanes_of_pytorch() != 0;
}

}  // namespace rotary::torch
