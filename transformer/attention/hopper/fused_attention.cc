// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// torch.ops.rotary.fused_attention*: the reference implementation on the CPU, meta functions,
// autograd.

#include "transformer/attention/hopper/fused_attention.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "pytorch/operator.h"
#include "transformer/attention/hopper/checks.h"
#include "transformer/attention/hopper/dropout_mask.h"
#include "transformer/attention/hopper/mask_tensor.h"

namespace rotary::transformer {

namespace kernels = hopper::attention;

namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// ---- CPU ----------------------------------------------------------------------------------------

/// The dropout mask by queries and by keys.
Two sample_masks_cpu(const at::Tensor& seed, std::int64_t batch, std::int64_t heads,
                     std::int64_t queries, std::int64_t keys, double dropout) {
  check_seed(seed);
  const at::Tensor by_queries = empty_mask(batch, heads, queries, keys, seed.options());
  const at::Tensor by_keys = empty_mask(batch, heads, keys, queries, seed.options());
  const auto words = [](const at::Tensor& mask) {
    return reinterpret_cast<std::uint32_t*>(mask.mutable_data_ptr<std::int32_t>());
  };
  const kernels::DropoutMask mask{.by_queries = words(by_queries), .by_keys = words(by_keys)};
  const auto key = static_cast<std::uint64_t>(*seed.const_data_ptr<std::int64_t>());
  const int query_blocks = kernels::num_blocks(static_cast<int>(queries));
  const int key_blocks = kernels::num_blocks(static_cast<int>(keys));
  const kernels::KeepProbDigits digits = kernels::make_keep_prob_digits(keep_steps(dropout));
  for (int head = 0; head < batch * heads; ++head) {
    for (int i = 0; i < query_blocks * key_blocks * kernels::kSamplesPerBlock; ++i) {
      kernels::sample_into(mask, key, head, i, query_blocks, key_blocks, digits);
    }
  }
  return {by_queries, by_keys};
}

at::Tensor fused_attention_mask_cpu(const at::Tensor& seed, std::int64_t batch, std::int64_t heads,
                                    std::int64_t queries, std::int64_t keys, double dropout) {
  const auto [mask, by_keys] = sample_masks_cpu(seed, batch, heads, queries, keys, dropout);
  return unpack_mask(mask, queries, keys);
}

/// The same in the memory layout of empty_heads_like().
at::Tensor as_heads(const at::Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); }

/// mask / keep_prob, what weights are multiplied by; undefined without dropout.
at::Tensor dropout_factors(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& mask,
                           double dropout) {
  if (!mask) return {};
  return unpack_mask(*mask, q.size(2), k.size(2)).to(q.scalar_type()) * inv_keep_prob(dropout);
}

OptionalTensor sample_mask_cpu(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& seed,
                               double dropout) {
  if (!drops(dropout)) return {};
  return std::get<0>(sample_masks_cpu(*seed, q.size(0), q.size(1), q.size(2), k.size(2), dropout));
}

Two attend_with(const OptionalTensor& mask, const at::Tensor& q, const at::Tensor& k,
                const at::Tensor& v, double dropout, double scale) {
  const at::Tensor s = at::matmul(q, k.transpose(-2, -1)) * scale;
  const at::Tensor lse = at::logsumexp(s, -1).to(at::kFloat) / std::log(2.0);
  at::Tensor p = at::softmax(s, -1);
  const at::Tensor factors = dropout_factors(q, k, mask, dropout);
  if (factors.defined()) p = p * factors;
  return {as_heads(at::matmul(p, v)), at::constant_pad_nd(lse, {0, lse_tokens(q) - q.size(2)},
                                                          std::numeric_limits<double>::infinity())};
}

Two fused_attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const OptionalTensor& seed, double dropout, double scale) {
  check_fused_attention(q, k, v, seed, dropout);
  return attend_with(sample_mask_cpu(q, k, seed, dropout), q, k, v, dropout, scale);
}

Four fused_attention_with_masks_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& seed, double dropout, double scale) {
  check_fused_attention(q, k, v, seed, dropout);
  const auto [mask, by_keys] =
      sample_masks_cpu(seed, q.size(0), q.size(1), q.size(2), k.size(2), dropout);
  const auto [y, lse] = attend_with(mask, q, k, v, dropout, scale);
  return {y, lse, mask, by_keys};
}

