// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/empty_result.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include "pytorch/views.h"

#ifdef ROTARY_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace rotary::torch {

at::Tensor empty_result(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (like.is_cpu()) {
    return at::Tensor(at::detail::empty_strided_cpu(sizes, strides, like.scalar_type()));
  }
#ifdef ROTARY_TORCH_CUDA
  if (like.is_cuda()) {
    return at::Tensor(at::detail::empty_strided_generic(
        sizes, strides, c10::cuda::CUDACachingAllocator::get(),
        c10::DispatchKeySet(c10::DispatchKey::CUDA), like.scalar_type()));
  }
#endif
  return at::empty_strided(sizes, strides, like.options());
}

at::Tensor empty_result_like(const at::Tensor& x) {
  if (x.is_non_overlapping_and_dense()) return empty_result(x, x.sizes(), x.strides());
  return empty_result(x, x.sizes(), at::infer_dense_strides(x.sizes(), x.strides()));
}

at::Tensor result_like(const at::Tensor& x) {
  if (x.dim() <= kMaxDimensions) return empty_result_like(x);
  return empty_result(x, x.sizes(), c10::contiguous_strides(x.sizes()));
}

at::Tensor result_like_meta(const at::Tensor& x) {
  return x.dim() <= kMaxDimensions ? at::empty_like(x)
                                   : at::empty_symint(x.sym_sizes(), x.options());
}

}  // namespace rotary::torch
