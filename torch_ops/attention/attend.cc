// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Softmax attention, on the kernel that the plan names, and its operators.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/hopper/attention.h"
#include "attention/plan.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

std::string& last_backend() {
  thread_local std::string name;
  return name;
}

at::Tensor run_sdpa(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  const at::Tensor y =
      at::scaled_dot_product_attention(q, plan.keys, plan.values, plan.mask, options.dropout,
                                       plan.causal, options.scale, plan.grouped);
  return plan.sees ? at::where(*plan.sees, y, 0) : y;
}

/// 0, as a function of q, k and v.
at::Tensor sum_of_nothing(const at::Tensor& q, const Plan& plan) {
  const at::Tensor weights = at::matmul(q, in_all_heads(plan.keys, q).transpose(-2, -1));
  return at::matmul(weights, in_all_heads(plan.values, q));
}

at::Tensor run_fused(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(q.size(3)));
  return fused_attend(q, plan.keys, plan.values, options.dropout, scale);
}

/// The kernel reads heads whose elements lie side by side.
at::Tensor dense_heads(const at::Tensor& x) { return x.sym_stride(-1) == 1 ? x : x.contiguous(); }

at::Tensor run_flash(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  std::optional<c10::SymInt> left;
  std::optional<c10::SymInt> right;
  if (options.window) {
    left = *options.window - 1;
    right = options.causal ? c10::SymInt(0) : *options.window - 1;
  }
  OptionalTensor queries_at;
  OptionalTensor keys_at;
  const bool packed = options.cu_seqlens.has_value();
  if (packed) {
    const auto boundaries = [&q](const at::Tensor& x) {
      return x.to(q.options().dtype(at::kInt)).contiguous();
    };
    queries_at = boundaries(*options.cu_seqlens);
    keys_at = options.cu_seqlens_k ? boundaries(*options.cu_seqlens_k) : queries_at;
  }
  const auto heads = [packed](const at::Tensor& x) {
    const at::Tensor tokens_first = dense_heads(x).transpose(1, 2);
    return packed ? tokens_first.squeeze(0) : tokens_first;
  };
  const auto longest = [&](const at::Tensor& x) {
    return packed && options.max_seqlen ? *options.max_seqlen : x.sym_size(2);
  };
  const at::Tensor y = std::get<0>(at::_flash_attention_forward_symint(
      heads(q), heads(plan.keys), heads(plan.values), queries_at, keys_at, longest(q),
      longest(plan.keys), options.dropout, options.causal, /*return_debug_mask=*/false,
      options.scale, left, right));
  return (packed ? y.unsqueeze(0) : y).transpose(1, 2);
}

/// Packed sequences by their boundaries.
at::Tensor run_efficient(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  constexpr std::int64_t kNoMask = 0;
  constexpr std::int64_t kCausal = 1;
  const at::Tensor ends = options.cu_seqlens->to(q.options().dtype(at::kInt)).contiguous();
  const auto heads = [](const at::Tensor& x) { return dense_heads(x).transpose(1, 2); };
  const c10::SymInt longest = options.max_seqlen ? *options.max_seqlen : q.sym_size(2);
  const bool needs_grad =
      at::GradMode::is_enabled() &&
      (q.requires_grad() || plan.keys.requires_grad() || plan.values.requires_grad());
  const at::Tensor y = std::get<0>(at::_efficient_attention_forward_symint(
      heads(q), heads(plan.keys), heads(plan.values), std::nullopt, ends, ends, longest, longest,
      options.dropout, options.causal ? kCausal : kNoMask, needs_grad, options.scale));
  return y.transpose(1, 2);
}

at::Tensor attend_planned(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          AttendOptions options);

std::vector<std::int64_t> read_boundaries(std::string_view name, const at::Tensor& x,
                                          std::int64_t tokens) {
  const at::Tensor host = x.to(at::kLong).contiguous();
  const auto* data = host.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> all(data, data + host.numel());
  bool rising = all.front() == 0 && all.back() == tokens;
  for (std::size_t i = 1; i < all.size(); ++i) rising = rising && all[i - 1] <= all[i];
  TORCH_CHECK_VALUE(rising, "[attend] ", name, " must rise from 0 to the number of tokens, ",
                    tokens, ", got ", all);
  return all;
}

