// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on CUDA: calls of the kernels.

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "attention/hopper/attention.h"
#include "attention/hopper/checks.h"
#include "attention/hopper/masks.h"
#include "hopper/processors.h"
#include "rotation/kernel_calls.h"

namespace rotary::torch {

#ifdef ROTARY_TORCH_CUDA_KERNELS

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_launch(int error) { TORCH_CHECK(error == 0, "[fused_attention] CUDA error ", error); }

/// As the kernels read them: see hopper::Heads.
at::Tensor readable(const at::Tensor& x) {
  bool fits = x.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
  for (int i = 0; i < 3; ++i) {
    fits = fits && (x.size(i) == 1 || (x.stride(i) > 0 && x.stride(i) % 8 == 0));
  }
  if (fits) return x;
  const at::Tensor y = x.contiguous();
  return y.is_same(x) ? x.clone() : y;  // the copy begins where memory does
}

hopper::Heads heads_of(const at::Tensor& x) {
  return {.data = x.mutable_data_ptr(),
          .batch = x.stride(0),
          .head = x.stride(1),
          .token = x.stride(2)};
}
hopper::Heads heads_to_read(const at::Tensor& x) {
  return {.data = const_cast<void*>(x.const_data_ptr()),  // not written to
          .batch = x.stride(0),
          .head = x.stride(1),
          .token = x.stride(2)};
}

hopper::Shape shape_of(const at::Tensor& q, const at::Tensor& k) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 64;
  TORCH_CHECK_VALUE(std::max({q.size(0) * q.size(1) * q.size(2), k.size(2)}) <= kMost,
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

/// A mask of `rows` and `columns` that a caller gives.
void check_mask(const at::Tensor& mask, const hopper::Shape& shape, int rows, int columns) {
  const std::int64_t sizes[] = {shape.batch, shape.heads, hopper::blocks_of(rows),
                                hopper::blocks_of(columns), kBlockWords};
  TORCH_CHECK_VALUE(mask.is_cuda() && mask.scalar_type() == at::kInt && mask.is_contiguous() &&
                        mask.sizes() == at::IntArrayRef(sizes),
                    "[fused_attention] masks must be what fused_attention_keeping gave, got ",
                    mask.sizes(), " of ", mask.scalar_type());
}

/// By queries and, if it is wanted, by keys.
Two draw_masks(const hopper::Shape& shape, const at::Tensor& seed, double dropout, bool by_keys) {
  constexpr std::int64_t kMostBlocks = std::numeric_limits<int>::max() / 16;
  TORCH_CHECK_VALUE(
      std::int64_t{hopper::blocks_of(shape.queries)} * hopper::blocks_of(shape.keys) <= kMostBlocks,
      "[fused_attention] too many tokens for dropout: ", shape.queries, " and ", shape.keys);
  const at::Tensor one =
      empty_mask(shape.batch, shape.heads, shape.queries, shape.keys, seed.options());
  at::Tensor other;
  if (by_keys) {
    other = empty_mask(shape.batch, shape.heads, shape.keys, shape.queries, seed.options());
  }
  if (one.numel() == 0) return {one, other};
  check_launch(hopper::launch_draw_mask(
      shape, {.by_queries = words_of(one), .by_keys = words_of(other)},
      seed.const_data_ptr<std::int64_t>(), keep_of(dropout), stream_of(seed).handle));
  return {one, other};
}

hopper::Forward job_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& y, const at::Tensor& lse, double dropout, double scale) {
  return {.shape = shape_of(q, k),
          .q = heads_to_read(q),
          .k = heads_to_read(k),
          .v = heads_to_read(v),
          .y = heads_of(y),
          .lse = lse.mutable_data_ptr<float>(),
          .scale = static_cast<float>(scale),
          .kept_scale = static_cast<float>(kept_scale_of(dropout)),
          .processors = hopper::processors_of(q.device().index())};
}

void check_device(const at::Tensor& q, double scale) {
  TORCH_CHECK_VALUE(scale > 0.0, "[fused_attention] scale must be positive on CUDA, got ", scale);
  TORCH_CHECK_VALUE(q.scalar_type() == at::kBFloat16 && q.size(3) == hopper::kHeadDim &&
                        hopper::processors_of(q.device().index()) > 0,
                    "[fused_attention] on CUDA takes bfloat16 with 64 numbers a head on compute "
                    "capability 9.0, got ",
                    q.scalar_type(), " with ", q.size(3));
}

/// With the weights of `mask`; all where it is not defined.
Two attend_with(const at::Tensor& mask, const at::Tensor& q_, const at::Tensor& k_,
                const at::Tensor& v_, double dropout, double scale) {
  const at::Tensor q = readable(q_);
  const at::Tensor k = readable(k_);
  const at::Tensor v = readable(v_);
  const at::Tensor y = heads_like(q);
  const at::Tensor lse = at::empty(
      {q.size(0), q.size(1), (q.size(2) + hopper::kBlock - 1) / hopper::kBlock * hopper::kBlock},
      q.options().dtype(at::kFloat));
  if (q.numel() == 0) return {y, lse};
  hopper::Forward job = job_of(q, k, v, y, lse, dropout, scale);
  job.mask.by_queries = words_of(mask);
  check_launch(hopper::launch_forward(job, stream_of(q).handle));
  return {y, lse};
}

Two fused_attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const OptionalTensor& seed, double dropout, double scale) {
  check_fused(q, k, v, seed, dropout);
  check_device(q, scale);
  const at::OptionalDeviceGuard guard(q.device());
  at::Tensor mask;
  if (drops(dropout)) {
    mask = std::get<0>(draw_masks(shape_of(q, k), *seed, dropout, /*by_keys=*/false));
  }
  return attend_with(mask, q, k, v, dropout, scale);
}

