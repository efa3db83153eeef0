// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head on CUDA: tensors to pointers and sizes, one launch for the tensors of a
// type.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdint>
#include <limits>

#include "pytorch/cuda_stream.h"
#include "pytorch/empty_result.h"
#include "pytorch/pairs.h"
#include "pytorch/per_head.h"
#include "pytorch/per_head_kernels.h"

namespace rotary::torch {

#ifdef ROTARY_TORCH_CUDA_KERNELS

namespace {

constexpr std::int64_t kPackSize = 16;  // bytes

cuda::PerHeadType per_head_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return cuda::PerHeadType::kFloat;
    case at::kDouble:
      return cuda::PerHeadType::kDouble;
    case at::kBFloat16:
      return cuda::PerHeadType::kBFloat16;
    case at::kHalf:
      return cuda::PerHeadType::kFloat16;
    default:
      C10_THROW_ERROR(ValueError,
                      c10::str("[rotate_per_head] tensors of ", type, " are not supported"));
  }
}

at::Tensor with_dense_last(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

/// Strides of batch, tokens and heads.
void fill_strides(const at::Tensor& x, std::int64_t token_dim, std::int64_t (&strides)[3]) {
  strides[0] = x.dim() == 4 ? x.stride(0) : 0;
  strides[1] = x.stride(token_dim);
  strides[2] = x.stride(token_dim == -3 ? -2 : -3);
}

bool is_aligned_to_packs(const at::Tensor& x) {
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  bool aligned = reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kPackSize == 0;
  for (std::int64_t d = 0; d < x.dim() - 1; ++d) {
    aligned = aligned && (x.size(d) == 1 || x.stride(d) * bytes % kPackSize == 0);
  }
  return aligned;
}

/// The tensors of one type, and the launch over them.
class PerHeadLaunch {
 public:
  PerHeadLaunch(const PerHeadArgs& args, const SharedRope& rope, const at::Tensor& like)
      : args_(args), type_(like.scalar_type()) {
    const HeadLayout& layout = rope.layout();
    const Frequencies& f = rope.frequencies();
    const auto bytes = static_cast<std::int64_t>(like.element_size());
    p_.positions = args.positions.const_data_ptr<double>();
    p_.axis_stride = args.positions.size(0) == 1 ? 0 : args.positions.stride(0);
    p_.batch_stride = args.positions.size(1) == 1 ? 0 : args.positions.stride(1);
    p_.frequencies = args.frequencies.const_data_ptr<double>();
    p_.scale = is_given(args.scale) ? args.scale->const_data_ptr<double>() : nullptr;
    p_.rope_scale = f.scale;
    p_.divides_by_scale = divides_by_scale(args.op);
    p_.sign = phase_sign(args.op);
    p_.batch = like.dim() == 4 ? like.size(0) : 1;
    p_.tokens = like.size(args.token_dim);
    p_.heads = static_cast<std::int32_t>(args.frequencies.size(0));
    p_.pairs = static_cast<std::int32_t>(f.pairs);
    p_.axes = static_cast<std::int32_t>(f.axes);
    p_.head_dim = static_cast<std::int32_t>(layout.head_dim);
    p_.rotary_offset = static_cast<std::int32_t>(layout.rotary_offset);
    p_.reads_halves = input_pairing(args.op, layout) == Pairing::kHalf;
    p_.writes_halves = output_pairing(args.op, layout) == Pairing::kHalf;
    p_.vectorized = p_.reads_halves == p_.writes_halves && f.pairs * bytes % kPackSize == 0 &&
                    layout.rotary_offset * bytes % kPackSize == 0;
  }

  bool is_full() const { return p_.num_tensors == cuda::kMaxPerHeadTensors; }

  /// The result of a tensor, which the launch writes.
  at::Tensor add(const at::Tensor& x, const at::Tensor& grad) {
    cuda::PerHeadTensor& to = p_.tensors[p_.num_tensors++];
    const at::Tensor in = keep(with_dense_last(x));
    const at::Tensor out = keep(empty_result_like(in));
    to.in = in.const_data_ptr();
    to.out = out.mutable_data_ptr();
    fill_strides(in, args_.token_dim, to.in_strides);
    fill_strides(out, args_.token_dim, to.out_strides);
    to.group = static_cast<std::int32_t>(x.size(args_.token_dim == -3 ? -2 : -3) / p_.heads);
    if (grad.defined()) {
      const at::Tensor g = keep(with_dense_last(grad));
      to.grad = g.const_data_ptr();
      fill_strides(g, args_.token_dim, to.grad_strides);
    }
    return out;
  }

  void rotate() {
    if (is_empty()) return;
    check(cuda::launch_rotate_per_head(p_, per_head_type(type_), stream()));
  }

  /// Adds to the sums of frequencies and log(scale).
  void gradient(PerHeadGradients& all) {
    if (is_empty()) return;
    const std::int64_t chunks = cuda::per_head_chunks(p_.batch * p_.tokens, p_.heads);
    const at::TensorOptions options = args_.frequencies.options();
    const at::Tensor frequencies = at::empty({chunks, p_.heads, p_.pairs, p_.axes}, options);
    const at::Tensor lengths = at::empty({chunks, p_.heads}, options);
    p_.chunks = static_cast<std::int32_t>(chunks);
    p_.frequency_sums = frequencies.mutable_data_ptr<double>();
    p_.length_sums = lengths.mutable_data_ptr<double>();
    check(cuda::launch_per_head_gradient(p_, per_head_type(type_), stream()));
    const at::Tensor sum = frequencies.sum(0);
    const at::Tensor length = lengths.sum().reshape({1});
    all.frequencies = all.frequencies.defined() ? all.frequencies + sum : sum;
    all.log_scale = all.log_scale.defined() ? all.log_scale + length : length;
  }

 private:
  at::Tensor keep(const at::Tensor& x) {
    p_.vectorized = p_.vectorized && is_aligned_to_packs(x);
    kept_.push_back(x);
    return x;
  }
  bool is_empty() const { return p_.batch == 0 || p_.tokens == 0; }
  void* stream() const { return stream_of(kept_.front()).handle; }
  static void check(int error) {
    TORCH_CHECK(error == 0, "[rotate_per_head] CUDA error ", error, ": ",
                cuda::per_head_error(error));
  }

  const PerHeadArgs& args_;
  at::ScalarType type_;
  cuda::PerHeadParams p_{};
  std::vector<at::Tensor> kept_{};
};

/// Calls `launch` for the tensors of each type, as many as fit into one.
template <typename Launch>
std::vector<at::Tensor> launch_by_type(at::TensorList tensors, at::TensorList grads,
                                       const PerHeadArgs& args, const Launch& launch) {
  const auto rope = find_rope(args.rope);
  constexpr std::int64_t kMaxThreads = std::numeric_limits<std::int32_t>::max();
  TORCH_CHECK_VALUE(
      args.positions.size(2) * args.frequencies.size(0) <= kMaxThreads / rope->frequencies().pairs,
      "[rotate_per_head] too many tokens on CUDA, got ", args.positions.size(2));
  constexpr std::int64_t kMaxBatch = 4 * 65535;  // blocks of four rows
  const std::int64_t batch = tensors[0].dim() == 4 ? tensors[0].size(0) : 1;
  TORCH_CHECK_VALUE(batch <= kMaxBatch, "[rotate_per_head] at most ", kMaxBatch,
                    " batch rows on CUDA, got ", batch);
  std::vector<at::Tensor> results(tensors.size());
  std::vector<bool> done(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (done[i]) continue;
    PerHeadLaunch one(args, *rope, tensors[i]);
    for (std::size_t j = i; j < tensors.size() && !one.is_full(); ++j) {
      if (done[j] || tensors[j].scalar_type() != tensors[i].scalar_type()) continue;
      done[j] = true;
      results[j] = one.add(tensors[j], grads.empty() ? at::Tensor() : grads[j]);
    }
    launch(one);
  }
  return results;
}

}  // namespace

