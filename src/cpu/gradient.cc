// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of the rotation with respect to what is not a tensor. With o = z x the rotated pair and
// g the gradient that arrives there,
//   d loss / d phase   = o_x g_y - o_y g_x     (the turn)
//   d loss / d log |z| = o_x g_x + o_y g_y     (the stretch)
// summed over heads; frequencies, positions, growth and scale follow by the chain rule.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gradient.cc"
#include "cpu/targets.h"
// Above is before this on purpose: it says which targets are built.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/pairs-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/row-inl.h"
#include "cpu/turns-inl.h"
#include "rope/kernel.h"

#ifndef ROTARY_CPU_GRADIENT_ONCE
#define ROTARY_CPU_GRADIENT_ONCE
namespace rotary::internal {

/// Tokens whose sums are added up before they join those of others. The order of all additions
/// follows from this number and never from the number of threads.
inline constexpr std::int64_t kBlockTokens = 64;

/// Where the sums of a block go: [pairs x axes] for the frequencies, and one for the scale.
struct BlockSums {
  double* frequencies = nullptr;
  double* scale = nullptr;
};

}  // namespace rotary::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The head of one token: what was rotated and the gradient of the result.
template <typename Storage>
struct GradientHead {
  const Storage* x;
  const Storage* g;
  std::int64_t x_step;
  std::int64_t g_step;
};

/// Adds turn and stretch of the pairs from i on that fill vectors of this tag.
template <class E, class D>
HWY_INLINE std::int64_t add_pairs(D d, const Job& job, const GradientHead<typename E::Storage>& a,
                                  const Row<typename E::Compute>& row, std::int64_t i,
                                  typename E::Compute* turn, typename E::Compute* stretch) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= job.pairs; i += lanes) {
    const V c = hn::LoadU(d, row.c + i);
    const V s = hn::LoadU(d, row.s + i);
    V x = c;
    V y = c;
    V gx = c;
    V gy = c;
    if (kMaxLanes<D> > 1 || (a.x_step == 1 && a.g_step == 1)) {
      load_pairs<E>(d, job.read, a.x, job.pairs, i, x, y);
      load_pairs<E>(d, job.write, a.g, job.pairs, i, gx, gy);
    } else {
      const auto load = [&](Pairing pairing, const auto* from, std::int64_t step, V& u, V& v)
                            HWY_ATTR {
                              const bool half = pairing == Pairing::kHalf;
                              u = E::load(d, from + (half ? i : 2 * i) * step);
                              v = E::load(d, from + (half ? i + job.pairs : 2 * i + 1) * step);
                            };
      load(job.read, a.x, a.x_step, x, y);
      load(job.write, a.g, a.g_step, gx, gy);
    }
    const V first = fused_negative(d, y, s, hn::Mul(x, c));
    const V second = fused(d, x, s, hn::Mul(y, c));
    const V turned = fused_negative(d, second, gx, hn::Mul(first, gy));
    const V stretched = fused(d, first, gx, hn::Mul(second, gy));
    hn::StoreU(hn::Add(hn::LoadU(d, turn + i), turned), d, turn + i);
    hn::StoreU(hn::Add(hn::LoadU(d, stretch + i), stretched), d, stretch + i);
  }
  return i;
}

/// All heads of one token of one operand.
template <class E>
void add_token(const GradientJob& job, std::size_t operand, std::int64_t b, std::int64_t t,
               const Row<typename E::Compute>& row, typename E::Compute* turn,
               typename E::Compute* stretch) {
  using T = typename E::Compute;
  using Storage = typename E::Storage;
  const Job& forward = job.forward;
  const ConstTensorView& in = job.tensors[operand].in;
  const ConstTensorView& grad = job.tensors[operand].grad_out;
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
          i = add_pairs<E>(FullTag<T>(), forward, head, row, i, turn, stretch);
        }
        i = add_pairs<E>(BlockTag<T>(), forward, head, row, i, turn, stretch);
      }
    }
    add_pairs<E>(OneTag<T>(), forward, head, row, i, turn, stretch);
  }
}

