// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The norm of heads before their rotation. Tokens are normalised block by block into the results,
// or into scratch memory in float32, and rotated there while they are in the cache.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm_rotate.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate.h"
#include "cpu/writers-inl.h"
#include "engine/norm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Four accumulators of one part of the lanes. Members, not arrays: GCC keeps these in registers.
template <class V>
struct SquareSums {
  V s0, s1, s2, s3;

  /// `rows` times four vectors of squares, `distance` apart, from x on.
  template <class D>
  HWY_INLINE void add_rows(D d, const float* x, std::int64_t distance, std::int64_t rows) {
    for (; rows > 0; --rows, x += 4 * distance) {
      const V v0 = hn::LoadU(d, x);
      const V v1 = hn::LoadU(d, x + distance);
      const V v2 = hn::LoadU(d, x + 2 * distance);
      const V v3 = hn::LoadU(d, x + 3 * distance);
      s0 = hn::Add(s0, hn::Mul(v0, v0));
      s1 = hn::Add(s1, hn::Mul(v1, v1));
      s2 = hn::Add(s2, hn::Mul(v2, v2));
      s3 = hn::Add(s3, hn::Mul(v3, v3));
    }
  }
  HWY_INLINE void add(const SquareSums& other) {
    s0 = hn::Add(s0, other.s0);
    s1 = hn::Add(s1, other.s1);
    s2 = hn::Add(s2, other.s2);
    s3 = hn::Add(s3, other.s3);
  }
};

/// Sum of the squares of x, [n], in the order of PyTorch's sum over vectors of kLanes floats
/// (ATen/native/cpu/SumKernel.cpp, vectorized_inner_sum): four accumulators in turn, which are put
/// aside after every 16 rows; then those four, the elements that fill no vector, and the lanes. `n`
/// is less than 1024 * kLanes, where a third level would begin.
template <std::size_t kLanes>
float sum_of_squares(const float* x, std::int64_t n) {
  const hn::CappedTag<float, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kVector = kMaxLanes<decltype(d)>;
  constexpr auto kDistance = static_cast<std::int64_t>(kLanes);
  constexpr std::int64_t kRowsTogether = 16;
  const std::int64_t rows = n / (4 * kDistance);
  const std::int64_t whole = n / kDistance * kDistance;
  const V zero = hn::Zero(d);
  alignas(64) float lanes[kLanes];
  for (std::size_t part = 0; part < kLanes; part += kVector) {
    const float* const from = x + part;
    SquareSums<V> sums{zero, zero, zero, zero};
    std::int64_t row = 0;
    if (rows >= kRowsTogether) {
      SquareSums<V> aside = sums;
      for (; row + kRowsTogether <= rows; row += kRowsTogether) {
        SquareSums<V> some{zero, zero, zero, zero};
        some.add_rows(d, from + row * 4 * kDistance, kDistance, kRowsTogether);
        aside.add(some);
      }
      sums.add_rows(d, from + row * 4 * kDistance, kDistance, rows - row);
      sums.add(aside);
    } else {
      sums.add_rows(d, from, kDistance, rows);
    }
    for (std::int64_t i = rows * 4 * kDistance; i < whole; i += kDistance) {
      const V v = hn::LoadU(d, from + i);
      sums.s0 = hn::Add(sums.s0, hn::Mul(v, v));
    }
    hn::StoreU(hn::Add(hn::Add(hn::Add(sums.s0, sums.s1), sums.s2), sums.s3), d, lanes + part);
  }
  float sum = 0.0f;
  for (std::int64_t i = whole; i < n; ++i) sum += x[i] * x[i];
  for (std::size_t k = 0; k < kLanes; ++k) sum += lanes[k];
  return sum;
}

inline float sum_of_squares(const float* x, std::int64_t n, int lanes) {
  if (n < lanes) return sum_of_squares<1>(x, n);
  return lanes == 4   ? sum_of_squares<4>(x, n)
         : lanes == 8 ? sum_of_squares<8>(x, n)
                      : sum_of_squares<16>(x, n);
}