Three fused_attention_backward_cpu(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& y, const at::Tensor& lse,
                                   const OptionalTensor& seed, double dropout, double scale,
                                   const OptionalTensor& mask,
                                   const OptionalTensor& /*mask_by_keys*/) {
  check_fused_attention_backward(grad, q, k, v, y, lse, seed, dropout, mask.has_value());
  const at::Tensor sums = lse.narrow(-1, 0, q.size(2)).unsqueeze(-1) * std::log(2.0);
  const at::Tensor p = at::exp(at::matmul(q, k.transpose(-2, -1)) * scale - sums);
  at::Tensor dropped = p;
  at::Tensor dp = at::matmul(grad, v.transpose(-2, -1));
  const at::Tensor factors =
      dropout_factors(q, k, mask ? mask : sample_mask_cpu(q, k, seed, dropout), dropout);
  if (factors.defined()) {
    dropped = p * factors;
    dp = dp * factors;
  }
  const at::Tensor ds = p * (dp - (grad * y).sum(-1, /*keepdim=*/true)) * scale;
  return {as_heads(at::matmul(ds, k)), as_heads(at::matmul(ds.transpose(-2, -1), q)),
          as_heads(at::matmul(dropped.transpose(-2, -1), grad))};
}

// ---- Meta ---------------------------------------------------------------------------------------

Two fused_attention_meta(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                         const OptionalTensor& /*seed*/, double /*dropout*/, double /*scale*/) {
  const c10::SymInt rows =
      (q.sym_size(2) + (kernels::kBlockSize - 1)) / kernels::kBlockSize * kernels::kBlockSize;
  return {empty_heads_like(q),
          at::empty_symint({q.sym_size(0), q.sym_size(1), rows}, q.options().dtype(at::kFloat))};
}

Four fused_attention_with_masks_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& seed, double dropout, double scale) {
  const auto [y, lse] = fused_attention_meta(q, k, v, seed, dropout, scale);
  const c10::SymInt batch = q.sym_size(0);
  const c10::SymInt heads = q.sym_size(1);
  return {y, lse, empty_mask(batch, heads, q.sym_size(2), k.sym_size(2), q.options()),
          empty_mask(batch, heads, k.sym_size(2), q.sym_size(2), q.options())};
}

Three fused_attention_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& q,
                                    const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& /*y*/, const at::Tensor& /*lse*/,
                                    const OptionalTensor& /*seed*/, double /*dropout*/,
                                    double /*scale*/, const OptionalTensor& /*mask*/,
                                    const OptionalTensor& /*mask_by_keys*/) {
  return {empty_heads_like(q), empty_heads_like(k), empty_heads_like(v)};
}

// ---- Autograd -----------------------------------------------------------------------------------

Two call_fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const OptionalTensor& seed, double dropout, double scale) {
  static const auto handle =
      torch::find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const OptionalTensor&, double, double)>("rotary::fused_attention");
  return handle.call(q, k, v, seed, dropout, scale);
}

Four call_fused_attention_with_masks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& seed, double dropout, double scale) {
  static const auto handle = torch::find_operator<Four(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double, double)>(
      "rotary::fused_attention_with_masks");
  return handle.call(q, k, v, seed, dropout, scale);
}

Three call_fused_attention_backward(const at::Tensor& grad, const variable_list& saved,
                                    double dropout, double scale) {
  static const auto handle = torch::find_operator<Three(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, const OptionalTensor&, double, double, const OptionalTensor&,
      const OptionalTensor&)>("rotary::fused_attention_backward");
  const auto optional = [](const at::Tensor& x) {
    return x.defined() ? std::make_optional(x) : std::nullopt;
  };
  return handle.call(grad, saved[0], saved[1], saved[2], saved[3], saved[4], optional(saved[5]),
                     dropout, scale, optional(saved[6]), optional(saved[7]));
}

