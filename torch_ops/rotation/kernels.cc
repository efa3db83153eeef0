// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on CPU and CUDA, and what they say of shapes alone.

#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/SmallVector.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include "memory/results.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "rotation/kernel_calls.h"
#include "rotation/rope_cache.h"
#include "rotation/turn.h"
#include "rotation/views.h"

#ifdef ROTARY_TORCH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace rotary::torch {

Stream stream_of(const at::Tensor& x) {
#ifdef ROTARY_TORCH_CUDA
  if (x.is_cuda()) {
    // Kernels wait for what comes before them in the stream: to begin early is safe everywhere.
    return {.handle = c10::cuda::getCurrentCUDAStream(x.get_device()).stream(), .overlap = true};
  }
#endif
  TORCH_CHECK(!x.is_cuda(), "rotary's PyTorch operators were built without CUDA");
  return {};
}

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OperandList = c10::SmallVector<Operand, 4>;

/// Laid out as `x` is, so that transposed views stay what they are; more than four dimensions in
/// their order, since the leading ones become one.
at::Tensor result_like(const at::Tensor& x) {
  if (x.dim() <= kMostDimensions) return empty_result_like(x);
  return empty_result(x, x.sizes(), c10::contiguous_strides(x.sizes()));
}

at::Tensor result_like_meta(const at::Tensor& x) {
  return x.dim() <= kMostDimensions ? at::empty_like(x)
                                    : at::empty_symint(x.sym_sizes(), x.options());
}

void apply(Turn turn, const SharedRope& rope, const OperandList& operands,
           const Positions& positions, const Stream& stream) {
  const std::span<const Operand> list(operands.begin(), operands.end());
  switch (turn) {
    case Turn::kRotate:
      return rope.rope().rotate(list, positions, stream);
    case Turn::kAdjoint:
      return rope.rope().adjoint(list, positions, stream);
    case Turn::kUnrotate:
      return rope.rope().unrotate(list, positions, stream);
    case Turn::kUnrotateAdjoint:
      return rope.reciprocal().rotate(list, positions, stream);
    case Turn::kShift:
      return rope.rope().shift(list, positions, stream);
    case Turn::kShiftAdjoint:
      return rope.reciprocal().shift(list, positions, stream);
  }
}

#ifdef ROTARY_TORCH_CUDA
using DeviceGuard = c10::cuda::OptionalCUDAGuard;  // c10's own asks by virtual functions
#else
using DeviceGuard = c10::OptionalDeviceGuard;
#endif

bool all_fit(at::TensorList tensors) {
  for (const at::Tensor& x : tensors) {
    if (x.dim() > kMostDimensions) return false;
  }
  return true;
}

/// The tensors' device is the current one.
void run(Turn turn, at::TensorList from, at::TensorList to, std::string_view text,
         const OptionalTensor& positions, const OptionalTensor& cu_seqlens, std::int64_t first,
         std::int64_t token_dim) {
  const auto rope = find_rope(text);
  // A shift by -d, of a rope that grows the other way, is the adjoint of a shift by d.
  const bool turns_back = turn == Turn::kShiftAdjoint;
  OptionalTensor negated;
  if (turns_back && positions.has_value()) negated = positions->neg();
  OperandList operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TensorView out = writable_heads_view(name_of(turn), to[i], token_dim);
    if (from[i].is_same(to[i])) {
      operands.emplace_back(out);
    } else {
      operands.emplace_back(heads_view(name_of(turn), from[i], token_dim), out);
    }
  }
  translate([&] {
    const PositionArguments arguments{.positions = turns_back ? negated : positions,
                                      .cu_seqlens = cu_seqlens,
                                      .first = turns_back ? -first : first,
                                      .distances = is_shift(turn)};
    apply(turn, *rope, operands, make_positions(name_of(turn), *rope, arguments, operands[0].in),
          stream_of(from[0]));
  });
}

template <Turn kTurn>
std::vector<at::Tensor> turn(at::TensorList tensors, std::string_view rope,
                             const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                             std::int64_t first, std::int64_t token_dim) {
  std::vector<at::Tensor> results;
  if (tensors.empty()) return results;
  const DeviceGuard guard(device_to_use(tensors[0]));
  results.reserve(tensors.size());
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(kTurn), x, token_dim);
    results.push_back(result_like(x));
  }
  if (all_fit(tensors)) {
    run(kTurn, tensors, results, rope, positions, cu_seqlens, first, token_dim);
    return results;
  }
  c10::SmallVector<at::Tensor, 4> from;
  c10::SmallVector<at::Tensor, 4> to;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    from.push_back(with_one_batch(tensors[i]));
    to.push_back(with_one_batch(results[i]));
  }
  run(kTurn, from, to, rope, positions, cu_seqlens, first, token_dim);
  return results;
}

template <Turn kTurn>
void turn_in_place(at::TensorList tensors, std::string_view rope, const OptionalTensor& positions,
                   const OptionalTensor& cu_seqlens, std::int64_t first, std::int64_t token_dim) {
  if (tensors.empty()) return;
  const DeviceGuard guard(device_to_use(tensors[0]));
  for (const at::Tensor& x : tensors) check_rank(name_of(kTurn), x, token_dim);
  if (all_fit(tensors)) {
    return run(kTurn, tensors, tensors, rope, positions, cu_seqlens, first, token_dim);
  }
  c10::SmallVector<at::Tensor, 4> views;
  for (const at::Tensor& x : tensors) {
    views.push_back(x.dim() <= kMostDimensions ? x
                                               : x.view({-1, x.size(-3), x.size(-2), x.size(-1)}));
  }
  run(kTurn, views, views, rope, positions, cu_seqlens, first, token_dim);
}

