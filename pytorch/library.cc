// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators' schemas, and calls of them from C++.

#include <torch/library.h>

#include <array>

#include "pytorch/operator.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using RotationSignature = std::vector<at::Tensor>(at::TensorList, std::string_view,
                                                  const OptionalTensor&, const OptionalTensor&,
                                                  c10::SymInt, std::int64_t);
using InPlaceSignature = void(at::TensorList, std::string_view, const OptionalTensor&,
                              const OptionalTensor&, c10::SymInt, std::int64_t);
using TableSignature = std::vector<at::Tensor>(at::TensorList, const at::Tensor&, const at::Tensor&,
                                               std::string_view, std::int64_t);
using LearnedSignature = std::vector<at::Tensor>(at::TensorList, std::string_view,
                                                 const at::Tensor&, const OptionalTensor&,
                                                 const OptionalTensor&, const OptionalTensor&,
                                                 c10::SymInt, std::int64_t, std::string_view);
using LearnedTableSignature = std::vector<at::Tensor>(at::TensorList, const at::Tensor&,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const OptionalTensor&, std::string_view,
                                                      const OptionalTensor&, const OptionalTensor&,
                                                      c10::SymInt, std::int64_t);
using PositionGradientSignature = at::Tensor(at::TensorList, at::TensorList, std::string_view,
                                             std::string_view, std::int64_t);
using FrequencyGradientSignature = std::tuple<at::Tensor, at::Tensor>(
    at::TensorList, at::TensorList, std::string_view, const OptionalTensor&, const OptionalTensor&,
    c10::SymInt, std::int64_t);
using MatrixSignature = at::Tensor(const at::Tensor&, std::string_view);

constexpr std::array kAllOps = {RotationOp::kRotate,   RotationOp::kAdjoint,
                                RotationOp::kUnrotate, RotationOp::kUnrotateAdjoint,
                                RotationOp::kShift,    RotationOp::kShiftAdjoint};

/// The operator of `op`; `suffix` is "_" for the one in place. Each Signature has one suffix.
template <typename Signature>
const c10::TypedOperatorHandle<Signature>& find_rotation(RotationOp op, const char* suffix) {
  static const auto handles = [suffix] {
    std::vector<c10::TypedOperatorHandle<Signature>> all;
    for (const RotationOp each : kAllOps) {
      all.push_back(
          find_operator<Signature>((std::string("rotary::") + name_of(each) + suffix).c_str()));
    }
    return all;
  }();
  return handles[static_cast<std::size_t>(op)];
}

}  // namespace

std::vector<at::Tensor> call(RotationOp op, at::TensorList tensors, std::string_view rope,
                             const TokenPositionsRef& token_positions) {
  return find_rotation<RotationSignature>(op, "").call(
      tensors, rope, token_positions.positions, token_positions.cu_seqlens, token_positions.first,
      token_positions.token_dim);
}

void call_in_place(RotationOp op, at::TensorList tensors, std::string_view rope,
                   const TokenPositionsRef& token_positions) {
  find_rotation<InPlaceSignature>(op, "_").call(tensors, rope, token_positions.positions,
                                                token_positions.cu_seqlens, token_positions.first,
                                                token_positions.token_dim);
}

std::vector<at::Tensor> call_table(RotationOp op, at::TensorList tensors, const at::Tensor& cos,
                                   const at::Tensor& sin, std::string_view rope,
                                   std::int64_t token_dim) {
  static const auto rotate = find_operator<TableSignature>("rotary::rotate_table");
  static const auto adjoint = find_operator<TableSignature>("rotary::adjoint_table");
  return (op == RotationOp::kRotate ? rotate : adjoint).call(tensors, cos, sin, rope, token_dim);
}

std::vector<at::Tensor> call_learned(std::string_view op, at::TensorList tensors,
                                     std::string_view rope, const at::Tensor& frequencies,
                                     const OptionalTensor& scale,
                                     const TokenPositionsRef& token_positions) {
  static const auto handle = find_operator<LearnedSignature>("rotary::rotate_learned");
  return handle.call(tensors, rope, frequencies, scale, token_positions.positions,
                     token_positions.cu_seqlens, token_positions.first, token_positions.token_dim,
                     op);
}

std::vector<at::Tensor> call_learned_table(at::TensorList tensors, const at::Tensor& cos,
                                           const at::Tensor& sin, const LearnedTensors& learned,
                                           std::string_view rope,
                                           const TokenPositionsRef& token_positions) {
  static const auto handle = find_operator<LearnedTableSignature>("rotary::rotate_learned_table");
  return handle.call(tensors, cos, sin, learned.frequencies, learned.scale, rope,
                     token_positions.positions, token_positions.cu_seqlens, token_positions.first,
                     token_positions.token_dim);
}