struct FusedAttention : ::torch::autograd::Function<FusedAttention> {
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const OptionalTensor& seed, double dropout,
                               double scale, bool needs_grad) {
    const torch::BelowAutogradAndAutocast inside;
    at::Tensor y;
    at::Tensor lse;
    at::Tensor mask;
    at::Tensor by_keys;
    if (needs_grad && drops(dropout) && seed && saves_masks(q, k)) {
      std::tie(y, lse, mask, by_keys) =
          call_fused_attention_with_masks(q, k, v, *seed, dropout, scale);
    } else {
      std::tie(y, lse) = call_fused_attention(q, k, v, seed, dropout, scale);
    }
    context->save_for_backward({q, k, v, y, lse, seed.value_or(at::Tensor()), mask, by_keys});
    context->saved_data["dropout"] = dropout;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({lse});
    context->set_materialize_grads(false);
    return {y, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list results(7);
    if (!grads[0].defined()) return results;
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(),
                                "[attend] the library's own kernel has no second derivative: "
                                "sdpa_kernel(SDPBackend.MATH) has one");
    std::tie(results[0], results[1], results[2]) = call_fused_attention_backward(
        grads[0], context->get_saved_variables(), context->saved_data["dropout"].toDouble(),
        context->saved_data["scale"].toDouble());
    return results;
  }
};

Two fused_attention_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const OptionalTensor& seed, double dropout, double scale) {
  const bool needs_grad =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const variable_list results = FusedAttention::apply(q, k, v, seed, dropout, scale, needs_grad);
  return {results[0], results[1]};
}

}  // namespace

at::Tensor unpack_mask(const at::Tensor& mask, std::int64_t rows, std::int64_t columns) {
  const at::TensorOptions options = mask.options().dtype(at::kLong);
  const at::Tensor row = at::arange(kernels::kBlockSize, options).unsqueeze(1);
  const at::Tensor column = at::arange(kernels::kBlockSize, options).unsqueeze(0);
  const auto digit = [](const at::Tensor& x, int divisor, int modulus) {
    return at::remainder(at::floor_divide(x, divisor), modulus);
  };
  // See MaskSample in dropout_mask.h.
  const at::Tensor word = at::floor_divide(row, 16) * 32 + digit(row, 2, 4) * 8 +
                          digit(column, 2, 4) * 2 + digit(row, 1, 2);
  const at::Tensor bit =
      digit(row, 8, 2) * 16 + digit(column, 1, 2) * 8 + 7 - at::floor_divide(column, 8);
  const at::Tensor words = mask.to(at::kLong).index_select(-1, word.flatten());
  return at::bitwise_and(at::bitwise_right_shift(words, bit.flatten()), 1)
      .to(at::kBool)
      .unflatten(-1, {kernels::kBlockSize, kernels::kBlockSize})
      .transpose(3, 4)
      .flatten(4, 5)
      .flatten(2, 3)
      .narrow(2, 0, rows)
      .narrow(3, 0, columns);
}

at::Tensor fused_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        double dropout, double scale) {
  OptionalTensor seed;
  if (drops(dropout)) {
    seed = at::randint(std::numeric_limits<std::int64_t>::max(), {1}, q.options().dtype(at::kLong));
  }
  return std::get<0>(call_fused_attention(q, k, v, seed, dropout, scale));
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("fused_attention(Tensor q, Tensor k, Tensor v, Tensor? seed, float dropout, float scale) -> "
      "(Tensor, Tensor)");
  add("fused_attention_with_masks(Tensor q, Tensor k, Tensor v, Tensor seed, float dropout, "
      "float scale) -> (Tensor, Tensor, Tensor, Tensor)");
  add("fused_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor y, Tensor lse, "
      "Tensor? seed, float dropout, float scale, Tensor? mask=None, "
      "Tensor? mask_by_keys=None) -> (Tensor, Tensor, Tensor)");
  add("fused_attention_mask(Tensor seed, int batch, int heads, int queries, int keys, "
      "float dropout) -> Tensor");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("fused_attention", rotary::transformer::fused_attention_cpu);
  m.impl("fused_attention_with_masks", rotary::transformer::fused_attention_with_masks_cpu);
  m.impl("fused_attention_backward", rotary::transformer::fused_attention_backward_cpu);
  m.impl("fused_attention_mask", rotary::transformer::fused_attention_mask_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("fused_attention", rotary::transformer::fused_attention_meta);
  m.impl("fused_attention_with_masks", rotary::transformer::fused_attention_with_masks_meta);
  m.impl("fused_attention_backward", rotary::transformer::fused_attention_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("fused_attention", rotary::transformer::fused_attention_autograd);
}
