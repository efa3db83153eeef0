// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head on the CPU. Tasks are blocks of tokens: cos and sin of a block, for all
// heads, stay in the cache while its rows are rotated. Blocks of tokens have a fixed size, and in
// the backward pass those of batch rows, too: sums do not depend on the number of threads.

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "pytorch/empty_result.h"
#include "pytorch/pairs.h"
#include "pytorch/per_head.h"
#include "pytorch/per_head_loops.h"
#include "pytorch/per_head_table.h"

namespace rotary::torch {
namespace {

/// Tokens of a task, and batch rows in the backward pass.
constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kGradientRows = 8;

/// The type that a tensor is rotated in.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

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

/// The heads of a task in one batch row of a tensor, from element `begin` of a head on.
template <typename T>
BlockOf<T> block_of(T* data, const at::Tensor& x, std::int64_t token_dim, std::int64_t row,
                    std::int64_t token, std::int64_t begin) {
  const std::int64_t token_stride = x.stride(token_dim);
  const std::int64_t row_stride = x.dim() == 4 ? x.stride(0) : 0;
  return {data + row * row_stride + token * token_stride + begin, token_stride,
          x.stride(token_dim == -3 ? -2 : -3)};
}

/// One batch row of a task of one tensor, forward or backward. `table` has the factor of what is
/// written: of the operation, or of its transpose.
template <typename T, bool kReadHalf, bool kWriteHalf>
void run_row(const HeadTensors& x, const PerHeadArgs& args, const SharedRope& rope,
             const TaskRange& range, std::int64_t b, BlockFactor<Sum<T>> factor,
             std::vector<Sum<T>>& scratch, const TaskSums& sums) {
  const std::int64_t heads = args.frequencies.size(0);
  const std::int64_t all_heads = x.in.size(args.token_dim == -3 ? -2 : -3);
  const BlockShape shape{.tokens = range.last_token - range.first_token,
                         .heads = heads,
                         .group = all_heads / heads,
                         .pairs = args.frequencies.size(1)};
  const std::int64_t begin = rope.layout().rotary_offset;
  const auto block = [&]<typename E>(E* data, const at::Tensor& tensor) {
    return block_of(data, tensor, args.token_dim, b, range.first_token, begin);
  };
  const BlockOf<const T> in = block(x.in.const_data_ptr<T>(), x.in);
  const BlockOf<T> out = block(x.out.mutable_data_ptr<T>(), x.out);
  BlockOf<const T> from = in;
  if (x.grad.defined()) {
    from = block(x.grad.const_data_ptr<T>(), x.grad);
    multiply_block<kWriteHalf, kReadHalf>(from, out, factor, shape);
    const at::Tensor& positions = args.positions;
    const std::int64_t row = positions.size(1) == 1 ? 0 : b;
    add_block_gradients<kReadHalf, kWriteHalf>(
        in, from, factor, shape,
        {.positions =
             positions.const_data_ptr<double>() + row * positions.stride(1) + range.first_token,
         .axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0),
         .axes = args.frequencies.size(2),
         .frequencies = sums.frequencies,
         .length = sums.length},
        scratch.data());
  } else {
    multiply_block<kReadHalf, kWriteHalf>(from, out, factor, shape);
  }
  const std::int64_t head_dim = x.in.size(-1);
  if (head_dim == 2 * shape.pairs) return;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t h = 0; h < all_heads; ++h) {
      copy_rest(from.at(t, h) - begin, out.at(t, h) - begin, begin, 2 * shape.pairs, head_dim);
    }
  }
}

/// The operation whose factor the results are multiplied by.
RotationOp op_of_result(const std::vector<HeadTensors>& tensors, const PerHeadArgs& args) {
  return tensors.front().grad.defined() ? transpose(args.op) : args.op;
}

/// A task of tensors of one type: they share the table. `step` is first_step() of the operation.
template <typename T, bool kReadHalf, bool kWriteHalf>
void run_task(const std::vector<HeadTensors>& tensors, const PerHeadArgs& args,
              const SharedRope& rope, const UnitRow& step, const TaskRange& range,
              const TaskSums& sums) {
  const bool one_row = args.positions.size(1) == 1;
  BlockTable<Sum<T>> table(args, rope, op_of_result(tensors, args), step);
  std::vector<Sum<T>> scratch(static_cast<std::size_t>(2 * args.frequencies.size(1)));
  for (std::int64_t b = range.first_row; b < range.last_row; ++b) {
    if (b == range.first_row || !one_row) {
      table.fill(one_row ? 0 : b, range.first_token, range.last_token);
    }
    for (const HeadTensors& x : tensors) {
      run_row<T, kReadHalf, kWriteHalf>(x, args, rope, range, b, table.factor(), scratch, sums);
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

/// Batch rows of a task. In the forward pass as many as leave every thread a few tasks, since each
/// fills a table of its own.
std::int64_t rows_of_task(bool backward, std::int64_t batch, std::int64_t blocks) {
  if (backward) return kGradientRows;
  const std::int64_t parts = blocks_of(4 * at::get_num_threads(), blocks);
  return std::max<std::int64_t>(1, blocks_of(batch, parts));
}

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
  if (blocks == 0 || batch == 0) return {};
  const std::int64_t rows = rows_of_task(x.grad.defined(), batch, blocks);
  const std::int64_t tasks = blocks * blocks_of(batch, rows);
  const UnitRow step = first_step(args, op_of_result(tensors, args));
  const std::int64_t entries = args.frequencies.numel();
  const std::int64_t width = entries + args.frequencies.size(1);
  std::vector<double> sums(x.grad.defined() ? static_cast<std::size_t>(tasks * width) : 0);
  at::parallel_for(0, tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t token = task % blocks * kBlockTokens;
      const std::int64_t row = task / blocks * rows;
      TaskSums own;
      if (!sums.empty()) {
        own.frequencies = sums.data() + task * width;
        own.length = own.frequencies + entries;
      }
      run(tensors, args, rope, step,
          {token, std::min(tokens, token + kBlockTokens), row, std::min(batch, row + rows)}, own);
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
