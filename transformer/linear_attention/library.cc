// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Operators of linear attention: schemas and registration.

#include <torch/library.h>

#include <string>
#include <tuple>
#include <utility>

#include "rotary/transformer/linear_attention.h"
#include "transformer/linear_attention/check.h"
#include "transformer/linear_attention/step.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor attend_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     std::string_view rope, std::string_view variant, std::string_view feature_map,
                     const OptionalTensor& projection, bool causal, const OptionalTensor& padding,
                     const OptionalTensor& positions, const OptionalTensor& key_positions,
                     c10::SymInt first, const OptionalTensor& cu_seqlens,
                     const OptionalTensor& frequencies, const OptionalTensor& scale, double guard,
                     const OptionalTensor& decay) {
  return linear_attend(q, k, v,
                       {.rope = std::string(rope),
                        .variant = variant_of(variant),
                        .feature_map = feature_map_of(feature_map),
                        .projection = projection,
                        .causal = causal,
                        .padding = padding,
                        .positions = positions,
                        .key_positions = key_positions,
                        .first = std::move(first),
                        .cu_seqlens = cu_seqlens,
                        .frequencies = frequencies,
                        .scale = scale,
                        .guard = guard,
                        .decay = decay});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> step_op(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& state_kv,
    const OptionalTensor& state_k, c10::SymInt first, std::string_view rope,
    std::string_view variant, std::string_view feature_map, const OptionalTensor& projection,
    const OptionalTensor& padding, const OptionalTensor& positions,
    const OptionalTensor& frequencies, const OptionalTensor& scale, double guard,
    const OptionalTensor& decay) {
  TORCH_CHECK_VALUE(state_kv.has_value() == state_k.has_value(),
                    "[linear_attend_step] state_kv and state_k must be given together");
  RecurrentState state;
  if (state_kv.has_value()) state = {*state_kv, *state_k};
  const StepResult result = linear_attend_step(q, k, v, state,
                                               {.rope = std::string(rope),
                                                .variant = variant_of(variant),
                                                .feature_map = feature_map_of(feature_map),
                                                .projection = projection,
                                                .causal = true,
                                                .padding = padding,
                                                .positions = positions,
                                                .first = std::move(first),
                                                .frequencies = frequencies,
                                                .scale = scale,
                                                .guard = guard,
                                                .decay = decay});
  return {result.out, result.state.kv, result.state.k};
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "linear_attend(Tensor q, Tensor k, Tensor v, *, str rope='', str variant='numerator', "
      "str feature_map='elu', Tensor? projection=None, bool causal=False, Tensor? padding=None, "
      "Tensor? positions=None, Tensor? key_positions=None, SymInt first=0, "
      "Tensor? cu_seqlens=None, Tensor? frequencies=None, Tensor? scale=None, "
      "float guard=0.01, Tensor? decay=None) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "linear_attend_step(Tensor q, Tensor k, Tensor v, Tensor? state_kv=None, "
      "Tensor? state_k=None, *, SymInt first=0, str rope='', str variant='numerator', "
      "str feature_map='elu', Tensor? projection=None, Tensor? padding=None, "
      "Tensor? positions=None, Tensor? frequencies=None, Tensor? scale=None, "
      "float guard=0.01, Tensor? decay=None) -> (Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("linear_attend", rotary::transformer::attend_op);
  m.impl("linear_attend_step", rotary::transformer::step_op);
}
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  m.impl("linear_attend", rotary::transformer::attend_op);
  m.impl("linear_attend_step", rotary::transformer::step_op);
}
