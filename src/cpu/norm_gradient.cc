// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradient of a norm and the rotation after it. Tokens are taken in blocks: the gradients of
// the results are rotated back into scratch memory in float32; then, with n the normalised x before
// its factor w, r its scale, g the gradient that was rotated back, and means over the elements of a
// norm,
//   dx = r (g w - n mean(g w n))                  RMS
//   dx = r (g w - mean(g w) - n mean(g w n))      LayerNorm
//   dw = sum g n,  db = sum g

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm_gradient.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/norm_block.h"
#include "cpu/norm_heads-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate.h"
#include "engine/norm_kernel.h"

#ifndef ROTARY_CPU_NORM_GRADIENT_ONCE
#define ROTARY_CPU_NORM_GRADIENT_ONCE
namespace rotary::internal {

/// Sums over the heads of a token, of the size of a weight.
struct WeightSums {
  float* factors;
  float* biases;
};

/// The heads of one token, whose gradient `grad` is [heads, head_dim] in float32.
struct NormGradientToken {
  const void* in;
  void* grad_in;  // null if not wanted
  const float* grad;
  DType dtype;
  std::int64_t in_head_stride, in_step;
  std::int64_t grad_head_stride, grad_step;
  std::int64_t heads, head_dim;
  NormTable table;
  NormScalars norm;
  float* memory;  // x and its gradient, for all heads
  WeightSums sums;
};

}  // namespace rotary::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Calls work(tag, i) for vectors, then for single elements.
template <class Work>
HWY_INLINE void for_elements(std::int64_t n, const Work& work) {
  const FullTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) work(d, i);
  for (; i < n; ++i) work(OneTag<float>(), i);
}

/// The gradient of one norm over `size` elements: x becomes n, then `to` the gradient of x. Adds to
/// the sums, which have `period` entries: a head, or all.
HWY_INLINE void norm_gradient_group(const NormGradientToken& a, float* x, const float* g,
                                    std::int64_t size, float* to) {
  HeadMoments moments{};
  find_moments(x, size, a.norm, moments);
  const float mean = moments.means[0];
  const float scale = moments.scales[0];
  const float* const w = a.table.factors;
  for_elements(size, [x, g, w, to, mean, scale, &a](auto d, std::int64_t i) HWY_ATTR {
    const auto n = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, scale));
    const auto grad = hn::LoadU(d, g + i);
    hn::StoreU(n, d, x + i);
    const auto scaled = hn::Mul(grad, hn::LoadU(d, w + i));
    hn::StoreU(scaled, d, to + i);
    const auto product = hn::Add(hn::LoadU(d, a.sums.factors + i), hn::Mul(grad, n));
    hn::StoreU(product, d, a.sums.factors + i);
    hn::StoreU(hn::Add(hn::LoadU(d, a.sums.biases + i), grad), d, a.sums.biases + i);
  });
  if (a.grad_in == nullptr) return;
  const FullTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  auto products = hn::Zero(d);
  float sum = 0.0f;
  float product = 0.0f;
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto v = hn::LoadU(d, to + i);
    sums = hn::Add(sums, v);
    products = hn::Add(products, hn::Mul(v, hn::LoadU(d, x + i)));
  }
  alignas(64) float part[2][kMaxLanes<FullTag<float>>];
  hn::Store(sums, d, part[0]);
  hn::Store(products, d, part[1]);
  for (std::int64_t k = 0; k < lanes; ++k) {
    sum += part[0][k];
    product += part[1][k];
  }
  for (; i < size; ++i) {
    sum += to[i];
    product += to[i] * x[i];
  }
  const float mean_sum = a.norm.has_mean ? sum / static_cast<float>(size) : 0.0f;
  const float mean_product = product / static_cast<float>(size);
  for_elements(size, [x, to, scale, mean_sum, mean_product](auto tag, std::int64_t k) HWY_ATTR {
    const auto along = hn::Mul(hn::LoadU(tag, x + k), hn::Set(tag, mean_product));
    const auto rest = hn::Sub(hn::Sub(hn::LoadU(tag, to + k), hn::Set(tag, mean_sum)), along);
    hn::StoreU(hn::Mul(hn::Set(tag, scale), rest), tag, to + k);
  });
}

