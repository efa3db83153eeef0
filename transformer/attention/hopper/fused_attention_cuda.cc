// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// torch.ops.rotary.fused_attention* on CUDA.

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "pytorch/cuda_stream.h"
#include "transformer/attention/hopper/checks.h"
#include "transformer/attention/hopper/fused_attention.h"
#include "transformer/attention/hopper/mask_tensor.h"
#include "transformer/kernels/hopper/device.h"
#include "transformer/kernels/launch.h"

namespace rotary::transformer {

namespace kernels = hopper::attention;

#ifdef ROTARY_TORCH_CUDA_KERNELS

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// x, or a copy with strides and alignment as HeadsTensor has them.
at::Tensor tma_compatible(const at::Tensor& x) {
  bool fits = x.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
  for (int i = 0; i < 3; ++i) {
    fits = fits && (x.size(i) == 1 || (x.stride(i) > 0 && x.stride(i) % 8 == 0));
  }
  if (fits) return x;
  const at::Tensor y = x.contiguous();
  return y.is_same(x) ? x.clone() : y;  // allocations are aligned
}

kernels::HeadsTensor mutable_heads(const at::Tensor& x) {
  return {.data = x.mutable_data_ptr(),
          .batch_stride = x.stride(0),
          .head_stride = x.stride(1),
          .token_stride = x.stride(2)};
}
kernels::HeadsTensor const_heads(const at::Tensor& x) {
  return {.data = const_cast<void*>(x.const_data_ptr()),  // the kernels do not write to it
          .batch_stride = x.stride(0),
          .head_stride = x.stride(1),
          .token_stride = x.stride(2)};
}

kernels::Shape shape_of(const at::Tensor& q, const at::Tensor& k) {
  constexpr std::int64_t kMaxTokens = std::numeric_limits<int>::max() / 64;
  TORCH_CHECK_VALUE(std::max({q.size(0) * q.size(1) * q.size(2), k.size(2)}) <= kMaxTokens,
                    "[fused_attention] too many tokens: ", q.sizes());
  return {.batch = static_cast<int>(q.size(0)),
          .heads = static_cast<int>(q.size(1)),
          .queries = static_cast<int>(q.size(2)),
          .keys = static_cast<int>(k.size(2))};
}

std::uint32_t* words_of(const at::Tensor& mask) {
  return mask.defined() ? reinterpret_cast<std::uint32_t*>(mask.mutable_data_ptr<std::int32_t>())
                        : nullptr;
}

/// A mask of [rows, columns] weights that a caller passes.
void check_mask(const at::Tensor& mask, const at::Tensor& q, const kernels::Shape& shape, int rows,
                int columns) {
  const std::int64_t sizes[] = {shape.batch, shape.heads, kernels::num_blocks(rows),
                                kernels::num_blocks(columns), kernels::kMaskWords};
  TORCH_CHECK_VALUE(
      mask.device() == q.device() && mask.scalar_type() == at::kInt && mask.is_contiguous() &&
          mask.sizes() == at::IntArrayRef(sizes),
      "[fused_attention] masks must be what fused_attention_with_masks returned, got ",
      mask.sizes(), " of ", mask.scalar_type());
}

/// The dropout mask by queries and, where wanted, by keys.
Two sample_masks(const kernels::Shape& shape, const at::Tensor& seed, double dropout,
                 bool wants_by_keys) {
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<int>::max() / 16;
  TORCH_CHECK_VALUE(
      std::int64_t{kernels::num_blocks(shape.queries)} * kernels::num_blocks(shape.keys) <=
          kMaxBlocks,
      "[fused_attention] too many tokens for dropout: ", shape.queries, " and ", shape.keys);
  const at::Tensor by_queries =
      empty_mask(shape.batch, shape.heads, shape.queries, shape.keys, seed.options());
  at::Tensor by_keys;
  if (wants_by_keys) {
    by_keys = empty_mask(shape.batch, shape.heads, shape.keys, shape.queries, seed.options());
  }
  if (by_queries.numel() == 0) return {by_queries, by_keys};
  check_launch(
      "fused_attention",
      kernels::launch_dropout_mask(
          shape, {.by_queries = words_of(by_queries), .by_keys = words_of(by_keys)},
          seed.const_data_ptr<std::int64_t>(), keep_steps(dropout), torch::stream_of(seed).handle));
  return {by_queries, by_keys};
}

kernels::ForwardParams make_params(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const at::Tensor& y, const at::Tensor& lse, double dropout,
                                   double scale) {
  return {.shape = shape_of(q, k),
          .q = const_heads(q),
          .k = const_heads(k),
          .v = const_heads(v),
          .y = mutable_heads(y),
          .lse = lse.mutable_data_ptr<float>(),
          .scale = static_cast<float>(scale),
          .inv_keep_prob = static_cast<float>(inv_keep_prob(dropout)),
          .num_sms = hopper::num_sms(q.device().index())};
}

void check_device(const at::Tensor& q, double scale) {
  TORCH_CHECK_VALUE(scale > 0.0, "[fused_attention] scale must be positive on CUDA, got ", scale);
  TORCH_CHECK_VALUE(q.scalar_type() == at::kBFloat16 && q.size(3) == kernels::kHeadDim &&
                        hopper::num_sms(q.device().index()) > 0,
                    "[fused_attention] on CUDA takes bfloat16 with head_dim 64 on compute "
                    "capability 9.0, got ",
                    q.scalar_type(), " with ", q.size(3));
}

/// With the dropout mask by queries, or without dropout where it is undefined.
Two attend_with(const at::Tensor& mask, const at::Tensor& q_, const at::Tensor& k_,
                const at::Tensor& v_, double dropout, double scale) {
  const at::Tensor q = tma_compatible(q_);
  const at::Tensor k = tma_compatible(k_);
  const at::Tensor v = tma_compatible(v_);
  const at::Tensor y = empty_heads_like(q);
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1),
                 (q.size(2) + kernels::kBlockSize - 1) / kernels::kBlockSize * kernels::kBlockSize},
                q.options().dtype(at::kFloat));
  if (q.numel() == 0) return {y, lse};
  kernels::ForwardParams params = make_params(q, k, v, y, lse, dropout, scale);
  params.mask.by_queries = words_of(mask);
  check_launch("fused_attention", kernels::launch_forward(params, torch::stream_of(q).handle));
  return {y, lse};
}