Four fused_attention_keeping_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const at::Tensor& seed, double dropout, double scale) {
  check_fused(q, k, v, seed, dropout);
  check_device(q, scale);
  const at::OptionalDeviceGuard guard(q.device());
  const auto [mask, by_keys] = draw_masks(shape_of(q, k), seed, dropout, /*by_keys=*/true);
  const auto [y, lse] = attend_with(mask, q, k, v, dropout, scale);
  return {y, lse, mask, by_keys};
}

Three fused_attention_backward_cuda(const at::Tensor& grad_, const at::Tensor& q_,
                                    const at::Tensor& k_, const at::Tensor& v_,
                                    const at::Tensor& y_, const at::Tensor& lse,
                                    const OptionalTensor& seed, double dropout, double scale,
                                    const OptionalTensor& kept_mask,
                                    const OptionalTensor& kept_mask_by_keys) {
  const at::OptionalDeviceGuard guard(q_.device());
  const at::Tensor q = readable(q_);
  const at::Tensor k = readable(k_);
  const at::Tensor v = readable(v_);
  const at::Tensor y = readable(y_);
  const at::Tensor grad = readable(grad_.to(q.scalar_type()));
  const at::Tensor dq = heads_like(q);
  const at::Tensor dk = heads_like(k);
  const at::Tensor dv = heads_like(v);
  if (q.numel() == 0) return {dq, dk.zero_(), dv.zero_()};
  const at::Tensor delta = at::empty_like(lse);
  hopper::Backward job{.forward = job_of(q, k, v, y, lse, dropout, scale),
                       .grad = heads_to_read(grad),
                       .dq = heads_of(dq),
                       .dk = heads_of(dk),
                       .dv = heads_of(dv),
                       .delta = delta.mutable_data_ptr<float>()};
  at::Tensor mask = kept_mask.value_or(at::Tensor());
  at::Tensor by_keys = kept_mask_by_keys.value_or(at::Tensor());
  if (drops(dropout) && !(mask.defined() && by_keys.defined())) {
    std::tie(mask, by_keys) = draw_masks(job.forward.shape, *seed, dropout, /*by_keys=*/true);
  } else if (drops(dropout)) {
    check_mask(mask, job.forward.shape, job.forward.shape.queries, job.forward.shape.keys);
    check_mask(by_keys, job.forward.shape, job.forward.shape.keys, job.forward.shape.queries);
  }
  job.forward.mask = {.by_queries = words_of(mask), .by_keys = words_of(by_keys)};
  check_launch(hopper::launch_backward_queries(job, stream_of(q).handle));
  check_launch(hopper::launch_backward_keys(job, stream_of(q).handle));
  return {dq, dk, dv};
}

at::Tensor fused_attention_mask_cuda(const at::Tensor& seed, std::int64_t batch, std::int64_t heads,
                                     std::int64_t queries, std::int64_t keys, double dropout) {
  check_seed(seed);
  const at::OptionalDeviceGuard guard(seed.device());
  const hopper::Shape shape{static_cast<int>(batch), static_cast<int>(heads),
                            static_cast<int>(queries), static_cast<int>(keys)};
  return bits_of(std::get<0>(draw_masks(shape, seed, dropout, /*by_keys=*/false)), queries, keys);
}

}  // namespace

bool fused_fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout) {
  const auto fits = [](const at::Tensor& x) {
    return x.is_cuda() && x.scalar_type() == at::kBFloat16 &&
           !x.key_set().has(c10::DispatchKey::FuncTorchBatched) &&
           !x.key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
  };
  // Who turns kernels of PyTorch off wants a certain one.
  if (!fits(q) || !fits(k) || !fits(v) || keep_of(dropout) == 0 ||
      !at::globalContext().userEnabledFlashSDP() || !at::globalContext().userEnabledCuDNNSDP() ||
      !at::globalContext().userEnabledMemEfficientSDP()) {
    return false;
  }
  const int processors = hopper::processors_of(q.device().index());
  if (processors == 0 || q.sym_size(3) != hopper::kHeadDim || v.sym_size(3) != hopper::kHeadDim ||
      q.sym_size(1) != k.sym_size(1) || q.sym_size(2) == 0) {
    return false;
  }
  const c10::SymInt rows = q.sym_size(0) * q.sym_size(1) * q.sym_size(2);
  if (!drops(dropout)) {
    // Fewer rows do not fill the device. Over few keys cuDNN's is as quick forward, not backward.
    const bool learns =
        at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    return rows >= 192 * processors && (learns || k.sym_size(2) >= 1024);
  }
  constexpr std::int64_t kMostBits = std::int64_t{1} << 33;  // a mask of 1 GiB in each order
  return rows * k.sym_size(2) <= kMostBits;
}

#else

bool fused_fits(const at::Tensor& /*q*/, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                double /*dropout*/) {
  return false;
}

#endif

}  // namespace rotary::torch

#ifdef ROTARY_TORCH_CUDA_KERNELS
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("fused_attention", rotary::torch::fused_attention_cuda);
  m.impl("fused_attention_keeping", rotary::torch::fused_attention_keeping_cuda);
  m.impl("fused_attention_backward", rotary::torch::fused_attention_backward_cuda);
  m.impl("fused_attention_mask", rotary::torch::fused_attention_mask_cuda);
}
#endif
