// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "attention/plan.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>

#include <limits>

#include "attention/hopper/attention.h"

namespace rotary::torch {
namespace {

/// at::SDPBackend, which only headers of PyTorch's own sources name.
enum : std::int64_t { kMath = 0, kFlash = 1, kEfficient = 2, kCudnn = 3 };

const char* name_of_choice(std::int64_t choice) {
  switch (choice) {
    case kFlash:
      return "flash";
    case kEfficient:
      return "efficient";
    case kCudnn:
      return "cudnn";
    case kMath:
      return "math";
    default:
      return "other";
  }
}

/// Forgets the keys from `end` on and those before `begin`.
void keep_keys(Plan& plan, AttendOptions& options, const c10::SymInt& begin,
               const c10::SymInt& end) {
  const c10::SymInt kept = end - begin;
  plan.keys = plan.keys.narrow_symint(2, begin, kept);
  plan.values = plan.values.narrow_symint(2, begin, kept);
  if (options.padding) options.padding = options.padding->narrow_symint(1, begin, kept);
  if (options.bias && options.bias->sym_size(-1) != 1) {
    options.bias = options.bias->narrow_symint(-1, begin, kept);
  }
  options.first = options.first - begin;
}

/// Keys that no query sees need no work; what then holds for every query needs no mask.
void simplify(const at::Tensor& q, Plan& plan, AttendOptions& options) {
  const c10::SymInt queries = q.sym_size(2);
  const c10::SymInt keys = plan.keys.sym_size(2);
  c10::SymInt begin = 0;
  c10::SymInt end = keys;
  if (options.causal && options.first + queries < keys) end = options.first + queries;
  if (options.window) {
    const c10::SymInt before = options.first - *options.window + 1;
    const c10::SymInt behind = options.first + queries - 1 + *options.window;
    if (before > 0) begin = before;
    if (!options.causal && behind < end) end = behind;
  }
  if (end < 0) end = 0;
  if (begin > end) begin = end;
  if (begin != 0 || end != keys) keep_keys(plan, options, begin, end);
  const c10::SymInt left = end - begin;
  const c10::SymInt last = options.first + queries - 1;  // where the last query stands
  if (options.window && last < *options.window &&
      (options.causal || left - 1 - options.first < *options.window)) {
    options.window.reset();
  }
  if (options.causal && options.first >= left - 1) options.causal = false;
}

/// What PyTorch chooses. Under vmap it cannot be asked; math is what it then takes.
std::int64_t choice_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const std::optional<at::Tensor>& mask, const AttendOptions& options,
                       bool causal) {
  for (const at::Tensor& x : {q, k, v}) {
    if (x.key_set().has(c10::DispatchKey::FuncTorchBatched)) return kMath;
  }
  return at::_fused_sdp_choice(q, k, v, mask, options.dropout, causal, options.scale,
                               q.sym_size(1) != k.sym_size(1));
}

/// Keys and values with as many heads as q, for kernels that do not know groups.
void repeat_heads(const at::Tensor& q, Plan& plan) {
  const c10::SymInt times = q.sym_size(1) / plan.keys.sym_size(1);
  const auto repeated = [&](const at::Tensor& x) {
    return x.unsqueeze(2)
        .expand_symint({x.sym_size(0), x.sym_size(1), times, x.sym_size(2), x.sym_size(3)})
        .flatten(1, 2);
  };
  plan.keys = repeated(plan.keys);
  plan.values = repeated(plan.values);
}

/// The kernel, with heads of keys repeated where it does not know groups.
void choose(const at::Tensor& q, Plan& plan, const AttendOptions& options) {
  plan.grouped = q.sym_size(1) != plan.keys.sym_size(1);
  const auto ask = [&](const at::Tensor& k, const at::Tensor& v) {
    return choice_of(q, k, v, plan.mask, options, plan.causal);
  };
  std::int64_t choice = ask(plan.keys, plan.values);
  if (plan.grouped && choice == kMath) {
    // A copy of the heads is small beside all scores in memory.
    choice = ask(in_all_heads(plan.keys, q), in_all_heads(plan.values, q));
    if (choice != kMath) {
      repeat_heads(q, plan);
      plan.grouped = false;
    }
  }
  plan.backend = name_of_choice(choice);
}

/// Whether the flash kernel can be called as it is. It aligns the last query with the last key.
bool flash_fits(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  const at::Tensor& k = plan.keys;
  const bool aligned =
      options.cu_seqlens ? q.sym_size(0) == 1 : options.first + q.sym_size(2) == k.sym_size(2);
  const bool fits = q.is_cuda() && !options.bias && !options.padding && aligned &&
                    (q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16) &&
                    q.sym_size(3) == plan.values.sym_size(3) && q.sym_size(3) % 8 == 0 &&
                    q.sym_size(3) <= 256 && at::globalContext().userEnabledFlashSDP();
  if (!fits) return false;
  // The machine, too, must have it: where it has, this is what PyTorch chooses without a mask.
  const std::int64_t choice = choice_of(q, k, plan.values, std::nullopt, options, false);
  return choice == kFlash || choice == kCudnn;
}

/// Whether the memory-efficient kernel can be called as it is, for packed sequences that flash does
/// not take: those of float32. Every query sees itself.
bool efficient_fits(const at::Tensor& q, const Plan& plan, const AttendOptions& options) {
  const bool packed = options.cu_seqlens && !options.cu_seqlens_k && q.sym_size(0) == 1;
  const bool fits = q.is_cuda() && packed && !options.bias && !options.padding && !options.window &&
                    q.scalar_type() == at::kFloat && q.sym_size(3) % 4 == 0 &&
                    plan.values.sym_size(3) % 4 == 0 &&
                    at::globalContext().userEnabledMemEfficientSDP();
  if (!fits) return false;
  return choice_of(q, in_all_heads(plan.keys, q), in_all_heads(plan.values, q), std::nullopt,
                   options, false) == kEfficient;
}

/// Boundaries that can be read here and now.
bool on_host(const at::Tensor& q, const AttendOptions& options) {
  const auto readable = [](const at::Tensor& x) {
    return x.device().is_cpu() && !at::isTensorSubclassLike(x);
  };
  return readable(q) && readable(*options.cu_seqlens) &&
         (!options.cu_seqlens_k || readable(*options.cu_seqlens_k));
}

/// The mask as one tensor of the type that kernels take, in which every query sees something.
void add_mask(const at::Tensor& q, Plan& plan, const AttendOptions& options) {
  std::optional<at::Tensor> visible = make_visible(q, plan.keys, options);
  if (visible) {
    const bool always = !options.padding && !options.cu_seqlens && options.first >= 0 &&
                        (!options.window || options.first + q.sym_size(2) <= plan.keys.sym_size(2));
    if (!always) {
      plan.sees = visible->any(-1, /*keepdim=*/true);
      visible = at::logical_or(*visible, at::logical_not(*plan.sees));
    }
  }
  plan.mask = visible;
  if (!options.bias) return;
  at::Tensor bias = options.bias->to(q.scalar_type());
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  if (visible) bias = at::where(*visible, bias, -std::numeric_limits<double>::infinity());
  plan.mask = bias;
}

}  // namespace

