// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on CPU and CUDA, and their shapes on the Meta device.

#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/SmallVector.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include "pytorch/cuda_stream.h"
#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/rope.h"
#include "rotary/table.h"

#ifdef ROTARY_TORCH_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OperandList = c10::SmallVector<Operand, 4>;

#ifdef ROTARY_TORCH_CUDA
using DeviceGuard = c10::cuda::OptionalCUDAGuard;  // without the virtual calls of c10's own
#else
using DeviceGuard = c10::OptionalDeviceGuard;
#endif

/// The adjoint of a shift by d is a shift by -d of the reciprocal rope.
struct Negated {
  explicit Negated(const TokenPositionsRef& token_positions)
      : positions(token_positions.positions.has_value()
                      ? OptionalTensor(token_positions.positions->neg())
                      : std::nullopt),
        ref(positions, token_positions.cu_seqlens, -token_positions.first.expect_int(),
            token_positions.token_dim) {}

  OptionalTensor positions;
  TokenPositionsRef ref;
};

/// Tensors of at most four dimensions. Their device is the current one.
void run(RotationOp op, at::TensorList from, at::TensorList to, std::string_view text,
         const TokenPositionsRef& token_positions) {
  const auto rope = find_rope(text);
  std::optional<Negated> negated;
  if (op == RotationOp::kShiftAdjoint) negated.emplace(token_positions);
  const TokenPositionsRef& used = negated ? negated->ref : token_positions;
  OperandList operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TensorView out = writable_heads_view(name_of(op), to[i], used.token_dim);
    if (from[i].is_same(to[i])) {
      operands.emplace_back(out);
    } else {
      operands.emplace_back(heads_view(name_of(op), from[i], used.token_dim), out);
    }
  }
  translate_errors([&] {
    const auto kind = is_shift(op) ? PositionKind::kDistance : PositionKind::kAbsolute;
    apply(op, *rope, {operands.begin(), operands.end()},
          make_positions(name_of(op), *rope, used, operands[0].in, kind), stream_of(from[0]));
  });
}

std::vector<at::Tensor> apply(RotationOp op, at::TensorList tensors, std::string_view rope,
                              const TokenPositionsRef& token_positions) {
  std::vector<at::Tensor> results;
  if (tensors.empty()) return results;
  const DeviceGuard guard(cuda_device_of(tensors[0]));
  results.reserve(tensors.size());
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(op), x, token_positions.token_dim);
    results.push_back(result_like(x));
  }
  if (all_fit_a_view(tensors)) {
    run(op, tensors, results, rope, token_positions);
    return results;
  }
  run(op, flatten_batches(tensors), view_batches(results), rope, token_positions);
  return results;
}

void apply_in_place(RotationOp op, at::TensorList tensors, std::string_view rope,
                    const TokenPositionsRef& token_positions) {
  if (tensors.empty()) return;
  const DeviceGuard guard(cuda_device_of(tensors[0]));
  for (const at::Tensor& x : tensors) check_rank(name_of(op), x, token_positions.token_dim);
  if (all_fit_a_view(tensors)) return run(op, tensors, tensors, rope, token_positions);
  const std::vector<at::Tensor> views = view_batches(tensors);
  run(op, views, views, rope, token_positions);
}

// ---- With the operators' signatures -----------------------------------------------------------

template <RotationOp kOp>
std::vector<at::Tensor> apply(at::TensorList tensors, std::string_view rope,
                              const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                              std::int64_t first, std::int64_t token_dim) {
  return apply(kOp, tensors, rope, {positions, cu_seqlens, first, token_dim});
}

template <RotationOp kOp>
void apply_in_place(at::TensorList tensors, std::string_view rope, const OptionalTensor& positions,
                    const OptionalTensor& cu_seqlens, std::int64_t first, std::int64_t token_dim) {
  apply_in_place(kOp, tensors, rope, {positions, cu_seqlens, first, token_dim});
}

template <RotationOp kOp>
std::vector<at::Tensor> apply_meta(at::TensorList tensors, std::string_view rope,
                                   const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                   std::int64_t token_dim) {
  const auto found = find_rope(rope);
  std::vector<at::Tensor> results;
  results.reserve(tensors.size());
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(kOp), x, token_dim);
    TORCH_CHECK_VALUE(x.sym_size(-1) == found->layout().head_dim, "[", name_of(kOp),
                      "] the last size must be head_dim ", found->layout().head_dim, ", got ",
                      x.sym_size(-1));
    results.push_back(result_like_meta(x));
  }
  return results;
}

