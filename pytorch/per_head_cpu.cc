// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head on the CPU. Tasks are blocks of tokens: cos and sin of a block, for all
// heads, stay in the cache while its rows are rotated. Blocks have a fixed size, so that sums do
// not depend on the number of threads. Loops are written for the compiler's vectoriser: one pairing
// each, no aliases.

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/TypeCast.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "pytorch/empty_result.h"
#include "pytorch/pairs.h"
#include "pytorch/per_head.h"
#include "pytorch/per_head_table.h"

namespace rotary::torch {
namespace {

/// Tokens and batch rows of a task.
constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kBlockRows = 8;

/// The type that a tensor is rotated in.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Elements of pair i: neighbours, or half a head apart.
template <bool kHalf>
std::int64_t first_of(std::int64_t i) {
  return kHalf ? i : 2 * i;
}
template <bool kHalf>
std::int64_t second_of(std::int64_t i, std::int64_t pairs) {
  return kHalf ? i + pairs : 2 * i + 1;
}

/// (a, b) times c + i s for every pair, [pairs] each, to the pairs of `out`. Halves of a head are
/// written one after the other: stores to two places in turn would take twice as long.
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
void multiply_head(const T* __restrict in, T* __restrict out, const S* __restrict c,
                   const S* __restrict s, std::int64_t pairs) {
  const auto x = [in](std::int64_t i) { return static_cast<S>(in[first_of<kReadHalf>(i)]); };
  const auto y = [in, pairs](std::int64_t i) {
    return static_cast<S>(in[second_of<kReadHalf>(i, pairs)]);
  };
  if constexpr (kWriteHalf) {
    for (std::int64_t i = 0; i < pairs; ++i) out[i] = c10::convert<T>(x(i) * c[i] - y(i) * s[i]);
    T* __restrict second = out + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) second[i] = c10::convert<T>(x(i) * s[i] + y(i) * c[i]);
  } else {
    for (std::int64_t i = 0; i < pairs; ++i) {
      out[2 * i] = c10::convert<T>(x(i) * c[i] - y(i) * s[i]);
      out[2 * i + 1] = c10::convert<T>(x(i) * s[i] + y(i) * c[i]);
    }
  }
}

/// For an input (x, y) and the gradient (u, v) of its rotation, where g = (u, v) (c + i s) is the
/// gradient of the input: adds Im(conj(x) g) to `angle` and Re(conj(x) g) to `length`, [pairs]
/// each.
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
void add_gradients(const T* __restrict in, const T* __restrict grad, const S* __restrict c,
                   const S* __restrict s, std::int64_t pairs, S* __restrict angle,
                   S* __restrict length) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto x = static_cast<S>(in[first_of<kReadHalf>(i)]);
    const auto y = static_cast<S>(in[second_of<kReadHalf>(i, pairs)]);
    const auto u = static_cast<S>(grad[first_of<kWriteHalf>(i)]);
    const auto v = static_cast<S>(grad[second_of<kWriteHalf>(i, pairs)]);
    const S gx = u * c[i] - v * s[i];
    const S gy = u * s[i] + v * c[i];
    angle[i] += gy * x - gx * y;
    length[i] += gx * x + gy * y;
  }
}

/// Where the rows of a tensor [batch, tokens, heads, head_dim] are, in elements.
struct RowStrides {
  RowStrides(const at::Tensor& x, std::int64_t token_dim)
      : row(x.dim() == 4 ? x.stride(0) : 0),
        token(x.stride(token_dim)),
        head(x.stride(token_dim == -3 ? -2 : -3)) {}
  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return b * row + t * token + h * head;
  }
  std::int64_t row;
  std::int64_t token;
  std::int64_t head;
};

/// Elements of a head that are not rotated: those before `begin` and after `rotated` more.
template <typename T>
void copy_rest(const T* from, T* to, std::int64_t begin, std::int64_t rotated,
               std::int64_t head_dim) {
  std::copy(from, from + begin, to);
  std::copy(from + begin + rotated, from + head_dim, to + begin + rotated);
}

/// Tensors of a call as [batch, tokens, heads, head_dim] with adjacent elements.
struct HeadTensors {
  at::Tensor in{};
  at::Tensor grad{};  // undefined in the forward pass
  at::Tensor out{};

  std::int64_t batch() const { return in.dim() == 4 ? in.size(0) : 1; }
};

/// A task's tokens and batch rows.
struct TaskRange {
  std::int64_t first_token;
  std::int64_t last_token;
  std::int64_t first_row;
  std::int64_t last_row;
};