template <class E>
void norm_gradient_heads(const NormGradientToken& a) {
  const std::int64_t together = a.norm.across_heads ? a.heads : 1;
  const std::int64_t size = together * a.head_dim;
  float* const x = a.memory;
  float* const to = a.memory + size;
  for (std::int64_t first = 0; first < a.heads; first += together) {
    for (std::int64_t h = 0; h < together; ++h) {
      const auto* in =
          static_cast<const typename E::Storage*>(a.in) + (first + h) * a.in_head_stride;
      widen_head<E>(in, a.in_step, a.head_dim, x + h * a.head_dim);
    }
    norm_gradient_group(a, x, a.grad + first * a.head_dim, size, to);
    if (a.grad_in == nullptr) continue;
    for (std::int64_t h = 0; h < together; ++h) {
      auto* out = static_cast<typename E::Storage*>(a.grad_in) + (first + h) * a.grad_head_stride;
      scale_head<E>(to + h * a.head_dim, {false, 0.0f, 1.0f, {}}, a.head_dim, out, a.grad_step);
    }
  }
}

void norm_gradient_token(const NormGradientToken& a) {
  if (a.dtype == DType::kBFloat16) return norm_gradient_heads<BFloat16>(a);
  if (a.dtype == DType::kFloat16) return norm_gradient_heads<Float16>(a);
  norm_gradient_heads<Float32>(a);
}

