// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Softmax attention on the selected kernel, and torch.ops.rotary.attend.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "transformer/attention/attend_plain.h"
#include "transformer/attention/flash.h"
#include "transformer/attention/hopper/fused_attention.h"
#include "transformer/attention/select_kernel.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

std::string& last_backend() {
  thread_local std::string name;
  return name;
}

at::Tensor run_sdpa(const at::Tensor& q, const AttentionCall& call, const AttendOptions& options) {
  const at::Tensor y =
      at::scaled_dot_product_attention(q, call.keys, call.values, call.mask, options.dropout,
                                       call.causal, options.scale, call.grouped);
  return call.any_visible ? at::where(*call.any_visible, y, 0) : y;
}

/// Zeros that depend on q, k and v, for autograd.
at::Tensor attend_no_keys(const at::Tensor& q, const AttentionCall& call) {
  const at::Tensor weights = at::matmul(q, expand_heads(call.keys, q).transpose(-2, -1));
  return at::matmul(weights, expand_heads(call.values, q));
}

at::Tensor run_fused(const at::Tensor& q, const AttentionCall& call, const AttendOptions& options) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(q.size(3)));
  return fused_attend(q, call.keys, call.values, options.dropout, scale);
}

/// Packed sequences.
at::Tensor run_efficient(const at::Tensor& q, const AttentionCall& call,
                         const AttendOptions& options) {
  constexpr std::int64_t kNoMask = 0;
  constexpr std::int64_t kCausal = 1;
  const at::Tensor cu_seqlens = options.cu_seqlens->to(q.options().dtype(at::kInt)).contiguous();
  const auto heads = [](const at::Tensor& x) { return contiguous_heads(x).transpose(1, 2); };
  const c10::SymInt longest = options.max_seqlen ? *options.max_seqlen : q.sym_size(2);
  const bool needs_grad =
      at::GradMode::is_enabled() &&
      (q.requires_grad() || call.keys.requires_grad() || call.values.requires_grad());
  const at::Tensor y = std::get<0>(at::_efficient_attention_forward_symint(
      heads(q), heads(call.keys), heads(call.values), std::nullopt, cu_seqlens, cu_seqlens, longest,
      longest, options.dropout, options.causal ? kCausal : kNoMask, needs_grad, options.scale));
  return y.transpose(1, 2);
}

at::Tensor run_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      AttendOptions options);

std::vector<std::int64_t> batch_boundaries(std::string_view name, const at::Tensor& x,
                                           std::int64_t tokens) {
  const at::Tensor host = x.to(at::kLong).contiguous();
  const auto* data = host.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> boundaries(data, data + host.numel());
  bool rising = boundaries.front() == 0 && boundaries.back() == tokens;
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    rising = rising && boundaries[i - 1] <= boundaries[i];
  }
  TORCH_CHECK_VALUE(rising, "[attend] ", name, " must rise from 0 to the number of tokens, ",
                    tokens, ", got ", boundaries);
  return boundaries;
}

at::Tensor run_per_sequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttendOptions& options) {
  const auto queries = batch_boundaries("cu_seqlens", *options.cu_seqlens, q.size(2));
  const auto keys = options.cu_seqlens_k
                        ? batch_boundaries("cu_seqlens_k", *options.cu_seqlens_k, k.size(2))
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
    results.push_back(run_attend(q.narrow(2, queries[s], rows), k.narrow(2, keys[s], columns),
                                 v.narrow(2, keys[s], columns), std::move(one)));
  }
  if (results.empty()) return q.new_zeros({q.size(0), q.size(1), 0, v.size(3)});
  return at::cat(results, 2);
}

at::Tensor run_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      AttendOptions options) {
  const AttentionCall call = select_kernel(q, k, v, options);
  last_backend() = call.backend;
  switch (call.kernel) {
    case AttentionCall::Kernel::kNoKeys:
      return attend_no_keys(q, call);
    case AttentionCall::Kernel::kFused:
      return run_fused(q, call, options);
    case AttentionCall::Kernel::kSdpa:
      return run_sdpa(q, call, options);
    case AttentionCall::Kernel::kFlash:
      return run_flash(q, call, options);
    case AttentionCall::Kernel::kEfficient:
      return run_efficient(q, call, options);
    case AttentionCall::Kernel::kPerSequence:
      break;
  }
  return run_per_sequence(q, k, v, options);
}

/// The backend of the longest sequence.
const char* per_sequence_backend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttendOptions& options) {
  const auto rows = batch_boundaries("cu_seqlens", *options.cu_seqlens, q.size(2));
  std::int64_t longest = 0;
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    longest = std::max(longest, rows[s + 1] - rows[s]);
  }
  AttendOptions one = options;
  one.cu_seqlens.reset();
  one.cu_seqlens_k.reset();
  const std::int64_t keys = std::min(longest, k.size(2));
  return select_kernel(q.narrow(2, 0, longest), k.narrow(2, 0, keys), v.narrow(2, 0, keys), one)
      .backend;
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttendOptions& options) {
  check_attend("attend", q, k, v, options);
  if (!options.value_vectors) return run_attend(q, k, v, options);
  last_backend() = "math";
  return attend_plain(q, k, v, options);
}

std::string attention_backend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttendOptions& options) {
  check_attend("attention_backend", q, k, v, options);
  if (options.value_vectors) return "math";
  AttendOptions narrowed = options;
  const AttentionCall call = select_kernel(q, k, v, narrowed);
  return call.kernel == AttentionCall::Kernel::kPerSequence ? per_sequence_backend(q, k, v, options)
                                                            : call.backend;
}

std::string last_attention_backend() { return last_backend(); }

namespace {

/// attend() or attention_backend() with the arguments of an operator.
template <auto kFunction>
auto with_arguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    c10::SymInt first, bool causal, std::optional<c10::SymInt> window,
                    const OptionalTensor& padding, const OptionalTensor& cu_seqlens,
                    const OptionalTensor& cu_seqlens_k, std::optional<c10::SymInt> max_seqlen,
                    const OptionalTensor& bias, double dropout, std::optional<double> scale,
                    const OptionalTensor& value_vectors) {
  return kFunction(q, k, v,
                   {.first = std::move(first),
                    .causal = causal,
                    .window = std::move(window),
                    .padding = padding,
                    .cu_seqlens = cu_seqlens,
                    .cu_seqlens_k = cu_seqlens_k,
                    .max_seqlen = std::move(max_seqlen),
                    .bias = bias,
                    .value_vectors = value_vectors,
                    .dropout = dropout,
                    .scale = scale});
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const std::string arguments =
      "(Tensor q, Tensor k, Tensor v, *, SymInt first=0, bool causal=False, SymInt? window=None, "
      "Tensor? padding=None, Tensor? cu_seqlens=None, Tensor? cu_seqlens_k=None, "
      "SymInt? max_seqlen=None, Tensor? bias=None, float dropout=0.0, float? scale=None, "
      "Tensor? value_vectors=None)";
  m.def(("attend" + arguments + " -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
  m.def(("attention_backend" + arguments + " -> str").c_str());
  m.def("last_attention_backend() -> str", &rotary::transformer::last_attention_backend);
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("attend", rotary::transformer::with_arguments<rotary::transformer::attend>);
  m.impl("attention_backend",
         rotary::transformer::with_arguments<rotary::transformer::attention_backend>);
}
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  m.impl("attend", rotary::transformer::with_arguments<rotary::transformer::attend>);
}