bool has_per_head_kernels() noexcept { return true; }

std::vector<at::Tensor> rotate_per_head_on_cuda(at::TensorList tensors, const PerHeadArgs& args) {
  return launch_by_type(tensors, {}, args, [](PerHeadLaunch& one) { one.rotate(); });
}

PerHeadGradients per_head_gradient_on_cuda(at::TensorList tensors, at::TensorList grads,
                                           const PerHeadArgs& args) {
  PerHeadGradients all;
  all.inputs =
      launch_by_type(tensors, grads, args, [&all](PerHeadLaunch& one) { one.gradient(all); });
  if (!all.frequencies.defined()) {
    all.frequencies = at::zeros_like(args.frequencies);
    all.log_scale = at::zeros({1}, args.frequencies.options());
  }
  return all;
}

#else

namespace {

[[noreturn]] void refuse_per_head() {
  TORCH_CHECK(false, "rotary's PyTorch operators were built without CUDA");
}

}  // namespace

bool has_per_head_kernels() noexcept { return false; }

std::vector<at::Tensor> rotate_per_head_on_cuda(at::TensorList /*tensors*/,
                                                const PerHeadArgs& /*args*/) {
  refuse_per_head();
}

PerHeadGradients per_head_gradient_on_cuda(at::TensorList /*tensors*/, at::TensorList /*grads*/,
                                           const PerHeadArgs& /*args*/) {
  refuse_per_head();
}

#endif

}  // namespace rotary::torch
