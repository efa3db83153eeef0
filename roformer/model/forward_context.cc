// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/forward_context.h"

#include <ATen/Functions.h>

#include "roformer/model/layer_ops.h"
#include "rotary/frequencies.h"
#include "rotary/rope.h"
#include "rotary/torch_rope.h"
#include "rotary/transformer/encodings.h"

namespace rotary::roformer {

std::string rope_text(const Config& config) {
  if (config.position_encoding.find("rope") == std::string::npos) return {};
  // RoFormer rotates neighbours: the pair (x_2i, x_2i+1) by m theta^(-2i/d).
  return torch::to_text(
      {.frequencies =
           make_frequencies({.rotary_dim = config.head_dim(), .theta = config.rope_theta}),
       .layout = {.head_dim = config.head_dim(), .pairing = Pairing::kInterleaved}});
}

std::optional<transformer::RotationTable> rotation_table(const Config& config,
                                                         const ForwardContext& context,
                                                         const at::Tensor& x) {
  if (context.ops != &fused_ops() || !x.is_cuda() || !at::GradMode::is_enabled() ||
      config.attention_type != AttentionKind::kSoftmax ||
      config.rope_learn != RopeLearn::kNothing || config.position_steps != PositionStepsOf::kNone) {
    return std::nullopt;
  }
  const std::string rope = rope_text(config);
  if (rope.empty()) return std::nullopt;
  const std::int64_t longest =
      context.attend.max_seqlen ? context.attend.max_seqlen->expect_int() : x.size(1);
  return transformer::rotation_table(rope, context.positions, x.size(1), longest, x);
}

bool can_select_tokens(const Config& config, const ForwardContext& context, const at::Tensor& x,
                       const at::Tensor& tokens) {
  const std::int64_t num_tokens = x.size(0) * x.size(1);
  // Kernels with fewer queries than keys are of 16-bit types only; the CPU runs sequence by
  // sequence.
  const bool has_kernel = x.is_cpu() || x.element_size() == 2;
  return config.attention_type == AttentionKind::kSoftmax && !context.causal &&
         !context.attend.padding && !context.attend.bias && has_kernel && tokens.numel() > 0 &&
         2 * tokens.numel() <= num_tokens;
}

ForwardContext select_tokens(const at::Tensor& tokens, const ForwardContext& context,
                             const at::Tensor& x) {
  const std::int64_t num_tokens = x.size(0) * x.size(1);
  ForwardContext some = context;
  if (!some.positions.cu_seqlens) {
    some.positions.cu_seqlens =
        at::arange(0, num_tokens + 1, x.size(1), tokens.options().dtype(at::kInt));
    some.attend.max_seqlen = x.size(1);
  }
  const at::Tensor positions = transformer::token_positions(some.positions, num_tokens, tokens);
  some.selected = tokens;
  some.selected_positions.positions = positions.index_select(0, tokens);
  some.attend.cu_seqlens_k = some.positions.cu_seqlens;
  some.attend.cu_seqlens = at::searchsorted(tokens, some.positions.cu_seqlens->to(at::kLong),
                                            /*out_int32=*/true);
  if (context.table) {
    some.table->rows = positions;
    some.selected_table = {.cos_sin = context.table->cos_sin,
                           .rows = some.selected_positions.positions};
  }
  return some;
}

}  // namespace rotary::roformer
