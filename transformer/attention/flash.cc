// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/attention/flash.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

namespace rotary::transformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// Arguments of the kernel beside its tensors [batch, tokens, heads, head_dim], of packed sequences
/// [tokens, heads, head_dim].
struct FlashArguments {
  OptionalTensor cu_seqlens_q{};
  OptionalTensor cu_seqlens_k{};
  c10::SymInt max_q = 0;
  c10::SymInt max_k = 0;
  double dropout = 0.0;
  bool causal = false;
  std::optional<double> scale{};
  std::optional<c10::SymInt> left{};
  std::optional<c10::SymInt> right{};
};

auto flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const FlashArguments& a) {
  return at::_flash_attention_forward_symint(q, k, v, a.cu_seqlens_q, a.cu_seqlens_k, a.max_q,
                                             a.max_k, a.dropout, a.causal,
                                             /*return_debug_mask=*/false, a.scale, a.left, a.right);
}

/// Turns PyTorch's deterministic algorithms on while it lives, without their filling of new memory.
/// They are a setting of the process: operators that other threads call meanwhile see it, too.
class DeterministicAlgorithms {
 public:
  DeterministicAlgorithms()
      : on_(context().deterministicAlgorithms()),
        warn_only_(context().deterministicAlgorithmsWarnOnly()),
        fill_(context().deterministicFillUninitializedMemory()) {
    context().setDeterministicFillUninitializedMemory(false);
    context().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  ~DeterministicAlgorithms() {
    context().setDeterministicAlgorithms(on_, warn_only_);
    context().setDeterministicFillUninitializedMemory(fill_);
  }
  DeterministicAlgorithms(const DeterministicAlgorithms&) = delete;
  DeterministicAlgorithms& operator=(const DeterministicAlgorithms&) = delete;

 private:
  static at::Context& context() { return at::globalContext(); }

  bool on_;
  bool warn_only_;
  bool fill_;
};

struct DeterministicFlash : ::torch::autograd::Function<DeterministicFlash> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const FlashArguments& a) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, lse, rng_state, unused, debug_mask] = flash_forward(q, k, v, a);
    const auto or_none = [](const OptionalTensor& x) { return x.value_or(at::Tensor()); };
    context->save_for_backward(
        {q, k, v, y, lse, or_none(a.cu_seqlens_q), or_none(a.cu_seqlens_k), rng_state, unused});
    context->saved_data["max_q"] = a.max_q;
    context->saved_data["max_k"] = a.max_k;
    context->saved_data["dropout"] = a.dropout;
    context->saved_data["causal"] = a.causal;
    context->saved_data["scale"] = a.scale;
    context->saved_data["left"] = a.left;
    context->saved_data["right"] = a.right;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(),
                                "[attend] PyTorch's flash kernel has no second derivative");
    constexpr std::size_t kNumArguments = 4;
    variable_list results(kNumArguments);
    if (!grads[0].defined()) return results;
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto window = [&data](const char* name) -> std::optional<c10::SymInt> {
      return data[name].isNone() ? std::nullopt : std::optional(data[name].toSymInt());
    };
    const DeterministicAlgorithms deterministic;
    std::tie(results[0], results[1], results[2]) = at::_flash_attention_backward_symint(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6],
        data["max_q"].toSymInt(), data["max_k"].toSymInt(), data["dropout"].toDouble(),
        data["causal"].toBool(), saved[7], saved[8], data["scale"].toOptional<double>(),
        window("left"), window("right"));
    return results;
  }
};

}  // namespace

at::Tensor contiguous_heads(const at::Tensor& x) {
  return x.sym_stride(-1) == 1 ? x : x.contiguous();
}

at::Tensor run_flash(const at::Tensor& q, const AttentionCall& call, const AttendOptions& options) {
  FlashArguments a{.dropout = options.dropout, .causal = options.causal, .scale = options.scale};
  if (options.window) {
    a.left = *options.window - 1;
    a.right = options.causal ? c10::SymInt(0) : *options.window - 1;
  }
  const bool packed = options.cu_seqlens.has_value();
  if (packed) {
    const auto boundaries = [&q](const at::Tensor& x) {
      return x.to(q.options().dtype(at::kInt)).contiguous();
    };
    a.cu_seqlens_q = boundaries(*options.cu_seqlens);
    a.cu_seqlens_k = options.cu_seqlens_k ? boundaries(*options.cu_seqlens_k) : a.cu_seqlens_q;
  }
  const auto longest = [&](const at::Tensor& x) {
    return packed && options.max_seqlen ? *options.max_seqlen : x.sym_size(2);
  };
  a.max_q = longest(q);
  a.max_k = longest(call.keys);
  const auto heads = [packed](const at::Tensor& x) {
    const at::Tensor tokens_first = contiguous_heads(x).transpose(1, 2);
    return packed ? tokens_first.squeeze(0) : tokens_first;
  };
  const at::Tensor y =
      options.deterministic
          ? DeterministicFlash::apply(heads(q), heads(call.keys), heads(call.values), a)
          : std::get<0>(flash_forward(heads(q), heads(call.keys), heads(call.values), a));
  return (packed ? y.unsqueeze(0) : y).transpose(1, 2);
}

}  // namespace rotary::transformer