at::Tensor run_by_sequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options) {
  const auto queries = read_boundaries("cu_seqlens", *options.cu_seqlens, q.size(2));
  const auto keys = options.cu_seqlens_k
                        ? read_boundaries("cu_seqlens_k", *options.cu_seqlens_k, k.size(2))
                        : queries;
  std::vector<at::Tensor> results;
  for (std::size_t s = 0; s + 1 < queries.size(); ++s) {
    const std::int64_t rows = queries[s + 1] - queries[s];
    const std::int64_t columns = keys[s + 1] - keys[s];
    if (rows == 0) continue;
    AttendOptions one;
    one.first = columns - rows;
    one.causal = options.causal;
    one.window = options.window;
    one.dropout = options.dropout;
    one.scale = options.scale;
    results.push_back(attend_planned(q.narrow(2, queries[s], rows), k.narrow(2, keys[s], columns),
                                     v.narrow(2, keys[s], columns), std::move(one)));
  }
  if (results.empty()) return q.new_zeros({q.size(0), q.size(1), 0, v.size(3)});
  return at::cat(results, 2);
}

at::Tensor attend_planned(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          AttendOptions options) {
  const Plan plan = make_plan(q, k, v, options);
  last_backend() = plan.backend;
  switch (plan.kernel) {
    case Plan::Kernel::kNone:
      return sum_of_nothing(q, plan);
    case Plan::Kernel::kFused:
      return run_fused(q, plan, options);
    case Plan::Kernel::kSdpa:
      return run_sdpa(q, plan, options);
    case Plan::Kernel::kFlash:
      return run_flash(q, plan, options);
    case Plan::Kernel::kEfficient:
      return run_efficient(q, plan, options);
    case Plan::Kernel::kBySequence:
      break;
  }
  return run_by_sequence(q, k, v, options);
}

/// Of the longest sequence; empty ones have nothing to do.
const char* backend_by_sequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttendOptions& options) {
  const auto rows = read_boundaries("cu_seqlens", *options.cu_seqlens, q.size(2));
  std::int64_t longest = 0;
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    longest = std::max(longest, rows[s + 1] - rows[s]);
  }
  AttendOptions one = options;
  one.cu_seqlens.reset();
  one.cu_seqlens_k.reset();
  const std::int64_t keys = std::min(longest, k.size(2));
  return make_plan(q.narrow(2, 0, longest), k.narrow(2, 0, keys), v.narrow(2, 0, keys), one)
      .backend;
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttendOptions& options) {
  check_attend("attend", q, k, v, options);
  return attend_planned(q, k, v, options);
}

std::string attention_backend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttendOptions& options) {
  check_attend("attention_backend", q, k, v, options);
  AttendOptions left = options;
  const Plan plan = make_plan(q, k, v, left);
  return plan.kernel == Plan::Kernel::kBySequence ? backend_by_sequence(q, k, v, options)
                                                  : plan.backend;
}

std::string last_attention_backend() { return last_backend(); }

namespace {

/// attend() or attention_backend() with the arguments of an operator.
template <auto kFunction>
auto with_arguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    c10::SymInt first, bool causal, std::optional<c10::SymInt> window,
                    const OptionalTensor& padding, const OptionalTensor& cu_seqlens,
                    const OptionalTensor& cu_seqlens_k, std::optional<c10::SymInt> max_seqlen,
                    const OptionalTensor& bias, double dropout, std::optional<double> scale) {
  return kFunction(q, k, v,
                   {.first = std::move(first),
                    .causal = causal,
                    .window = std::move(window),
                    .padding = padding,
                    .cu_seqlens = cu_seqlens,
                    .cu_seqlens_k = cu_seqlens_k,
                    .max_seqlen = std::move(max_seqlen),
                    .bias = bias,
                    .dropout = dropout,
                    .scale = scale});
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const std::string arguments =
      "(Tensor q, Tensor k, Tensor v, *, SymInt first=0, bool causal=False, SymInt? window=None, "
      "Tensor? padding=None, Tensor? cu_seqlens=None, Tensor? cu_seqlens_k=None, "
      "SymInt? max_seqlen=None, Tensor? bias=None, float dropout=0.0, float? scale=None)";
  m.def(("attend" + arguments + " -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
  m.def(("attention_backend" + arguments + " -> str").c_str());
  m.def("last_attention_backend() -> str", &rotary::torch::last_attention_backend);
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("attend", rotary::torch::with_arguments<rotary::torch::attend>);
  m.impl("attention_backend", rotary::torch::with_arguments<rotary::torch::attention_backend>);
}
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  m.impl("attend", rotary::torch::with_arguments<rotary::torch::attend>);
}
