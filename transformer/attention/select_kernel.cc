// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/attention/select_kernel.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>

#include <limits>

#include "transformer/attention/hopper/fused_attention.h"

namespace rotary::transformer {
namespace {

/// Values of at::SDPBackend, whose header PyTorch does not install.
enum : std::int64_t { kMath = 0, kFlash = 1, kEfficient = 2, kCudnn = 3 };

const char* backend_name(std::int64_t choice) {
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

/// Keeps keys `begin` to `end` - 1.
void narrow_keys(AttentionCall& call, AttendOptions& options, const c10::SymInt& begin,
                 const c10::SymInt& end) {
  const c10::SymInt length = end - begin;
  call.keys = call.keys.narrow_symint(2, begin, length);
  call.values = call.values.narrow_symint(2, begin, length);
  if (options.padding) options.padding = options.padding->narrow_symint(1, begin, length);
  if (options.bias && options.bias->sym_size(-1) != 1) {
    options.bias = options.bias->narrow_symint(-1, begin, length);
  }
  options.first = options.first - begin;
}

/// Drops keys that no query sees, and masks that then mask nothing.
void simplify(const at::Tensor& q, AttentionCall& call, AttendOptions& options) {
  const c10::SymInt queries = q.sym_size(2);
  const c10::SymInt keys = call.keys.sym_size(2);
  c10::SymInt begin = 0;
  c10::SymInt end = keys;
  if (options.causal && options.first + queries < keys) end = options.first + queries;
  if (options.window) {
    const c10::SymInt window_begin = options.first - *options.window + 1;
    const c10::SymInt window_end = options.first + queries - 1 + *options.window;
    if (window_begin > 0) begin = window_begin;
    if (!options.causal && window_end < end) end = window_end;
  }
  if (end < 0) end = 0;
  if (begin > end) begin = end;
  if (begin != 0 || end != keys) narrow_keys(call, options, begin, end);
  const c10::SymInt num_keys = end - begin;
  const c10::SymInt last = options.first + queries - 1;  // index of the last query's own key
  if (options.window && last < *options.window &&
      (options.causal || num_keys - 1 - options.first < *options.window)) {
    options.window.reset();
  }
  if (options.causal && options.first >= num_keys - 1) options.causal = false;
}

/// PyTorch's choice of a backend. Under vmap it cannot be asked, and takes math.
std::int64_t sdpa_choice(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::optional<at::Tensor>& mask, const AttendOptions& options,
                         bool causal) {
  for (const at::Tensor& x : {q, k, v}) {
    if (x.key_set().has(c10::DispatchKey::FuncTorchBatched)) return kMath;
  }
  return at::_fused_sdp_choice(q, k, v, mask, options.dropout, causal, options.scale,
                               q.sym_size(1) != k.sym_size(1));
}

/// Repeats heads of keys and values, for kernels without grouped-query attention.
void repeat_heads(const at::Tensor& q, AttentionCall& call) {
  const c10::SymInt times = q.sym_size(1) / call.keys.sym_size(1);
  const auto repeated = [&](const at::Tensor& x) {
    return x.unsqueeze(2)
        .expand_symint({x.sym_size(0), x.sym_size(1), times, x.sym_size(2), x.sym_size(3)})
        .flatten(1, 2);
  };
  call.keys = repeated(call.keys);
  call.values = repeated(call.values);
}

/// The backend of scaled_dot_product_attention, with heads of keys repeated where it needs them.
void select_sdpa_backend(const at::Tensor& q, AttentionCall& call, const AttendOptions& options) {
  call.grouped = q.sym_size(1) != call.keys.sym_size(1);
  const auto ask = [&](const at::Tensor& k, const at::Tensor& v) {
    return sdpa_choice(q, k, v, call.mask, options, call.causal);
  };
  std::int64_t choice = ask(call.keys, call.values);
  if (call.grouped && choice == kMath) {
    // Repeated heads take less memory than the scores that math materialises.
    choice = ask(expand_heads(call.keys, q), expand_heads(call.values, q));
    if (choice != kMath) {
      repeat_heads(q, call);
      call.grouped = false;
    }
  }
  call.backend = backend_name(choice);
}

/// Whether PyTorch's flash kernel can be called directly. It aligns the last query with the last
/// key.
bool can_use_flash(const at::Tensor& q, const AttentionCall& call, const AttendOptions& options) {
  const at::Tensor& k = call.keys;
  const bool aligned =
      options.cu_seqlens ? q.sym_size(0) == 1 : options.first + q.sym_size(2) == k.sym_size(2);
  const bool fits = q.is_cuda() && !options.bias && !options.padding && aligned &&
                    (q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16) &&
                    q.sym_size(3) == call.values.sym_size(3) && q.sym_size(3) % 8 == 0 &&
                    q.sym_size(3) <= 256 && at::globalContext().userEnabledFlashSDP();
  if (!fits) return false;
  // Where the device supports it, PyTorch chooses it for a call without a mask.
  const std::int64_t choice = sdpa_choice(q, k, call.values, std::nullopt, options, false);
  return choice == kFlash || choice == kCudnn;
}

bool needs_gradients(const at::Tensor& q, const AttentionCall& call) {
  return at::GradMode::is_enabled() &&
         (q.requires_grad() || call.keys.requires_grad() || call.values.requires_grad());
}

/// Whether PyTorch's memory-efficient kernel can be called directly, for packed sequences of
/// float32, which flash does not take.
bool can_use_efficient(const at::Tensor& q, const AttentionCall& call,
                       const AttendOptions& options) {
  const bool packed = options.cu_seqlens && !options.cu_seqlens_k && q.sym_size(0) == 1;
  const bool fits = q.is_cuda() && packed && !options.bias && !options.padding && !options.window &&
                    q.scalar_type() == at::kFloat && q.sym_size(3) % 4 == 0 &&
                    call.values.sym_size(3) % 4 == 0 &&
                    at::globalContext().userEnabledMemEfficientSDP();
  if (!fits) return false;
  return sdpa_choice(q, expand_heads(call.keys, q), expand_heads(call.values, q), std::nullopt,
                     options, false) == kEfficient;
}

/// Whether boundaries of packed sequences can be read without synchronisation or tracing.
bool readable_on_host(const at::Tensor& q, const AttendOptions& options) {
  const auto readable = [](const at::Tensor& x) {
    return x.device().is_cpu() && !at::isTensorSubclassLike(x);
  };
  return readable(q) && readable(*options.cu_seqlens) &&
         (!options.cu_seqlens_k || readable(*options.cu_seqlens_k));
}

/// Mask and bias as one tensor. Kernels return NaN for queries that see no key: these see all keys
/// here, and any_visible tells them.
void add_mask(const at::Tensor& q, AttentionCall& call, const AttendOptions& options) {
  std::optional<at::Tensor> visible = make_attention_mask(q, call.keys, options);
  if (visible && !every_query_sees_a_key(q, call.keys, options)) {
    call.any_visible = visible->any(-1, /*keepdim=*/true);
    visible = at::logical_or(*visible, at::logical_not(*call.any_visible));
  }
  call.mask = visible;
  if (!options.bias) return;
  at::Tensor bias = options.bias->to(q.scalar_type());
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  if (visible) bias = at::where(*visible, bias, -std::numeric_limits<double>::infinity());
  // Keys that are not adjacent would leave PyTorch its math backend alone, in float32.
  call.mask = bias.sym_stride(-1) == 1 ? bias : bias.contiguous();
}

}  // namespace

bool every_query_sees_a_key(const at::Tensor& q, const at::Tensor& k,
                            const AttendOptions& options) {
  return !options.padding && !options.cu_seqlens && options.first >= 0 &&
         (!options.window || options.first + q.sym_size(2) <= k.sym_size(2));
}

at::Tensor expand_heads(const at::Tensor& x, const at::Tensor& q) {
  return x.narrow(1, 0, 1).expand_symint(
      {x.sym_size(0), q.sym_size(1), x.sym_size(2), x.sym_size(3)});
}

AttentionCall select_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            AttendOptions& options) {
  AttentionCall call;
  call.keys = k;
  call.values = v;
  if (!options.cu_seqlens) simplify(q, call, options);
  if (call.keys.sym_size(2) == 0) {
    call.kernel = AttentionCall::Kernel::kNoKeys;
    return call;
  }
  const bool square = options.first == 0 && q.sym_size(2) == call.keys.sym_size(2);
  const bool masked = options.causal || options.window || options.cu_seqlens;
  if (!masked && !options.padding && !options.bias && options.scale.value_or(1.0) > 0.0 &&
      use_fused_attention(q, call.keys, call.values, options.dropout)) {
    call.kernel = AttentionCall::Kernel::kFused;
    call.backend = "rotary";
    return call;
  }
  // Without gradients all kernels are deterministic.
  options.deterministic = options.deterministic && needs_gradients(q, call);
  if (options.deterministic && can_use_flash(q, call, options)) {
    call.kernel = AttentionCall::Kernel::kFlash;
    call.backend = "flash";
    return call;
  }
  if (options.causal && square && !options.window && !options.cu_seqlens && !options.padding &&
      !options.bias) {
    call.causal = true;
  } else if (masked && can_use_flash(q, call, options)) {
    call.kernel = AttentionCall::Kernel::kFlash;
    call.backend = "flash";
    return call;
  } else if (can_use_efficient(q, call, options)) {
    if (q.sym_size(1) != call.keys.sym_size(1)) repeat_heads(q, call);
    call.kernel = AttentionCall::Kernel::kEfficient;
    call.backend = "efficient";
    return call;
  } else if (options.cu_seqlens && !options.bias && !options.padding &&
             readable_on_host(q, options)) {
    call.kernel = AttentionCall::Kernel::kPerSequence;
    return call;
  } else {
    add_mask(q, call, options);
  }
  select_sdpa_backend(q, call, options);
  return call;
}

}  // namespace rotary::transformer