/// The element type that fills a whole register with 16-bit elements, where there is one.
template <class E>
struct WholeRegister {
  using Type = E;
};
#if ROTARY_CPU_IS_NEON
template <>
struct WholeRegister<BFloat16> {
  using Type = BFloat16LowerUpper;
};
template <>
struct WholeRegister<Float16> {
  using Type = Float16LowerUpper;
};
#endif

/// The elements of a head as floats.
template <class E>
HWY_INLINE void widen_head(const typename E::Storage* in, std::int64_t step, std::int64_t n,
                           float* to) {
  using W = typename WholeRegister<E>::Type;
  std::int64_t i = 0;
  if (step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + W::kVectors * lanes <= n; i += W::kVectors * lanes) {
      const auto v = W::load(d, in + i);
      if constexpr (W::kVectors == 2) {
        hn::StoreU(v.v0, d, to + i);
        hn::StoreU(v.v1, d, to + i + lanes);
      } else {
        hn::StoreU(v, d, to + i);
      }
    }
  }
  const OneTag<float> one;
  for (; i < n; ++i) hn::StoreU(E::load(one, in + i * step), one, to + i);
}

/// Rounds x * scale * factors, products from left to right.
template <class E, bool kHasFactors>
HWY_INLINE void scale_head(const float* x, const float scale, const float* factors,
                           const std::int64_t n, typename E::Storage* out,
                           const std::int64_t step) {
  using W = typename WholeRegister<E>::Type;
  CachedWriter writer;
  const auto scaled = [x, scale, factors](auto d, std::int64_t i) HWY_ATTR {
    const auto v = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    if constexpr (kHasFactors) {
      return hn::Mul(v, hn::LoadU(d, factors + i));
    } else {
      (void)factors;
      return v;
    }
  };
  std::int64_t i = 0;
  if (step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int64_t step_of_load = W::kVectors * lanes;
    const auto store = [&writer, &scaled, d, lanes, out](std::int64_t at) HWY_ATTR {
      if constexpr (W::kVectors == 2) {
        const Vec2<hn::Vec<decltype(d)>> v{scaled(d, at), scaled(d, at + lanes)};
        W::store(writer, d, v, out + at);
      } else {
        (void)lanes;
        W::store(writer, d, scaled(d, at), out + at);
      }
    };
    for (; i + 4 * step_of_load <= n; i += 4 * step_of_load) {
      store(i);
      store(i + step_of_load);
      store(i + 2 * step_of_load);
      store(i + 3 * step_of_load);
    }
    for (; i + step_of_load <= n; i += step_of_load) store(i);
  }
  const OneTag<float> one;
  for (; i < n; ++i) E::store(writer, one, scaled(one, i), out + i * step);
}

/// Heads whose sums are formed before the first is scaled: division and square root take longer
/// than the sum of a head, and overlap with the next.
inline constexpr std::int64_t kHeadsTogether = 16;

/// Some heads of a token, at most kHeadsTogether, and in memory of kMaxNormHeadDim elements.
template <class In, class Out>
HWY_INLINE void norm_some(const NormBlock& a, const typename In::Storage* in,
                          typename Out::Storage* out, std::int64_t heads, float* memory) {
  const std::int64_t n = a.head_dim;
  const float* from = memory;
  std::int64_t distance = n;
  bool is_wide = false;
  if constexpr (std::is_same_v<In, Float32>) {
    if (a.in_step == 1) {
      from = in;
      distance = a.in_head_stride;
      is_wide = true;
    }
  }
  float scales[kHeadsTogether];
  for (std::int64_t h = 0; h < heads; ++h) {
    if (!is_wide) widen_head<In>(in + h * a.in_head_stride, a.in_step, n, memory + h * n);
    const float mean = sum_of_squares(from + h * distance, n, a.sum_lanes) / static_cast<float>(n);
    scales[h] = 1.0f / std::sqrt(mean + a.eps);
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* const x = from + h * distance;
    auto* const to = out + h * a.out_head_stride;
    if (a.factors != nullptr) {
      scale_head<Out, true>(x, scales[h], a.factors, n, to, a.out_step);
    } else {
      scale_head<Out, false>(x, scales[h], nullptr, n, to, a.out_step);
    }
  }
}

