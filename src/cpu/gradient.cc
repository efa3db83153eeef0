// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of the rotation with respect to frequencies, positions and scale. With o = z x the
// rotated pair and g the gradient of the loss with respect to o,
//   d loss / d phase   = o_x g_y - o_y g_x
//   d loss / d log |z| = o_x g_x + o_y g_y
// summed over heads; frequencies, positions, growth and scale follow by the chain rule.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gradient.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate_strided-inl.h"
#include "cpu/rotation_row-inl.h"
#include "engine/kernel.h"

#ifndef ROTARY_CPU_GRADIENT_ONCE
#define ROTARY_CPU_GRADIENT_ONCE
namespace rotary::internal {

/// Tokens per block. Gradients are summed within a block and then over the blocks, so that the
/// order of additions does not depend on the number of threads.
inline constexpr std::int64_t kBlockTokens = 64;

/// Sums of one block: frequencies [pairs x axes] and scale [1]; null where not asked for.
struct BlockSums {
  double* frequencies = nullptr;
  double* scale = nullptr;
};

}  // namespace rotary::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// One head of one token: the input of the rotation and the gradient of its output.
template <typename Storage>
struct GradientHead {
  const Storage* x;
  const Storage* g;
  std::int64_t x_step;
  std::int64_t g_step;
};

/// Gradients with respect to phase and log |z| of every pair, [pairs] each.
template <typename T>
struct PairGradients {
  T* phase;
  T* log_magnitude;
};

/// Adds the gradients of the pairs from i on that fill vectors of this tag. Returns the first pair
/// that is left.
template <class E, class D>
HWY_INLINE std::int64_t add_pairs(D d, const RotateParams& params,
                                  const GradientHead<typename E::Storage>& head,
                                  const RotationRow<typename E::Compute>& row, std::int64_t i,
                                  const PairGradients<typename E::Compute>& sums) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t pairs = params.pairs;
  for (; i + lanes <= pairs; i += lanes) {
    const Rotation<V> z = load_rotation(d, row, i);
    Pairs<V> x{z.c, z.c};
    Pairs<V> g{z.c, z.c};
    if (kMaxLanes<D> > 1 || (head.x_step == 1 && head.g_step == 1)) {
      x = load_pairs<E>(d, params.read, head.x, pairs, i);
      g = load_pairs<E>(d, params.write, head.g, pairs, i);
    } else {
      x = load_strided_pair<E>(d, params.read, head.x, head.x_step, pairs, i);
      g = load_strided_pair<E>(d, params.write, head.g, head.g_step, pairs, i);
    }
    const Pairs<V> o = rotate_pairs(d, z, x);
    const V phase = neg_mul_add(d, o.y, g.x, hn::Mul(o.x, g.y));
    const V log_magnitude = mul_add(d, o.x, g.x, hn::Mul(o.y, g.y));
    hn::StoreU(hn::Add(hn::LoadU(d, sums.phase + i), phase), d, sums.phase + i);
    hn::StoreU(hn::Add(hn::LoadU(d, sums.log_magnitude + i), log_magnitude), d,
               sums.log_magnitude + i);
  }
  return i;
}

/// Adds the gradients of all heads of one token of one operand.
template <class E>
void add_token(const GradientParams& params, std::size_t operand, std::int64_t b, std::int64_t t,
               const RotationRow<typename E::Compute>& row,
               const PairGradients<typename E::Compute>& sums) {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  const RotateParams& forward = params.forward;
  const ConstTensorView& in = params.tensors[operand].in;
  const ConstTensorView& grad = params.tensors[operand].grad_out;
  const auto* x = static_cast<const Storage*>(in.data) + b * in.strides[0] + t * in.strides[1] +
                  forward.rotary_offset * in.strides[3];
  const auto* g = static_cast<const Storage*>(grad.data) + b * grad.strides[0] +
                  t * grad.strides[1] + forward.rotary_offset * grad.strides[3];
  for (std::int64_t h = 0; h < in.shape[2]; ++h) {
    const GradientHead<Storage> head{x + h * in.strides[2], g + h * grad.strides[2], in.strides[3],
                                     grad.strides[3]};
    std::int64_t i = 0;
    if constexpr (kHasBlocks) {
      if (head.x_step == 1 && head.g_step == 1) {
        if (forward.read == Pairing::kHalf && forward.write == Pairing::kHalf) {
          i = add_pairs<E>(FullTag<T>(), forward, head, row, i, sums);
        }
        i = add_pairs<E>(BlockTag<T>(), forward, head, row, i, sums);
      }
    }
    add_pairs<E>(OneTag<T>(), forward, head, row, i, sums);
  }
}

/// Adds the gradients of one token of all operands whose arithmetic is T. `memory` is [2 * pairs].
template <typename T>
void add_operands(const GradientParams& params, RotationRowBuilder<T>& rows, std::int64_t b,
                  std::int64_t t, std::vector<T>& memory, const PairGradients<double>& sums) {
  const std::int64_t pairs = params.forward.pairs;
  const RotationRow<T> row = rows.build(b, t);
  std::fill(memory.begin(), memory.end(), T{0});
  const PairGradients<T> token{memory.data(), memory.data() + pairs};
  for (std::size_t i = 0; i < params.tensors.size(); ++i) {
    if (params.tensors[i].in.shape[2] == 0) continue;
    const DType dtype = params.tensors[i].in.dtype;
    if constexpr (sizeof(T) == sizeof(double)) {
      if (dtype == DType::kFloat64) add_token<Float64>(params, i, b, t, row, token);
    } else {
      if (dtype == DType::kFloat32) add_token<Float32>(params, i, b, t, row, token);
      if (dtype == DType::kBFloat16) add_token<BFloat16>(params, i, b, t, row, token);
      if (dtype == DType::kFloat16) add_token<Float16>(params, i, b, t, row, token);
    }
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    sums.phase[i] += static_cast<double>(token.phase[i]);
    sums.log_magnitude[i] += static_cast<double>(token.log_magnitude[i]);
  }
}

