// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators: on the CPU the formulas, which say what the kernels compute, and derivatives.

#include "attention/hopper/attention.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "attention/hopper/checks.h"
#include "attention/hopper/draw.h"
#include "operator.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// ---- The CPU ------------------------------------------------------------------------------------

void set_block(bool* block, std::int64_t row_stride, std::int64_t queries, std::int64_t keys,
               const hopper::Drawn& drawn, int s, int t) {
  for (int i = 0; i < 16; ++i) {
    const int query = 8 * (i / 2) + 2 * s + i % 2;
    const std::uint32_t word = drawn.word[2 * (query / 16) + i % 2];
    for (int f = 0; f < 2; ++f) {
      for (int j = 0; j < 8; ++j) {
        const int key = 8 * j + 2 * t + f;
        if (query >= queries || key >= keys) continue;
        const int bit = 16 * (query / 8 % 2) + 8 * f + 7 - j;
        block[query * row_stride + key] = (word >> bit & 1U) != 0;
      }
    }
  }
}

at::Tensor fused_attention_mask_cpu(const at::Tensor& seed, std::int64_t batch, std::int64_t heads,
                                    std::int64_t queries, std::int64_t keys, double dropout) {
  check_seed(seed);
  const at::Tensor mask = at::empty({batch, heads, queries, keys}, seed.options().dtype(at::kBool));
  const hopper::Digits digits = hopper::digits_of(keep_of(dropout));
  const auto key = static_cast<std::uint64_t>(*seed.const_data_ptr<std::int64_t>());
  bool* data = mask.mutable_data_ptr<bool>();
  std::uint64_t number = 0;
  for (std::int64_t head = 0; head < batch * heads; ++head) {
    for (std::int64_t q = 0; q < queries; q += hopper::kBlock) {
      for (std::int64_t k = 0; k < keys; k += hopper::kBlock) {
        for (int i = 0; i < hopper::kDrawsPerBlock; ++i) {
          set_block(data + (head * queries + q) * keys + k, keys, queries - q, keys - k,
                    hopper::draw_kept(key, number++, digits), i / 4, i % 4);
        }
      }
    }
  }
  return mask;
}

/// As heads_like() lays them out.
at::Tensor side_by_side(const at::Tensor& x) {
  return x.transpose(1, 2).contiguous().transpose(1, 2);
}

/// What weights are multiplied by; not defined where nothing is dropped.
at::Tensor factors(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& seed,
                   double dropout) {
  if (!drops(dropout)) return {};
  const at::Tensor mask =
      fused_attention_mask_cpu(*seed, q.size(0), q.size(1), q.size(2), k.size(2), dropout);
  return mask.to(q.scalar_type()) * kept_scale_of(dropout);
}

Two fused_attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const OptionalTensor& seed, double dropout, double scale) {
  check_fused(q, k, v, seed, dropout);
  const at::Tensor s = at::matmul(q, k.transpose(-2, -1)) * scale;
  const at::Tensor lse = at::logsumexp(s, -1).to(at::kFloat) / std::log(2.0);
  at::Tensor p = at::softmax(s, -1);
  const at::Tensor kept = factors(q, k, seed, dropout);
  if (kept.defined()) p = p * kept;
  const std::int64_t padding = hopper::blocks_of(static_cast<int>(q.size(2))) * hopper::kBlock;
  return {
      side_by_side(at::matmul(p, v)),
      at::constant_pad_nd(lse, {0, padding - q.size(2)}, std::numeric_limits<double>::infinity())};
}

Three fused_attention_backward_cpu(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& y, const at::Tensor& lse,
                                   const OptionalTensor& seed, double dropout, double scale) {
  const at::Tensor sums = lse.narrow(-1, 0, q.size(2)).unsqueeze(-1) * std::log(2.0);
  const at::Tensor p = at::exp(at::matmul(q, k.transpose(-2, -1)) * scale - sums);
  at::Tensor dropped = p;
  at::Tensor dp = at::matmul(grad, v.transpose(-2, -1));
  const at::Tensor kept = factors(q, k, seed, dropout);
  if (kept.defined()) {
    dropped = p * kept;
    dp = dp * kept;
  }
  const at::Tensor ds = p * (dp - (grad * y).sum(-1, /*keepdim=*/true)) * scale;
  return {side_by_side(at::matmul(ds, k)), side_by_side(at::matmul(ds.transpose(-2, -1), q)),
          side_by_side(at::matmul(dropped.transpose(-2, -1), grad))};
}