Two fused_attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const OptionalTensor& seed, double dropout, double scale) {
  check_fused_attention(q, k, v, seed, dropout);
  check_device(q, scale);
  const at::OptionalDeviceGuard guard(q.device());
  at::Tensor mask;
  if (drops(dropout)) {
    mask = std::get<0>(sample_masks(shape_of(q, k), *seed, dropout, /*wants_by_keys=*/false));
  }
  return attend_with(mask, q, k, v, dropout, scale);
}

Four fused_attention_with_masks_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& seed, double dropout, double scale) {
  check_fused_attention(q, k, v, seed, dropout);
  check_device(q, scale);
  const at::OptionalDeviceGuard guard(q.device());
  const auto [mask, by_keys] = sample_masks(shape_of(q, k), seed, dropout, /*wants_by_keys=*/true);
  const auto [y, lse] = attend_with(mask, q, k, v, dropout, scale);
  return {y, lse, mask, by_keys};
}

Three fused_attention_backward_cuda(const at::Tensor& grad_, const at::Tensor& q_,
                                    const at::Tensor& k_, const at::Tensor& v_,
                                    const at::Tensor& y_, const at::Tensor& lse_,
                                    const OptionalTensor& seed, double dropout, double scale,
                                    const OptionalTensor& saved_mask,
                                    const OptionalTensor& saved_mask_by_keys) {
  check_fused_attention_backward(grad_, q_, k_, v_, y_, lse_, seed, dropout,
                                 saved_mask.has_value() && saved_mask_by_keys.has_value());
  check_device(q_, scale);
  const at::OptionalDeviceGuard guard(q_.device());
  const at::Tensor q = tma_compatible(q_);
  const at::Tensor k = tma_compatible(k_);
  const at::Tensor v = tma_compatible(v_);
  const at::Tensor y = tma_compatible(y_);
  const at::Tensor grad = tma_compatible(grad_.to(q.scalar_type()));
  const at::Tensor dq = empty_heads_like(q);
  const at::Tensor dk = empty_heads_like(k);
  const at::Tensor dv = empty_heads_like(v);
  if (q.numel() == 0) return {dq, dk.zero_(), dv.zero_()};
  const at::Tensor lse = lse_.contiguous();
  const at::Tensor delta = at::empty_like(lse);
  kernels::BackwardParams params{.forward = make_params(q, k, v, y, lse, dropout, scale),
                                 .dy = const_heads(grad),
                                 .dq = mutable_heads(dq),
                                 .dk = mutable_heads(dk),
                                 .dv = mutable_heads(dv),
                                 .delta = delta.mutable_data_ptr<float>()};
  at::Tensor mask = saved_mask.value_or(at::Tensor());
  at::Tensor by_keys = saved_mask_by_keys.value_or(at::Tensor());
  if (drops(dropout) && !(mask.defined() && by_keys.defined())) {
    std::tie(mask, by_keys) =
        sample_masks(params.forward.shape, *seed, dropout, /*wants_by_keys=*/true);
  } else if (drops(dropout)) {
    const kernels::Shape& shape = params.forward.shape;
    check_mask(mask, q, shape, shape.queries, shape.keys);
    check_mask(by_keys, q, shape, shape.keys, shape.queries);
  }
  params.forward.mask = {.by_queries = words_of(mask), .by_keys = words_of(by_keys)};
  check_launch("fused_attention",
               kernels::launch_backward_queries(params, torch::stream_of(q).handle));
  check_launch("fused_attention",
               kernels::launch_backward_keys(params, torch::stream_of(q).handle));
  return {dq, dk, dv};
}