/// Sums of a task: frequencies [heads, axes, pairs] and log(scale) [pairs]; null in the forward
/// pass.
struct TaskSums {
  double* frequencies = nullptr;
  double* length = nullptr;
};

/// sums[i] += factor * values[i]
template <typename S>
void add_product(const S* __restrict values, double factor, std::int64_t count,
                 double* __restrict sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(values[i]);
}

/// One batch row of a task of one tensor, forward or backward. `table` has the factor of what is
/// written: of the operation, or of its transpose.
template <typename T, bool kReadHalf, bool kWriteHalf>
void run_row(const HeadTensors& x, const PerHeadArgs& args, const SharedRope& rope,
             const TaskRange& range, std::int64_t b, const BlockTable<Sum<T>>& table,
             std::vector<Sum<T>>& both, const TaskSums& sums) {
  const bool backward = x.grad.defined();
  const std::int64_t heads = args.frequencies.size(0);
  const std::int64_t pairs = args.frequencies.size(1);
  const std::int64_t axes = args.frequencies.size(2);
  const std::int64_t head_dim = x.in.size(-1);
  const std::int64_t group = x.in.size(args.token_dim == -3 ? -2 : -3) / heads;
  const std::int64_t begin = rope.layout().rotary_offset;
  const at::Tensor& positions = args.positions;
  const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
  const double* position =
      positions.const_data_ptr<double>() + (positions.size(1) == 1 ? 0 : b * positions.stride(1));
  const RowStrides in_rows(x.in, args.token_dim);
  const RowStrides out_rows(x.out, args.token_dim);
  const RowStrides grad_rows(backward ? x.grad : x.in, args.token_dim);
  const T* in = x.in.const_data_ptr<T>();
  const T* grad = backward ? x.grad.const_data_ptr<T>() : nullptr;
  T* out = x.out.mutable_data_ptr<T>();
  for (std::int64_t t = range.first_token; t < range.last_token; ++t) {
    for (std::int64_t f = 0; f < heads; ++f) {
      const Sum<T>* cos = table.cos(t, f);
      const Sum<T>* sin = table.sin(t, f);
      if (backward) std::fill(both.begin(), both.end(), Sum<T>{0});
      for (std::int64_t h = f * group; h < (f + 1) * group; ++h) {
        const T* from = in + in_rows.at(b, t, h);
        T* to = out + out_rows.at(b, t, h);
        if (backward) {
          const T* g = grad + grad_rows.at(b, t, h);
          multiply_head<kWriteHalf, kReadHalf>(g + begin, to + begin, cos, sin, pairs);
          add_gradients<kReadHalf, kWriteHalf>(from + begin, g + begin, cos, sin, pairs,
                                               both.data(), both.data() + pairs);
          if (head_dim != 2 * pairs) copy_rest(g, to, begin, 2 * pairs, head_dim);
        } else {
          multiply_head<kReadHalf, kWriteHalf>(from + begin, to + begin, cos, sin, pairs);
          if (head_dim != 2 * pairs) copy_rest(from, to, begin, 2 * pairs, head_dim);
        }
      }
      if (!backward) continue;
      for (std::int64_t a = 0; a < axes; ++a) {
        add_product(both.data(), position[a * axis_stride + t], pairs,
                    sums.frequencies + (f * axes + a) * pairs);
      }
      add_product(both.data() + pairs, 1.0, pairs, sums.length);
    }
  }
}

/// A task of tensors of one type: they share the table.
template <typename T, bool kReadHalf, bool kWriteHalf>
void run_task(const std::vector<HeadTensors>& tensors, const PerHeadArgs& args,
              const SharedRope& rope, const TaskRange& range, const TaskSums& sums) {
  const bool backward = tensors.front().grad.defined();
  const bool one_row = args.positions.size(1) == 1;
  BlockTable<Sum<T>> table(args, rope, backward ? transpose(args.op) : args.op);
  std::vector<Sum<T>> both(static_cast<std::size_t>(2 * args.frequencies.size(1)));
  for (std::int64_t b = range.first_row; b < range.last_row; ++b) {
    if (b == range.first_row || !one_row) {
      table.fill(one_row ? 0 : b, range.first_token, range.last_token);
    }
    for (const HeadTensors& x : tensors) {
      run_row<T, kReadHalf, kWriteHalf>(x, args, rope, range, b, table, both, sums);
    }
  }
}

template <typename T>
auto task_of(bool reads_halves, bool writes_halves) {
  if (reads_halves) return writes_halves ? run_task<T, true, true> : run_task<T, true, false>;
  return writes_halves ? run_task<T, false, true> : run_task<T, false, false>;
}