// ---- Shapes -------------------------------------------------------------------------------------

Two fused_attention_meta(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                         const OptionalTensor& /*seed*/, double /*dropout*/, double /*scale*/) {
  const c10::SymInt rows = (q.sym_size(2) + (hopper::kBlock - 1)) / hopper::kBlock * hopper::kBlock;
  return {heads_like(q),
          at::empty_symint({q.sym_size(0), q.sym_size(1), rows}, q.options().dtype(at::kFloat))};
}

Three fused_attention_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& q,
                                    const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& /*y*/, const at::Tensor& /*lse*/,
                                    const OptionalTensor& /*seed*/, double /*dropout*/,
                                    double /*scale*/) {
  return {heads_like(q), heads_like(k), heads_like(v)};
}

// ---- Derivatives --------------------------------------------------------------------------------

Two call_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               const OptionalTensor& seed, double dropout, double scale) {
  static const auto handle =
      find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const OptionalTensor&, double, double)>("rotary::fused_attention");
  return handle.call(q, k, v, seed, dropout, scale);
}

Three call_fused_backward(const at::Tensor& grad, const variable_list& saved, double dropout,
                          double scale) {
  static const auto handle = find_operator<Three(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, const OptionalTensor&, double, double)>(
      "rotary::fused_attention_backward");
  const OptionalTensor seed = saved[5].defined() ? std::make_optional(saved[5]) : std::nullopt;
  return handle.call(grad, saved[0], saved[1], saved[2], saved[3], saved[4], seed, dropout, scale);
}

struct FusedAttention : ::torch::autograd::Function<FusedAttention> {
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const OptionalTensor& seed, double dropout,
                               double scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, lse] = call_fused(q, k, v, seed, dropout, scale);
    context->save_for_backward({q, k, v, y, lse, seed.value_or(at::Tensor())});
    context->saved_data["dropout"] = dropout;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({lse});
    context->set_materialize_grads(false);
    return {y, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list results(6);
    if (!grads[0].defined()) return results;
    TORCH_CHECK_NOT_IMPLEMENTED(
        !at::GradMode::is_enabled(),
        "[attend] its own kernel has no second derivative: sdpa_kernel(SDPBackend.MATH) has one");
    std::tie(results[0], results[1], results[2]) = call_fused_backward(
        grads[0], context->get_saved_variables(), context->saved_data["dropout"].toDouble(),
        context->saved_data["scale"].toDouble());
    return results;
  }
};

Two fused_attention_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const OptionalTensor& seed, double dropout, double scale) {
  const variable_list results = FusedAttention::apply(q, k, v, seed, dropout, scale);
  return {results[0], results[1]};
}

}  // namespace

at::Tensor fused_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        double dropout, double scale) {
  OptionalTensor seed;
  if (drops(dropout)) {
    seed = at::randint(std::numeric_limits<std::int64_t>::max(), {1}, q.options().dtype(at::kLong));
  }
  return std::get<0>(call_fused(q, k, v, seed, dropout, scale));
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("fused_attention(Tensor q, Tensor k, Tensor v, Tensor? seed, float dropout, float scale) -> "
      "(Tensor, Tensor)");
  add("fused_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor y, Tensor lse, "
      "Tensor? seed, float dropout, float scale) -> (Tensor, Tensor, Tensor)");
  add("fused_attention_mask(Tensor seed, int batch, int heads, int queries, int keys, "
      "float dropout) -> Tensor");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("fused_attention", rotary::torch::fused_attention_cpu);
  m.impl("fused_attention_backward", rotary::torch::fused_attention_backward_cpu);
  m.impl("fused_attention_mask", rotary::torch::fused_attention_mask_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("fused_attention", rotary::torch::fused_attention_meta);
  m.impl("fused_attention_backward", rotary::torch::fused_attention_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("fused_attention", rotary::torch::fused_attention_autograd);
}