at::Tensor fused_attention_mask_cuda(const at::Tensor& seed, std::int64_t batch, std::int64_t heads,
                                     std::int64_t queries, std::int64_t keys, double dropout) {
  check_seed(seed);
  const at::OptionalDeviceGuard guard(seed.device());
  const kernels::Shape shape{static_cast<int>(batch), static_cast<int>(heads),
                             static_cast<int>(queries), static_cast<int>(keys)};
  return unpack_mask(std::get<0>(sample_masks(shape, seed, dropout, /*wants_by_keys=*/false)),
                     queries, keys);
}

}  // namespace

bool use_fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         double dropout) {
  const auto fits = [](const at::Tensor& x) {
    return x.is_cuda() && x.scalar_type() == at::kBFloat16 &&
           !x.key_set().has(c10::DispatchKey::FuncTorchBatched) &&
           !x.key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
  };
  // Users who disable a backend of PyTorch want another one of them.
  if (!fits(q) || !fits(k) || !fits(v) || keep_steps(dropout) == 0 ||
      !at::globalContext().userEnabledFlashSDP() || !at::globalContext().userEnabledCuDNNSDP() ||
      !at::globalContext().userEnabledMemEfficientSDP()) {
    return false;
  }
  const int num_sms = hopper::num_sms(q.device().index());
  if (num_sms == 0 || q.sym_size(3) != kernels::kHeadDim || v.sym_size(3) != kernels::kHeadDim ||
      q.sym_size(1) != k.sym_size(1) || q.sym_size(2) == 0) {
    return false;
  }
  const c10::SymInt rows = q.sym_size(0) * q.sym_size(1) * q.sym_size(2);
  if (!drops(dropout)) {
    // Fewer rows do not fill the device. Over few keys cuDNN is as fast forward, but not backward.
    const bool needs_grad =
        at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    return rows >= 192 * num_sms && (needs_grad || k.sym_size(2) >= 1024);
  }
  constexpr std::int64_t kMaxBits = std::int64_t{1} << 33;  // a mask of 1 GiB in each order
  return rows * k.sym_size(2) <= kMaxBits;
}

#else

bool use_fused_attention(const at::Tensor& /*q*/, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                         double /*dropout*/) {
  return false;
}

#endif

}  // namespace rotary::transformer

#ifdef ROTARY_TORCH_CUDA_KERNELS
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("fused_attention", rotary::transformer::fused_attention_cuda);
  m.impl("fused_attention_with_masks", rotary::transformer::fused_attention_with_masks_cuda);
  m.impl("fused_attention_backward", rotary::transformer::fused_attention_backward_cuda);
  m.impl("fused_attention_mask", rotary::transformer::fused_attention_mask_cuda);
}
#endif