/// Adds the operands of one arithmetic to `turns` and `stretches`, [pairs] doubles.
template <typename T>
void add_operands(const GradientJob& job, RowMaker<T>& maker, std::int64_t b, std::int64_t t,
                  std::vector<T>& sums, double* turns, double* stretches) {
  const std::int64_t pairs = job.forward.pairs;
  const Row<T> row = maker.make(b, t);
  std::fill(sums.begin(), sums.end(), T{0});
  T* turn = sums.data();
  T* stretch = sums.data() + pairs;
  for (std::size_t i = 0; i < job.tensors.size(); ++i) {
    if (job.tensors[i].in.shape[2] == 0) continue;
    const DType dtype = job.tensors[i].in.dtype;
    if constexpr (sizeof(T) == sizeof(double)) {
      if (dtype == DType::kFloat64) add_token<Float64>(job, i, b, t, row, turn, stretch);
    } else {
      if (dtype == DType::kFloat32) add_token<Float32>(job, i, b, t, row, turn, stretch);
      if (dtype == DType::kBFloat16) add_token<BFloat16>(job, i, b, t, row, turn, stretch);
      if (dtype == DType::kFloat16) add_token<Float16>(job, i, b, t, row, turn, stretch);
    }
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    turns[i] += static_cast<double>(turn[i]);
    stretches[i] += static_cast<double>(stretch[i]);
  }
}

/// From the turns and stretches of one token to the gradients.
inline void finish_token(const GradientJob& job, const Place& place, std::int64_t b, std::int64_t t,
                         const double* turns, const double* stretches, const BlockSums& sums) {
  const Frequencies& f = job.frequencies;
  const TensorView& positions = job.parameters.positions;
  const bool one_axis = job.forward.positions.same_on_all_axes();
  for (std::int64_t a = 0; a < f.axes; ++a) {
    double gradient = 0.0;
    for (std::int64_t i = 0; i < f.pairs; ++i) {
      const auto entry = static_cast<std::size_t>(i * f.axes + a);
      if (sums.frequencies != nullptr) sums.frequencies[entry] += place.at[a].real * turns[i];
      gradient += f.values[entry] * turns[i];
      if (!f.growth.empty()) gradient += f.growth[entry] * stretches[i];
    }
    if (positions.data == nullptr) continue;
    const std::int64_t row = positions.shape[1] == 1 ? 0 : b;
    static_cast<double*>(positions.data)[(one_axis ? 0 : a) * positions.strides[0] +
                                         row * positions.strides[1] + t * positions.strides[2]] +=
        gradient;
  }
  if (sums.scale == nullptr) return;
  double stretch = 0.0;
  for (std::int64_t i = 0; i < f.pairs; ++i) stretch += stretches[i];
  *sums.scale += stretch / f.scale;
}

void gradient_block(const GradientJob& job, const Plan& plan, std::int64_t block,
                    const BlockSums& sums) {
  const auto pairs = static_cast<std::size_t>(job.forward.pairs);
  RowMaker<float> floats(job.forward, RowForm::kPlain);
  RowMaker<double> doubles(job.forward, RowForm::kPlain);
  PositionReader reader(job.forward.positions);
  std::vector<float> float_sums(plan.uses_float ? 2 * pairs : 0);
  std::vector<double> double_sums(plan.uses_double ? 2 * pairs : 0);
  std::vector<double> token(2 * pairs);
  double* turns = token.data();
  double* stretches = token.data() + pairs;

  const auto [batches, tokens, heads, head_dim] = job.tensors.front().in.shape;
  const std::int64_t last = std::min(tokens, (block + 1) * kBlockTokens);
  for (std::int64_t t = block * kBlockTokens; t < last; ++t) {
    for (std::int64_t b = 0; b < batches; ++b) {
      std::fill(token.begin(), token.end(), 0.0);
      if (plan.uses_float) add_operands(job, floats, b, t, float_sums, turns, stretches);
      if (plan.uses_double) add_operands(job, doubles, b, t, double_sums, turns, stretches);
      Place place;
      read_place(job.forward.positions, reader, job.frequencies.axes, b, t, place);
      finish_token(job, place, b, t, turns, stretches, sums);
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

void gradient_on_cpu(const GradientJob& job, const Threads& threads) {
  const ParameterGradients& wanted = job.parameters;
  const Plan plan = make_plan(job.forward, threads);
  const std::int64_t tokens = job.tensors.front().in.shape[1];
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
      engine(job, plan, block, block_sums(block));
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