template <Turn kTurn>
std::vector<at::Tensor> turn_meta(at::TensorList tensors, std::string_view rope,
                                  const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                  std::int64_t token_dim) {
  const auto found = find_rope(rope);
  std::vector<at::Tensor> results;
  results.reserve(tensors.size());
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(kTurn), x, token_dim);
    TORCH_CHECK_VALUE(x.sym_size(-1) == found->layout().head_dim, "[", name_of(kTurn),
                      "] the last size must be head_dim ", found->layout().head_dim, ", got ",
                      x.sym_size(-1));
    results.push_back(result_like_meta(x));
  }
  return results;
}

template <Turn kTurn>
void turn_in_place_meta(at::TensorList tensors, std::string_view, const OptionalTensor&,
                        const OptionalTensor&, c10::SymInt, std::int64_t token_dim) {
  for (const at::Tensor& x : tensors) check_rank(name_of(kTurn), x, token_dim);
}

// ---- By tables --------------------------------------------------------------------------------

/// One column a pair, or two, as transformers has it.
TableWidth width_of(const SharedRope& rope, const at::Tensor& cos) {
  const std::int64_t pairs = rope.frequencies().pairs;
  const std::int64_t columns = cos.size(-1);
  TORCH_CHECK_VALUE(columns == pairs || columns == 2 * pairs,
                    "[rotate_table] cos and sin must have ", pairs, " or ", 2 * pairs,
                    " columns, got ", columns);
  return columns == pairs ? TableWidth::kPairs : TableWidth::kTwicePairs;
}

template <Turn kTurn>
std::vector<at::Tensor> turn_by_table(at::TensorList tensors, const at::Tensor& cos,
                                      const at::Tensor& sin, std::string_view text,
                                      std::int64_t token_dim) {
  std::vector<at::Tensor> results;
  if (tensors.empty()) return results;
  const DeviceGuard guard(device_to_use(tensors[0]));
  const auto rope = find_rope(text);
  OperandList operands;
  for (const at::Tensor& x : tensors) {
    results.push_back(result_like(x));
    operands.emplace_back(heads_view(name_of(kTurn), x, token_dim),
                          writable_heads_view(name_of(kTurn), results.back(), token_dim));
  }
  translate([&] {
    const TableRope table({plain_view(name_of(kTurn), cos), plain_view(name_of(kTurn), sin)},
                          rope->layout(), width_of(*rope, cos), rope->rope().options().threads);
    const std::span<const Operand> list(operands.begin(), operands.end());
    const Stream stream = stream_of(tensors[0]);
    if constexpr (kTurn == Turn::kRotate) {
      table.rotate(list, stream);
    } else {
      table.adjoint(list, stream);
    }
  });
  return results;
}

template <Turn kTurn>
std::vector<at::Tensor> turn_by_table_meta(at::TensorList tensors, const at::Tensor& /*cos*/,
                                           const at::Tensor& /*sin*/, std::string_view /*rope*/,
                                           std::int64_t token_dim) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(kTurn), x, token_dim);
    results.push_back(at::empty_like(x));
  }
  return results;
}

// ---- The numbers of a rope --------------------------------------------------------------------

at::Tensor frequencies_like(const at::Tensor& like, std::string_view rope) {
  return find_rope(rope)->frequencies_on(like.device()).clone();
}

at::Tensor growth_like(const at::Tensor& like, std::string_view rope) {
  const auto found = find_rope(rope);
  const Frequencies& f = found->frequencies();
  if (!found->grows()) return at::zeros({f.pairs, f.axes}, like.options().dtype(at::kDouble));
  return found->growth_on(like.device()).clone();
}

at::Tensor matrix_meta(const at::Tensor& like, std::string_view rope) {
  const auto found = find_rope(rope);
  return at::empty({found->frequencies().pairs, found->frequencies().axes},
                   like.options().dtype(at::kDouble));
}

// ---- Registration -----------------------------------------------------------------------------

template <Turn kTurn>
void implement(::torch::Library& m) {
  const std::string name = name_of(kTurn);
  m.impl(name.c_str(), turn<kTurn>);
  m.impl((name + "_").c_str(), turn_in_place<kTurn>);
}

template <Turn kTurn>
void implement_meta(::torch::Library& m) {
  const std::string name = name_of(kTurn);
  m.impl(name.c_str(), turn_meta<kTurn>);
  m.impl((name + "_").c_str(), turn_in_place_meta<kTurn>);
}

void implement_rotations(::torch::Library& m) {
  implement<Turn::kRotate>(m);
  implement<Turn::kAdjoint>(m);
  implement<Turn::kUnrotate>(m);
  implement<Turn::kUnrotateAdjoint>(m);
  implement<Turn::kShift>(m);
  implement<Turn::kShiftAdjoint>(m);
  m.impl("rotate_table", turn_by_table<Turn::kRotate>);
  m.impl("adjoint_table", turn_by_table<Turn::kAdjoint>);
  m.impl("frequencies_like", frequencies_like);
  m.impl("growth_like", growth_like);
}

void implement_rotations_meta(::torch::Library& m) {
  implement_meta<Turn::kRotate>(m);
  implement_meta<Turn::kAdjoint>(m);
  implement_meta<Turn::kUnrotate>(m);
  implement_meta<Turn::kUnrotateAdjoint>(m);
  implement_meta<Turn::kShift>(m);
  implement_meta<Turn::kShiftAdjoint>(m);
  m.impl("rotate_table", turn_by_table_meta<Turn::kRotate>);
  m.impl("adjoint_table", turn_by_table_meta<Turn::kAdjoint>);
  m.impl("frequencies_like", matrix_meta);
  m.impl("growth_like", matrix_meta);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_rotations(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_rotations(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { rotary::torch::implement_rotations_meta(m); }
