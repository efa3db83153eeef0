// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head on the CPU. Tasks are blocks of tokens: cos and sin of a block, for all
// heads, stay in the cache while its rows are rotated. Blocks have a fixed size, so that sums do not
// depend on the number of threads. Loops are written for the compiler's vectoriser: one pairing each,
// no aliases.

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/TypeCast.h>

#include <algorithm>
#include <type_traits>
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
/// gradient of the input: adds Im(conj(x) g) to `angle` and Re(conj(x) g) to `length`, [pairs] each.
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

/// Sums of a task: frequencies [heads, pairs, axes] and log(scale); null in the forward pass.
struct TaskSums {
  double* frequencies = nullptr;
  double* length = nullptr;
};

/// Adds the gradients of one frequency head of a token to the sums of a task.
template <typename S>
void add_to_sums(const std::vector<S>& both, const double* position, std::int64_t axis_stride,
                 std::int64_t axes, double* frequencies, double* length) {
  const std::size_t pairs = both.size() / 2;
  for (std::int64_t a = 0; a < axes; ++a) {
    const double at = position[a * axis_stride];
    for (std::size_t i = 0; i < pairs; ++i) {
      frequencies[static_cast<std::int64_t>(i) * axes + a] += at * static_cast<double>(both[i]);
    }
  }
  S sum{0};
  for (std::size_t i = pairs; i < 2 * pairs; ++i) sum += both[i];
  *length += static_cast<double>(sum);
}

/// The rows of a task of one tensor, forward or backward. The table is that of the product which is
/// written: of the operation, or of its transpose.
template <typename T, bool kReadHalf, bool kWriteHalf>
void run_task(const HeadTensors& x, const PerHeadArgs& args, const SharedRope& rope,
              const TaskRange& range, const TaskSums& sums) {
  const bool backward = x.grad.defined();
  const std::int64_t heads = args.frequencies.size(0);
  const std::int64_t pairs = args.frequencies.size(1);
  const std::int64_t axes = args.frequencies.size(2);
  const std::int64_t head_dim = x.in.size(-1);
  const std::int64_t group = x.in.size(args.token_dim == -3 ? -2 : -3) / heads;
  const std::int64_t begin = rope.layout().rotary_offset;
  const at::Tensor& positions = args.positions;
  const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
  const std::int64_t row_stride = positions.size(1) == 1 ? 0 : positions.stride(1);
  const double* position = positions.const_data_ptr<double>();
  const RowStrides in_rows(x.in, args.token_dim);
  const RowStrides out_rows(x.out, args.token_dim);
  const RowStrides grad_rows(backward ? x.grad : x.in, args.token_dim);
  const T* in = x.in.const_data_ptr<T>();
  const T* grad = backward ? x.grad.const_data_ptr<T>() : nullptr;
  T* out = x.out.mutable_data_ptr<T>();

  BlockTable<Sum<T>> table(args, rope, backward ? transpose(args.op) : args.op);
  std::vector<Sum<T>> both(static_cast<std::size_t>(2 * pairs));
  for (std::int64_t b = range.first_row; b < range.last_row; ++b) {
    if (b == range.first_row || row_stride != 0) {
      table.fill(row_stride == 0 ? 0 : b, range.first_token, range.last_token);
    }
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
        if (backward) {
          add_to_sums(both, position + b * row_stride + t, axis_stride, axes,
                      sums.frequencies + f * pairs * axes, sums.length);
        }
      }
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

/// Runs all tasks of a tensor. `sums`: [tasks, entries + 1], or empty.
void run_tasks(const HeadTensors& x, const PerHeadArgs& args, const SharedRope& rope,
               std::vector<double>& sums) {
  const auto run =
      task_of(x.in.scalar_type(), input_pairing(args.op, rope.layout()) == Pairing::kHalf,
              output_pairing(args.op, rope.layout()) == Pairing::kHalf);
  const std::int64_t tokens = args.positions.size(2);
  const std::int64_t batch = x.batch();
  const std::int64_t blocks = blocks_of(tokens, kBlockTokens);
  const std::int64_t entries = args.frequencies.numel();
  at::parallel_for(0, blocks * blocks_of(batch, kBlockRows), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t task = begin; task < end; ++task) {
                       const std::int64_t token = task % blocks * kBlockTokens;
                       const std::int64_t row = task / blocks * kBlockRows;
                       TaskSums own;
                       if (!sums.empty()) {
                         own.frequencies = sums.data() + task * (entries + 1);
                         own.length = own.frequencies + entries;
                       }
                       run(x, args, rope,
                           {token, std::min(tokens, token + kBlockTokens), row,
                            std::min(batch, row + kBlockRows)},
                           own);
                     }
                   });
}

}  // namespace

std::vector<at::Tensor> rotate_per_head_on_cpu(at::TensorList tensors, const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  std::vector<at::Tensor> results;
  std::vector<double> no_sums;
  for (const at::Tensor& tensor : tensors) {
    HeadTensors x{.in = with_dense_heads(tensor)};
    x.out = empty_result_like(x.in);
    run_tasks(x, args, *rope, no_sums);
    results.push_back(x.out);
  }
  return results;
}

PerHeadGradients per_head_gradient_on_cpu(at::TensorList tensors, at::TensorList grads,
                                          const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  const at::TensorOptions options = at::TensorOptions(at::kDouble);
  PerHeadGradients all{.frequencies = at::zeros(args.frequencies.sizes(), options),
                       .log_scale = at::zeros({1}, options)};
  double* f = all.frequencies.mutable_data_ptr<double>();
  double* s = all.log_scale.mutable_data_ptr<double>();
  const std::int64_t entries = args.frequencies.numel();
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    HeadTensors x{.in = with_dense_heads(tensors[k]), .grad = with_dense_heads(grads[k])};
    x.out = empty_result_like(x.in);
    const std::int64_t tasks =
        blocks_of(args.positions.size(2), kBlockTokens) * blocks_of(x.batch(), kBlockRows);
    std::vector<double> sums(
        static_cast<std::size_t>(std::max<std::int64_t>(tasks, 1) * (entries + 1)));
    run_tasks(x, args, *rope, sums);
    for (std::int64_t task = 0; task < tasks; ++task) {
      const double* from = sums.data() + task * (entries + 1);
      for (std::int64_t i = 0; i < entries; ++i) f[i] += phase_sign(args.op) * from[i];
      *s += divides_by_scale(args.op) ? -from[entries] : from[entries];
    }
    all.inputs.push_back(x.out);
  }
  return all;
}

}  // namespace rotary::torch