at::Tensor call_position_gradient(at::TensorList tensors, at::TensorList grads,
                                  std::string_view rope, std::string_view pairing,
                                  std::int64_t token_dim) {
  static const auto handle = find_operator<PositionGradientSignature>("rotary::position_gradient");
  return handle.call(tensors, grads, rope, pairing, token_dim);
}

std::tuple<at::Tensor, at::Tensor> call_frequency_gradient(
    at::TensorList tensors, at::TensorList grads, std::string_view rope,
    const TokenPositionsRef& token_positions) {
  static const auto handle =
      find_operator<FrequencyGradientSignature>("rotary::frequency_gradient");
  return handle.call(tensors, grads, rope, token_positions.positions, token_positions.cu_seqlens,
                     token_positions.first, token_positions.token_dim);
}

at::Tensor call_frequencies_like(const at::Tensor& like, std::string_view rope) {
  static const auto handle = find_operator<MatrixSignature>("rotary::frequencies_like");
  return handle.call(like, rope);
}

at::Tensor call_growth_like(const at::Tensor& like, std::string_view rope) {
  static const auto handle = find_operator<MatrixSignature>("rotary::growth_like");
  return handle.call(like, rope);
}

namespace {

void define(::torch::Library& m) {
  const auto add = [&m](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  const std::string positions =
      "Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, int token_dim=-3";
  for (const RotationOp op : kAllOps) {
    const std::string name = name_of(op);
    add(name + "(Tensor[] tensors, str rope, " + positions + ") -> Tensor[]");
    add(name + "_(Tensor(a!)[] tensors, str rope, " + positions + ") -> ()");
  }
  const std::string norm =
      positions + ", float eps=1e-06, str norm='rms', str rounding='tensor', str scope='head'";
  const std::string norm_rotate = "Tensor[] weights, Tensor[] biases, str rope, " + norm +
                                  ", str order='before', bool inverse=False)";
  add("norm_rotate(Tensor[] tensors, " + norm_rotate + " -> Tensor[]");
  add("norm_rotate_(Tensor(a!)[] tensors, " + norm_rotate + " -> ()");
  add("norm_rotate_backward(Tensor[] grads, Tensor[] tensors, Tensor[] weights, str rope, " + norm +
      ") -> Tensor[]");
  const std::string by_table =
      "Tensor cos, Tensor sin, str rope, int token_dim=-3, float eps=1e-06, str norm='rms', "
      "str rounding='tensor', str scope='head'";
  const std::string norm_table = "Tensor[] weights, Tensor[] biases, " + by_table +
                                 ", str order='before', bool inverse=False)";
  add("norm_rotate_table(Tensor[] tensors, " + norm_table + " -> Tensor[]");
  add("norm_rotate_table_(Tensor(a!)[] tensors, " + norm_table + " -> ()");
  add("norm_rotate_table_backward(Tensor[] grads, Tensor[] tensors, Tensor[] weights, " + by_table +
      ") -> Tensor[]");
  for (const std::string name : {"rotate_table", "adjoint_table"}) {
    add(name +
        "(Tensor[] tensors, Tensor cos, Tensor sin, str rope, int token_dim=-3) -> Tensor[]");
  }
  add("frequencies_like(Tensor like, str rope) -> Tensor");
  add("growth_like(Tensor like, str rope) -> Tensor");
  add("learned_cos_sin(Tensor frequencies, str rope, SymInt tokens, Tensor? scale=None, "
      "Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, "
      "ScalarType dtype=float) -> (Tensor, Tensor)");
  add("rotate_learned_table(Tensor[] tensors, Tensor cos, Tensor sin, Tensor frequencies, "
      "Tensor? scale, str rope, " +
      positions + ") -> Tensor[]");
  add("position_gradient(Tensor[] tensors, Tensor[] grads, str rope, str pairing, "
      "int token_dim=-3) -> Tensor");
  add("frequency_gradient(Tensor[] tensors, Tensor[] grads, str rope, " + positions +
      ") -> (Tensor, Tensor)");
  add("rotate_per_head(Tensor[] tensors, Tensor positions, Tensor frequencies, Tensor? scale, "
      "str rope, int token_dim=-3, str op='rotate') -> Tensor[]");
  add("per_head_gradient(Tensor[] tensors, Tensor[] grads, Tensor positions, Tensor frequencies, "
      "Tensor? scale, str rope, int token_dim=-3, str op='rotate') -> (Tensor[], Tensor, Tensor)");
  add("rotate_learned(Tensor[] tensors, str rope, Tensor frequencies, Tensor? scale=None, " +
      positions + ", str op='rotate') -> Tensor[]");
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY(rotary, m) { rotary::torch::define(m); }
