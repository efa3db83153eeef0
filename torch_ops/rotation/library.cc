// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators' schemas, and calls of them from C++.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>

#include "rotation/turn.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using TurnSignature = std::vector<at::Tensor>(at::TensorList, std::string_view,
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

constexpr std::size_t kTurns = 6;
constexpr std::array<Turn, kTurns> kAll = {Turn::kRotate,   Turn::kAdjoint,
                                           Turn::kUnrotate, Turn::kUnrotateAdjoint,
                                           Turn::kShift,    Turn::kShiftAdjoint};

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const std::string& name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(("rotary::" + name).c_str(), "")
      .typed<Signature>();
}

template <typename Signature>
const c10::TypedOperatorHandle<Signature>& find(Turn turn, const char* ending) {
  static const auto handles = [ending] {
    std::vector<c10::TypedOperatorHandle<Signature>> all;
    for (const Turn each : kAll)
      all.push_back(find<Signature>(std::string(name_of(each)) + ending));
    return all;
  }();
  return handles[static_cast<std::size_t>(turn)];
}

}  // namespace

std::vector<at::Tensor> call(Turn turn, at::TensorList tensors, std::string_view rope,
                             const Where& where) {
  return call(turn, tensors, rope, where.positions, where.cu_seqlens, where.first, where.token_dim);
}

void call_in_place(Turn turn, at::TensorList tensors, std::string_view rope, const Where& where) {
  call_in_place(turn, tensors, rope, where.positions, where.cu_seqlens, where.first,
                where.token_dim);
}

std::vector<at::Tensor> call(Turn turn, at::TensorList tensors, std::string_view rope,
                             const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                             const c10::SymInt& first, std::int64_t token_dim) {
  return find<TurnSignature>(turn, "").call(tensors, rope, positions, cu_seqlens, first, token_dim);
}

void call_in_place(Turn turn, at::TensorList tensors, std::string_view rope,
                   const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                   const c10::SymInt& first, std::int64_t token_dim) {
  find<InPlaceSignature>(turn, "_").call(tensors, rope, positions, cu_seqlens, first, token_dim);
}

std::vector<at::Tensor> call_table(Turn turn, at::TensorList tensors, const at::Tensor& cos,
                                   const at::Tensor& sin, std::string_view rope,
                                   std::int64_t token_dim) {
  static const auto rotate = find<TableSignature>("rotate_table");
  static const auto adjoint = find<TableSignature>("adjoint_table");
  return (turn == Turn::kRotate ? rotate : adjoint).call(tensors, cos, sin, rope, token_dim);
}

std::vector<at::Tensor> call_learned(std::string_view turn, at::TensorList tensors,
                                     std::string_view rope, const at::Tensor& frequencies,
                                     const std::optional<at::Tensor>& scale, const Where& where) {
  static const auto handle = find<LearnedSignature>("rotate_learned");
  return handle.call(tensors, rope, frequencies, scale, where.positions, where.cu_seqlens,
                     where.first, where.token_dim, turn);
}

std::vector<at::Tensor> call_learned_table(at::TensorList tensors, const at::Tensor& cos,
                                           const at::Tensor& sin, const LearnedFrom& from,
                                           std::string_view rope, const Where& where) {
  static const auto handle = find<LearnedTableSignature>("rotate_learned_table");
  return handle.call(tensors, cos, sin, from.frequencies, from.scale, rope, where.positions,
                     where.cu_seqlens, where.first, where.token_dim);
}

at::Tensor call_position_gradient(at::TensorList tensors, at::TensorList grads,
                                  std::string_view rope, std::string_view pairing,
                                  std::int64_t token_dim) {
  static const auto handle = find<PositionGradientSignature>("position_gradient");
  return handle.call(tensors, grads, rope, pairing, token_dim);
}

std::tuple<at::Tensor, at::Tensor> call_frequency_gradient(at::TensorList tensors,
                                                           at::TensorList grads,
                                                           std::string_view rope,
                                                           const Where& where) {
  static const auto handle = find<FrequencyGradientSignature>("frequency_gradient");
  return handle.call(tensors, grads, rope, where.positions, where.cu_seqlens, where.first,
                     where.token_dim);
}

at::Tensor call_frequencies_like(const at::Tensor& like, std::string_view rope) {
  static const auto handle = find<MatrixSignature>("frequencies_like");
  return handle.call(like, rope);
}

at::Tensor call_growth_like(const at::Tensor& like, std::string_view rope) {
  static const auto handle = find<MatrixSignature>("growth_like");
  return handle.call(like, rope);
}

namespace {

void define(::torch::Library& m) {
  const auto add = [&m](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  const std::string where =
      "Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, int token_dim=-3";
  for (const Turn turn : kAll) {
    const std::string name = name_of(turn);
    add(name + "(Tensor[] tensors, str rope, " + where + ") -> Tensor[]");
    add(name + "_(Tensor(a!)[] tensors, str rope, " + where + ") -> ()");
  }
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
      where + ") -> Tensor[]");
  add("position_gradient(Tensor[] tensors, Tensor[] grads, str rope, str pairing, "
      "int token_dim=-3) -> Tensor");
  add("frequency_gradient(Tensor[] tensors, Tensor[] grads, str rope, " + where +
      ") -> (Tensor, Tensor)");
  add("rotate_learned(Tensor[] tensors, str rope, Tensor frequencies, Tensor? scale=None, " +
      where + ", str turn='rotate') -> Tensor[]");
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY(rotary, m) { rotary::torch::define(m); }