template <class In, class Out>
void norm_heads(const NormBlock& a) {
  alignas(64) float memory[kMaxNormHeadDim];
  const std::int64_t together =
      std::clamp(kMaxNormHeadDim / a.head_dim, std::int64_t{1}, kHeadsTogether);
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const auto* in = static_cast<const typename In::Storage*>(a.in) + t * a.in_token_stride;
    auto* out = static_cast<typename Out::Storage*>(a.out) + t * a.out_token_stride;
    for (std::int64_t h = 0; h < a.heads; h += together) {
      norm_some<In, Out>(a, in + h * a.in_head_stride, out + h * a.out_head_stride,
                         std::min(together, a.heads - h), memory);
    }
  }
}

void norm_block(const NormBlock& a) {
  const bool to_float = a.out_type == DType::kFloat32;
  if (a.in_type == DType::kBFloat16) {
    return to_float ? norm_heads<BFloat16, Float32>(a) : norm_heads<BFloat16, BFloat16>(a);
  }
  if (a.in_type == DType::kFloat16) {
    return to_float ? norm_heads<Float16, Float32>(a) : norm_heads<Float16, Float16>(a);
  }
  norm_heads<Float32, Float32>(a);
}

/// Rounds heads of float32 to bfloat16 or float16.
template <class Out>
void round_heads(const NormBlock& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const auto* in = static_cast<const float*>(a.in) + t * a.in_token_stride;
    auto* out = static_cast<typename Out::Storage*>(a.out) + t * a.out_token_stride;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      scale_head<Out, false>(in + h * a.in_head_stride, 1.0f, nullptr, a.head_dim,
                             out + h * a.out_head_stride, a.out_step);
    }
  }
}

void round_block(const NormBlock& a) {
  a.out_type == DType::kBFloat16 ? round_heads<BFloat16>(a) : round_heads<Float16>(a);
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(norm_block);
HWY_EXPORT(round_block);

/// Bytes of the results of a block, so that they stay in the first- or second-level cache.
constexpr std::int64_t kNormBlockBytes = std::int64_t{1} << 16;

/// Tokens first .. last - 1 of a batch row.
struct TokenRange {
  std::int64_t batch, first, last;
};

NormBlock block_of(const Operand& x, const TokenRange& at) {
  const auto offset = [&at](const auto& view) {
    return (at.batch * view.strides[0] + at.first * view.strides[1]) *
           static_cast<std::int64_t>(size_of(view.dtype));
  };
  return {.in = static_cast<const char*>(x.in.data) + offset(x.in),
          .out = static_cast<char*>(x.out.data) + offset(x.out),
          .in_type = x.in.dtype,
          .out_type = x.out.dtype,
          .in_token_stride = x.in.strides[1],
          .in_head_stride = x.in.strides[2],
          .in_step = x.in.strides[3],
          .out_token_stride = x.out.strides[1],
          .out_head_stride = x.out.strides[2],
          .out_step = x.out.strides[3],
          .tokens = at.last - at.first,
          .heads = x.in.shape[2],
          .head_dim = x.in.shape[3],
          .factors = nullptr,
          .eps = 0.0f,
          .sum_lanes = 4};
}

/// A task's operands: the results, which are rotated in place, or float32 in scratch memory.
class BlockOperands {
 public:
  BlockOperands(const NormParams& params, std::int64_t max_tokens) {
    std::size_t size = 0;
    for (const Operand& x : params.rotation.operands) {
      const bool is_wide =
          params.rounding == NormRounding::kFloat32 && x.in.dtype != DType::kFloat32;
      offsets_.push_back(is_wide ? static_cast<std::int64_t>(size) : -1);
      if (is_wide) size += static_cast<std::size_t>(max_tokens * x.in.shape[2] * x.in.shape[3]);
    }
    scratch_.resize(size);
  }

  /// For the tokens of `at`. Scratch memory begins with its first token.
  std::span<const Operand> at(std::span<const Operand> operands, const TokenRange& at) {
    operands_.clear();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      TensorView view = operands[i].out;
      if (is_wide(i)) {
        view.dtype = DType::kFloat32;
        view.strides = {0, view.shape[2] * view.shape[3], view.shape[3], 1};
        const auto before = static_cast<std::uintptr_t>(at.first * view.strides[1]) * sizeof(float);
        // Where token 0 would lie. That is outside of the memory, which pointers must not leave.
        view.data = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
            reinterpret_cast<std::uintptr_t>(scratch_.data() + offsets_[i]) - before);
      }
      operands_.emplace_back(view);
    }
    return operands_;
  }
  bool is_wide(std::size_t i) const { return offsets_[i] >= 0; }

 private:
  std::vector<float> scratch_;
  std::vector<std::int64_t> offsets_;
  std::vector<Operand> operands_;
};

