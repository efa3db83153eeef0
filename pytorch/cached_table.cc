// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators rotate_table_ and adjoint_table_: in place, by the rows of a cos/sin table that
// positions choose. Inference engines keep such a table for all positions; the kernel reads the
// rows where they are, so that nothing is gathered, allocated or copied.

#include <ATen/DeviceGuard.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include "pytorch/cuda_stream.h"
#include "pytorch/errors.h"
#include "pytorch/operator.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using CachedTableSignature = void(at::TensorList, const at::Tensor&, const at::Tensor&,
                                  std::string_view, const OptionalTensor&, std::int64_t);

enum class TableOp { kRotate, kAdjoint };

constexpr const char* table_op_name(TableOp op) {
  return op == TableOp::kRotate ? "rotate_table_" : "adjoint_table_";
}

void check_columns(TableOp op, const at::Tensor& cos, std::int64_t pairs) {
  TORCH_CHECK_VALUE(cos.dim() >= 1 && cos.size(-1) == pairs, "[", table_op_name(op),
                    "] cos and sin must have a column for each of ", pairs, " pairs, got ",
                    cos.sizes());
}

template <TableOp kOp>
void apply_cached(at::TensorList tensors, const at::Tensor& cos, const at::Tensor& sin,
                  std::string_view text, const OptionalTensor& positions, std::int64_t token_dim) {
  if (tensors.empty()) return;
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  const auto rope = find_rope(text);
  check_columns(kOp, cos, rope->frequencies().pairs);
  c10::SmallVector<Operand, 4> operands;
  for (const at::Tensor& x : tensors) {
    check_rank(table_op_name(kOp), x, token_dim);
    operands.emplace_back(writable_heads_view(table_op_name(kOp), x, token_dim));
  }
  const std::span<const Operand> list(operands.begin(), operands.end());
  const Stream stream = stream_of(tensors[0]);
  translate_errors([&] {
    const TableRope table(
        {plain_view(table_op_name(kOp), cos), plain_view(table_op_name(kOp), sin)}, rope->layout(),
        TableWidth::kPairs, rope->rope().options().threads);
    if (!is_given(positions)) {
      return kOp == TableOp::kRotate ? table.rotate(list, stream) : table.adjoint(list, stream);
    }
    const OptionalTensor no_boundaries;  // referred to, like positions
    const TokenPositionsRef where(positions, no_boundaries, 0, token_dim);
    const Positions rows = make_positions(table_op_name(kOp), *rope, where, operands[0].in);
    return kOp == TableOp::kRotate ? table.rotate(list, rows, stream)
                                   : table.adjoint(list, rows, stream);
  });
}

template <TableOp kOp>
void apply_cached_meta(at::TensorList tensors, const at::Tensor& /*cos*/, const at::Tensor& /*sin*/,
                       std::string_view /*rope*/, const OptionalTensor& /*positions*/,
                       std::int64_t token_dim) {
  for (const at::Tensor& x : tensors) check_rank(table_op_name(kOp), x, token_dim);
}

template <TableOp kOp>
const auto& cached_operator() {
  static const auto handle =
      find_operator<CachedTableSignature>((std::string("rotary::") + table_op_name(kOp)).c_str());
  return handle;
}

/// Not differentiable: an inference cache has no gradient, and rotate_table has one.
template <TableOp kOp>
void apply_cached_autograd(at::TensorList tensors, const at::Tensor& cos, const at::Tensor& sin,
                           std::string_view rope, const OptionalTensor& positions,
                           std::int64_t token_dim) {
  TORCH_CHECK_VALUE(!::torch::autograd::compute_requires_grad(tensors, cos, sin), "[",
                    table_op_name(kOp),
                    "] has no gradient: use rotate_table for tensors that need one");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    cached_operator<kOp>().call(tensors, cos, sin, rope, positions, token_dim);
  }
  for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
}

template <TableOp kOp>
void define_cached(::torch::Library& m) {
  const std::string schema = std::string(table_op_name(kOp)) +
                             "(Tensor(a!)[] tensors, Tensor cos, Tensor sin, str rope, "
                             "Tensor? positions=None, int token_dim=-3) -> ()";
  m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
}

void implement_by_table(::torch::Library& m) {
  m.impl("rotate_table_", apply_cached<TableOp::kRotate>);
  m.impl("adjoint_table_", apply_cached<TableOp::kAdjoint>);
}

}  // namespace

void call_cached_table(RotationOp op, at::TensorList tensors, const at::Tensor& cos,
                       const at::Tensor& sin, std::string_view rope,
                       const OptionalTensor& positions, std::int64_t token_dim) {
  const auto& handle = op == RotationOp::kRotate ? cached_operator<TableOp::kRotate>()
                                                 : cached_operator<TableOp::kAdjoint>();
  handle.call(tensors, cos, sin, rope, positions, token_dim);
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  rotary::torch::define_cached<rotary::torch::TableOp::kRotate>(m);
  rotary::torch::define_cached<rotary::torch::TableOp::kAdjoint>(m);
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_by_table(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_by_table(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("rotate_table_", rotary::torch::apply_cached_meta<rotary::torch::TableOp::kRotate>);
  m.impl("adjoint_table_", rotary::torch::apply_cached_meta<rotary::torch::TableOp::kAdjoint>);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("rotate_table_", rotary::torch::apply_cached_autograd<rotary::torch::TableOp::kRotate>);
  m.impl("adjoint_table_", rotary::torch::apply_cached_autograd<rotary::torch::TableOp::kAdjoint>);
}