at::Tensor in_all_heads(const at::Tensor& x, const at::Tensor& q) {
  return x.narrow(1, 0, 1).expand_symint(
      {x.sym_size(0), q.sym_size(1), x.sym_size(2), x.sym_size(3)});
}

Plan make_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               AttendOptions& options) {
  Plan plan;
  plan.keys = k;
  plan.values = v;
  if (!options.cu_seqlens) simplify(q, plan, options);
  if (plan.keys.sym_size(2) == 0) {
    plan.kernel = Plan::Kernel::kNone;
    return plan;
  }
  const bool square = options.first == 0 && q.sym_size(2) == plan.keys.sym_size(2);
  const bool masked = options.causal || options.window || options.cu_seqlens;
  if (!masked && !options.padding && !options.bias && options.scale.value_or(1.0) > 0.0 &&
      fused_fits(q, plan.keys, plan.values, options.dropout)) {
    plan.kernel = Plan::Kernel::kFused;
    plan.backend = "rotary";
    return plan;
  }
  if (options.causal && square && !options.window && !options.cu_seqlens && !options.padding &&
      !options.bias) {
    plan.causal = true;
  } else if (masked && flash_fits(q, plan, options)) {
    plan.kernel = Plan::Kernel::kFlash;
    plan.backend = "flash";
    return plan;
  } else if (efficient_fits(q, plan, options)) {
    if (q.sym_size(1) != plan.keys.sym_size(1)) repeat_heads(q, plan);
    plan.kernel = Plan::Kernel::kEfficient;
    plan.backend = "efficient";
    return plan;
  } else if (options.cu_seqlens && !options.bias && !options.padding && on_host(q, options)) {
    plan.kernel = Plan::Kernel::kBySequence;
    return plan;
  } else {
    add_mask(q, plan, options);
  }
  choose(q, plan, options);
  return plan;
}

}  // namespace rotary::torch