/// The heads of a token as floats, [heads, head_dim].
void widen_token(const void* in, DType dtype, std::int64_t stride, std::int64_t step,
                 std::int64_t heads, std::int64_t head_dim, float* to) {
  for (std::int64_t h = 0; h < heads; ++h, to += head_dim) {
    if (dtype == DType::kFloat32) {
      widen_head<Float32>(static_cast<const float*>(in) + h * stride, step, head_dim, to);
      continue;
    }
    const auto* from = static_cast<const std::uint16_t*>(in) + h * stride;
    dtype == DType::kBFloat16 ? widen_head<BFloat16>(from, step, head_dim, to)
                              : widen_head<Float16>(from, step, head_dim, to);
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(norm_gradient_token);
HWY_EXPORT(widen_token);

/// Tokens per block. Gradients of weights are summed within a block and then over the blocks, so
/// that the order of additions does not depend on the number of threads.
constexpr std::int64_t kGradientBlockTokens = 64;
/// Tokens whose gradients are rotated back together: they stay in the cache.
constexpr std::int64_t kTokensTogether = 4;

const char* address_of(const void* data, std::int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

/// The blocks of a call.
class GradientBlocks {
 public:
  GradientBlocks(const NormParams& params, std::span<const NormGradientTensors> tensors)
      : params_(params),
        tensors_(tensors),
        tokens_(tensors.front().in.shape[1]),
        count_(tensors.front().in.shape[0] * tokens_) {
    for (const NormGradientTensors& x : tensors) {
      offsets_.push_back(size_);
      size_ += 2 * weight_size(x);
      token_size_ = std::max(token_size_, x.in.shape[2] * x.in.shape[3]);
    }
    const std::int64_t blocks = (count_ + kGradientBlockTokens - 1) / kGradientBlockTokens;
    sums_.resize(static_cast<std::size_t>(blocks * size_));
  }

  std::int64_t blocks() const { return (count_ + kGradientBlockTokens - 1) / kGradientBlockTokens; }

  void run(std::int64_t block, const CpuPlan& plan) {
    std::vector<float> memory(
        static_cast<std::size_t>((kTokensTogether + 2) * token_size_ + size_));
    const std::int64_t last = std::min(count_, (block + 1) * kGradientBlockTokens);
    for (std::int64_t rank = block * kGradientBlockTokens; rank < last;) {
      const std::int64_t t = rank % tokens_;
      const std::int64_t some = std::min({kTokensTogether, last - rank, tokens_ - t});
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        rotate_back(i, rank / tokens_, t, some, plan, memory.data());
        for (std::int64_t k = 0; k < some; ++k) add_token(i, rank + k, k, block, memory.data());
      }
      rank += some;
    }
  }

  /// The sums over all blocks, in their order.
  void write_sums() const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::int64_t size = weight_size(tensors_[i]);
      write(tensors_[i].grad_factors, offsets_[i]);
      write(tensors_[i].grad_biases, offsets_[i] + size);
    }
  }

 private:
  std::int64_t weight_size(const NormGradientTensors& x) const {
    return params_.norm.across_heads ? x.in.shape[2] * x.in.shape[3] : x.in.shape[3];
  }

  void write(std::span<double> to, std::int64_t offset) const {
    for (std::size_t k = 0; k < to.size(); ++k) {
      double sum = 0.0;
      for (std::int64_t block = 0; block < blocks(); ++block) {
        sum += sums_[static_cast<std::size_t>(block * size_ + offset) + k];
      }
      to[k] = sum;
    }
  }

  /// Some tokens of an operand into the front of `memory`.
  void rotate_back(std::size_t i, std::int64_t batch, std::int64_t token, std::int64_t count,
                   const CpuPlan& plan, float* memory) const {
    const ConstTensorView& grad = tensors_[i].grad_out;
    const std::int64_t heads = grad.shape[2];
    const std::int64_t head_dim = grad.shape[3];
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = batch * grad.strides[0] + (token + k) * grad.strides[1];
      HWY_DYNAMIC_DISPATCH(widen_token)
      (address_of(grad.data, at, grad.dtype), grad.dtype, grad.strides[2], grad.strides[3], heads,
       head_dim, memory + k * heads * head_dim);
    }
    TensorView view;
    view.dtype = DType::kFloat32;
    view.rank = 4;
    view.shape = grad.shape;
    view.strides = {0, heads * head_dim, head_dim, 1};
    // Where token 0 would lie, outside of the memory, which pointers must not leave.
    view.data = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
        reinterpret_cast<std::uintptr_t>(memory) -
        static_cast<std::uintptr_t>(token * view.strides[1]) * sizeof(float));
    const Operand operand(view);
    RotateParams rotation = params_.rotation;
    rotation.operands = std::span<const Operand>(&operand, 1);
    const std::int64_t rank = batch * tokens_ + token;
    rotate_tokens_on_cpu(rotation, plan, rank, rank + count);
  }

  /// Token `k` of those that were rotated back.
  void add_token(std::size_t i, std::int64_t rank, std::int64_t k, std::int64_t block,
                 float* memory) {
    const NormGradientTensors& x = tensors_[i];
    const std::int64_t heads = x.in.shape[2];
    const std::int64_t head_dim = x.in.shape[3];
    const std::int64_t size = weight_size(x);
    float* const sums = memory + (kTokensTogether + 2) * token_size_;
    std::fill_n(sums, 2 * size, 0.0f);
    const auto offset = [&](const auto& view) {
      return rank / tokens_ * view.strides[0] + rank % tokens_ * view.strides[1];
    };
    NormGradientToken token{
        .in = address_of(x.in.data, offset(x.in), x.in.dtype),
        .grad_in = nullptr,
        .grad = memory + k * heads * head_dim,
        .dtype = x.in.dtype,
        .in_head_stride = x.in.strides[2],
        .in_step = x.in.strides[3],
        .grad_head_stride = x.grad_in.strides[2],
        .grad_step = x.grad_in.strides[3],
        .heads = heads,
        .head_dim = head_dim,
        .table = params_.tables[i],
        .norm = params_.norm,
        .memory = memory + kTokensTogether * token_size_,
        .sums = {sums, sums + size},
    };
    if (x.grad_in.data != nullptr) {
      token.grad_in = static_cast<char*>(x.grad_in.data) +
                      offset(x.grad_in) * static_cast<std::int64_t>(size_of(x.grad_in.dtype));
    }
    HWY_DYNAMIC_DISPATCH(norm_gradient_token)(token);
    double* const to = sums_.data() + block * size_ + offsets_[i];
    for (std::int64_t e = 0; e < 2 * size; ++e) to[e] += static_cast<double>(sums[e]);
  }

  const NormParams& params_;
  std::span<const NormGradientTensors> tensors_;
  std::int64_t tokens_;
  std::int64_t count_;                 // of all batch rows
  std::int64_t size_ = 0;              // of the sums of a block
  std::int64_t token_size_ = 0;        // maximum of all operands
  std::vector<std::int64_t> offsets_;  // of each operand in the sums of a block
  std::vector<double> sums_;
};

}  // namespace

void norm_gradient_on_cpu(const NormParams& params, std::span<const NormGradientTensors> tensors,
                          const Threads& threads) {
  RotateParams rotation = params.rotation;
  if (rotation.order.heads == HeadOrder::kAuto) rotation.order.heads = HeadOrder::kColumns;
  rotation.order.block = 1;
  CpuPlan plan = make_cpu_plan(rotation, threads);
  plan.token_order = TokenOrder::kBatchOuter;
  plan.uses_float = true;
  GradientBlocks blocks(params, tensors);
  const auto tasks = static_cast<int>(std::min<std::int64_t>(plan.tasks, blocks.blocks()));
  const auto run = [&](int task) {
    const std::int64_t last = blocks.blocks() * (task + 1) / tasks;
    for (std::int64_t b = blocks.blocks() * task / tasks; b < last; ++b) blocks.run(b, plan);
  };
  run_tasks(threads, tasks, std::ref(run));
  blocks.write_sums();
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
