// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "memory/results.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include "memory/pool.h"

#ifdef ROTARY_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace rotary::torch {
namespace {

/// Smaller results are PyTorch's: malloc uses their memory again by itself.
constexpr std::size_t kSmallest = std::size_t{1} << 20;

void free_result(void* data) {
  c10::profiledCPUMemoryReporter().Delete(data);
  Pool::get().give_back(data);
}

/// Storages keep a pointer to it, for resize_().
class ResultAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kSmallest) return c10::GetCPUAllocator()->allocate(bytes);
    void* data = Pool::get().take(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, free_result, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

at::Tensor empty_result(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides) {
  static ResultAllocator& allocator = *new ResultAllocator;
  if (like.is_cpu()) {
    return at::Tensor(at::detail::empty_strided_generic(sizes, strides, &allocator,
                                                        c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                        like.scalar_type()));
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

namespace {

std::vector<std::int64_t> memory_use_list() {
  const MemoryUse use = memory_use();
  return {static_cast<std::int64_t>(use.in_use), static_cast<std::int64_t>(use.idle),
          static_cast<std::int64_t>(use.limit)};
}

void set_memory_limit_checked(std::int64_t bytes) {
  TORCH_CHECK_VALUE(bytes >= 0, "[set_memory_limit] bytes must not be negative, got ", bytes);
  set_memory_limit(static_cast<std::size_t>(bytes));
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def("memory_use() -> int[]", rotary::torch::memory_use_list);
  m.def("release_memory() -> ()", rotary::torch::release_memory);
  m.def("set_memory_limit(int bytes) -> ()", rotary::torch::set_memory_limit_checked);
}