/// The chain rule for one token: from its pairs to frequencies, positions and scale.
inline void apply_chain_rule(const GradientParams& params, const AxisPositions& at, std::int64_t b,
                             std::int64_t t, const PairGradients<double>& token,
                             const BlockSums& sums) {
  const Frequencies& f = params.frequencies;
  const TensorView& positions = params.parameters.positions;
  const bool one_axis = params.forward.positions.same_on_all_axes();
  for (std::int64_t a = 0; a < f.axes; ++a) {
    double gradient = 0.0;
    for (std::int64_t i = 0; i < f.pairs; ++i) {
      const auto entry = static_cast<std::size_t>(i * f.axes + a);
      if (sums.frequencies != nullptr) sums.frequencies[entry] += at.at[a].real * token.phase[i];
      gradient += f.values[entry] * token.phase[i];
      if (!f.growth.empty()) gradient += f.growth[entry] * token.log_magnitude[i];
    }
    if (positions.data == nullptr) continue;
    const std::int64_t row = positions.shape[1] == 1 ? 0 : b;
    static_cast<double*>(positions.data)[(one_axis ? 0 : a) * positions.strides[0] +
                                         row * positions.strides[1] + t * positions.strides[2]] +=
        gradient;
  }
  if (sums.scale == nullptr) return;
  double total = 0.0;
  for (std::int64_t i = 0; i < f.pairs; ++i) total += token.log_magnitude[i];
  *sums.scale += total / f.scale;
}

void gradient_block(const GradientParams& params, const CpuPlan& plan, std::int64_t block,
                    const BlockSums& sums) {
  const auto pairs = static_cast<std::size_t>(params.forward.pairs);
  RotationRowBuilder<float> float_rows(params.forward, RowLayout::kPerPair);
  RotationRowBuilder<double> double_rows(params.forward, RowLayout::kPerPair);
  PositionReader reader(params.forward.positions);
  std::vector<float> float_memory(plan.uses_float ? 2 * pairs : 0);
  std::vector<double> double_memory(plan.uses_double ? 2 * pairs : 0);
  std::vector<double> memory(2 * pairs);
  const PairGradients<double> token{memory.data(), memory.data() + pairs};

  const auto [batches, tokens, heads, head_dim] = params.tensors.front().in.shape;
  const std::int64_t last = std::min(tokens, (block + 1) * kBlockTokens);
  for (std::int64_t t = block * kBlockTokens; t < last; ++t) {
    for (std::int64_t b = 0; b < batches; ++b) {
      std::fill(memory.begin(), memory.end(), 0.0);
      if (plan.uses_float) add_operands(params, float_rows, b, t, float_memory, token);
      if (plan.uses_double) add_operands(params, double_rows, b, t, double_memory, token);
      AxisPositions at;
      read_axis_positions(params.forward.positions, reader, params.frequencies.axes, b, t, at);
      apply_chain_rule(params, at, b, t, token, sums);
    }
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(gradient_block);

void set_to_zero(const TensorView& view) {
  for (std::int64_t a = 0; a < view.shape[0]; ++a) {
    for (std::int64_t b = 0; b < view.shape[1]; ++b) {
      for (std::int64_t t = 0; t < view.shape[2]; ++t) {
        static_cast<double*>(
            view.data)[a * view.strides[0] + b * view.strides[1] + t * view.strides[2]] = 0.0;
      }
    }
  }
}

}  // namespace

void gradient_on_cpu(const GradientParams& params, const Threads& threads) {
  const ParameterGradients& wanted = params.parameters;
  const CpuPlan plan = make_cpu_plan(params.forward, threads);
  const std::int64_t tokens = params.tensors.front().in.shape[1];
  const std::int64_t blocks = (tokens + kBlockTokens - 1) / kBlockTokens;
  const std::size_t entries = wanted.frequencies.size() + 1;
  std::vector<double> sums(static_cast<std::size_t>(blocks) * entries);
  if (wanted.positions.data != nullptr) set_to_zero(wanted.positions);

  const auto engine = HWY_DYNAMIC_DISPATCH(gradient_block);
  const auto block_sums = [&](std::int64_t block) {
    double* entry = sums.data() + static_cast<std::size_t>(block) * entries;
    return BlockSums{wanted.frequencies.empty() ? nullptr : entry,
                     wanted.scale == nullptr ? nullptr : entry + wanted.frequencies.size()};
  };
  const int tasks = static_cast<int>(std::min<std::int64_t>(plan.tasks, blocks));
  const auto run = [&](int task) {
    for (std::int64_t block = blocks * task / tasks; block < blocks * (task + 1) / tasks; ++block) {
      engine(params, plan, block, block_sums(block));
    }
  };
  if (tasks > 0) run_tasks(threads, tasks, std::ref(run));

  std::fill(wanted.frequencies.begin(), wanted.frequencies.end(), 0.0);
  if (wanted.scale != nullptr) *wanted.scale = 0.0;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const BlockSums part = block_sums(block);
    for (std::size_t i = 0; i < wanted.frequencies.size(); ++i) {
      wanted.frequencies[i] += part.frequencies[i];
    }
    if (wanted.scale != nullptr) *wanted.scale += *part.scale;
  }
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