template <RotationOp kOp>
void apply_in_place_meta(at::TensorList tensors, std::string_view, const OptionalTensor&,
                         const OptionalTensor&, c10::SymInt, std::int64_t token_dim) {
  for (const at::Tensor& x : tensors) check_rank(name_of(kOp), x, token_dim);
}

// ---- By cos/sin tables ------------------------------------------------------------------------

template <RotationOp kOp>
std::vector<at::Tensor> apply_table(at::TensorList tensors, const at::Tensor& cos,
                                    const at::Tensor& sin, std::string_view text,
                                    std::int64_t token_dim) {
  std::vector<at::Tensor> results;
  if (tensors.empty()) return results;
  const DeviceGuard guard(cuda_device_of(tensors[0]));
  const auto rope = find_rope(text);
  OperandList operands;
  for (const at::Tensor& x : tensors) {
    results.push_back(result_like(x));
    operands.emplace_back(heads_view(name_of(kOp), x, token_dim),
                          writable_heads_view(name_of(kOp), results.back(), token_dim));
  }
  translate_errors([&] {
    const TableRope table({plain_view(name_of(kOp), cos), plain_view(name_of(kOp), sin)},
                          rope->layout(), table_width(*rope, cos), rope->rope().options().threads);
    const std::span<const Operand> list(operands.begin(), operands.end());
    const Stream stream = stream_of(tensors[0]);
    if constexpr (kOp == RotationOp::kRotate) {
      table.rotate(list, stream);
    } else {
      table.adjoint(list, stream);
    }
  });
  return results;
}

template <RotationOp kOp>
std::vector<at::Tensor> apply_table_meta(at::TensorList tensors, const at::Tensor& /*cos*/,
                                         const at::Tensor& /*sin*/, std::string_view /*rope*/,
                                         std::int64_t token_dim) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) {
    check_rank(name_of(kOp), x, token_dim);
    results.push_back(at::empty_like(x));
  }
  return results;
}

// ---- Frequencies and growth of a rope ---------------------------------------------------------

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

template <RotationOp kOp>
void implement(::torch::Library& m) {
  const std::string name = name_of(kOp);
  m.impl(name.c_str(), apply<kOp>);
  m.impl((name + "_").c_str(), apply_in_place<kOp>);
}

template <RotationOp kOp>
void implement_meta(::torch::Library& m) {
  const std::string name = name_of(kOp);
  m.impl(name.c_str(), apply_meta<kOp>);
  m.impl((name + "_").c_str(), apply_in_place_meta<kOp>);
}

void implement_rotations(::torch::Library& m) {
  implement<RotationOp::kRotate>(m);
  implement<RotationOp::kAdjoint>(m);
  implement<RotationOp::kUnrotate>(m);
  implement<RotationOp::kUnrotateAdjoint>(m);
  implement<RotationOp::kShift>(m);
  implement<RotationOp::kShiftAdjoint>(m);
  m.impl("rotate_table", apply_table<RotationOp::kRotate>);
  m.impl("adjoint_table", apply_table<RotationOp::kAdjoint>);
  m.impl("frequencies_like", frequencies_like);
  m.impl("growth_like", growth_like);
}

void implement_rotations_meta(::torch::Library& m) {
  implement_meta<RotationOp::kRotate>(m);
  implement_meta<RotationOp::kAdjoint>(m);
  implement_meta<RotationOp::kUnrotate>(m);
  implement_meta<RotationOp::kUnrotateAdjoint>(m);
  implement_meta<RotationOp::kShift>(m);
  implement_meta<RotationOp::kShiftAdjoint>(m);
  m.impl("rotate_table", apply_table_meta<RotationOp::kRotate>);
  m.impl("adjoint_table", apply_table_meta<RotationOp::kAdjoint>);
  m.impl("frequencies_like", matrix_meta);
  m.impl("growth_like", matrix_meta);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_rotations(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_rotations(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { rotary::torch::implement_rotations_meta(m); }