auto task_of(at::ScalarType type, bool reads_halves, bool writes_halves) {
  switch (type) {
    case at::kDouble:
      return task_of<double>(reads_halves, writes_halves);
    case at::kBFloat16:
      return task_of<at::BFloat16>(reads_halves, writes_halves);
    case at::kHalf:
      return task_of<at::Half>(reads_halves, writes_halves);
    case at::kFloat:
      return task_of<float>(reads_halves, writes_halves);
    default:
      C10_THROW_ERROR(ValueError,
                      c10::str("[rotate_per_head] tensors of ", type, " are not supported"));
  }
}

at::Tensor with_dense_heads(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

std::int64_t blocks_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

/// Runs all tasks of tensors of one type. Returns their sums, [tasks, entries + pairs]; empty in
/// the forward pass.
std::vector<double> run_tasks(const std::vector<HeadTensors>& tensors, const PerHeadArgs& args,
                              const SharedRope& rope) {
  const HeadTensors& x = tensors.front();
  const auto run =
      task_of(x.in.scalar_type(), input_pairing(args.op, rope.layout()) == Pairing::kHalf,
              output_pairing(args.op, rope.layout()) == Pairing::kHalf);
  const std::int64_t tokens = args.positions.size(2);
  const std::int64_t batch = x.batch();
  const std::int64_t blocks = blocks_of(tokens, kBlockTokens);
  const std::int64_t tasks = blocks * blocks_of(batch, kBlockRows);
  const std::int64_t entries = args.frequencies.numel();
  const std::int64_t width = entries + args.frequencies.size(1);
  std::vector<double> sums(x.grad.defined() ? static_cast<std::size_t>(tasks * width) : 0);
  at::parallel_for(0, tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t token = task % blocks * kBlockTokens;
      const std::int64_t row = task / blocks * kBlockRows;
      TaskSums own;
      if (!sums.empty()) {
        own.frequencies = sums.data() + task * width;
        own.length = own.frequencies + entries;
      }
      run(tensors, args, rope,
          {token, std::min(tokens, token + kBlockTokens), row, std::min(batch, row + kBlockRows)},
          own);
    }
  });
  return sums;
}

/// Calls `run` with the tensors of each type; returns what they are rotated to, in their order.
template <typename Run>
std::vector<at::Tensor> run_by_type(at::TensorList tensors, at::TensorList grads, const Run& run) {
  std::vector<at::Tensor> results(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (results[i].defined()) continue;
    std::vector<HeadTensors> same;
    for (std::size_t j = i; j < tensors.size(); ++j) {
      if (tensors[j].scalar_type() != tensors[i].scalar_type()) continue;
      HeadTensors x{.in = with_dense_heads(tensors[j])};
      if (!grads.empty()) x.grad = with_dense_heads(grads[j]);
      x.out = empty_result_like(x.in);
      results[j] = x.out;
      same.push_back(std::move(x));
    }
    run(same);
  }
  return results;
}

}  // namespace

std::vector<at::Tensor> rotate_per_head_on_cpu(at::TensorList tensors, const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  return run_by_type(tensors, {},
                     [&](const std::vector<HeadTensors>& same) { run_tasks(same, args, *rope); });
}

PerHeadGradients per_head_gradient_on_cpu(at::TensorList tensors, at::TensorList grads,
                                          const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  const at::Tensor& f = args.frequencies;
  const auto entries = static_cast<std::size_t>(f.numel());
  const auto pairs = static_cast<std::size_t>(f.size(1));
  const auto axes = static_cast<std::size_t>(f.size(2));
  const at::TensorOptions options = at::TensorOptions(at::kDouble);
  PerHeadGradients all{.frequencies = at::zeros(f.sizes(), options),
                       .log_scale = at::zeros({1}, options)};
  double* to = all.frequencies.mutable_data_ptr<double>();
  double* scale = all.log_scale.mutable_data_ptr<double>();
  const double sign = phase_sign(args.op);
  const double scale_sign = divides_by_scale(args.op) ? -1.0 : 1.0;
  all.inputs = run_by_type(tensors, grads, [&](const std::vector<HeadTensors>& same) {
    const std::vector<double> sums = run_tasks(same, args, *rope);
    for (std::size_t task = 0; task < sums.size(); task += entries + pairs) {
      for (std::size_t e = 0; e < entries; ++e) {  // [heads, axes, pairs]
        const std::size_t head = e / (axes * pairs);
        const std::size_t axis = e / pairs % axes;
        to[(head * pairs + e % pairs) * axes + axis] += sign * sums[task + e];
      }
      for (std::size_t i = 0; i < pairs; ++i) *scale += scale_sign * sums[task + entries + i];
    }
  });
  return all;
}

}  // namespace rotary::torch