/// Normalises and rotates the tokens of one block.
void run_block(const NormParams& params, const CpuPlan& plan, const TokenRange& at,
               BlockOperands& memory) {
  const std::span<const Operand> given = params.rotation.operands;
  const std::span<const Operand> used = memory.at(given, at);
  for (std::size_t i = 0; i < given.size(); ++i) {
    NormBlock block = block_of({given[i].in, used[i].out}, at);
    block.factors = params.factors[i];
    block.eps = params.eps;
    block.sum_lanes = params.sum_lanes;
    HWY_DYNAMIC_DISPATCH(norm_block)(block);
  }
  RotateParams rotation = params.rotation;
  rotation.operands = used;
  const std::int64_t rank = at.batch * given.front().in.shape[1];
  rotate_tokens_on_cpu(rotation, plan, rank + at.first, rank + at.last);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (memory.is_wide(i)) {
      HWY_DYNAMIC_DISPATCH(round_block)(block_of({used[i].in, given[i].out}, at));
    }
  }
}

}  // namespace

void norm_rotate_on_cpu(const NormParams& params, const Threads& threads) {
  const RotateParams& rotation = params.rotation;
  std::vector<Operand> in_place;
  std::int64_t token_bytes = 0;
  for (const Operand& x : rotation.operands) {
    in_place.emplace_back(x.out);
    token_bytes += x.in.shape[2] * x.in.shape[3] * static_cast<std::int64_t>(size_of(x.in.dtype));
  }
  RotateParams cached = rotation;
  cached.operands = in_place;
  if (cached.order.heads == HeadOrder::kAuto) cached.order.heads = HeadOrder::kColumns;
  cached.order.block = 1;
  CpuPlan plan = make_cpu_plan(cached, threads);
  plan.token_order = TokenOrder::kBatchOuter;

  const std::int64_t tokens = rotation.operands.front().in.shape[1];
  const std::int64_t max_tokens = std::max<std::int64_t>(1, kNormBlockBytes / token_bytes);
  const auto run = [&](int task) {
    BlockOperands memory(params, max_tokens);
    const std::int64_t last = plan.num_tokens * (task + 1) / plan.tasks;
    for (std::int64_t rank = plan.num_tokens * task / plan.tasks; rank < last;) {
      const std::int64_t t = rank % tokens;
      const std::int64_t count = std::min({max_tokens, last - rank, tokens - t});
      run_block(params, plan, {rank / tokens, t, t + count}, memory);
      rank += count;
    }
  };
  run_tasks(threads, plan.tasks, std::ref(run));
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
