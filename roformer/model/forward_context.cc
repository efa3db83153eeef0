// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/forward_context.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "roformer/model/layer_ops.h"
#include "rotary/transformer/encodings.h"

namespace rotary::roformer {

std::vector<std::optional<transformer::RotationTable>> rotation_tables(
    const Config& config, const ForwardContext& context, const at::Tensor& x) {
  std::vector<std::optional<transformer::RotationTable>> tables;
  if (context.ops != &fused_ops() || !x.is_cuda() || !at::GradMode::is_enabled() ||
      config.attention_type != AttentionKind::kSoftmax ||
      config.rope_learn != RopeLearn::kNothing || config.position_steps != PositionStepsOf::kNone) {
    return tables;
  }
  const std::int64_t longest =
      context.attend.max_seqlen ? context.attend.max_seqlen->expect_int() : x.size(1);
  for (const PassRope& rope : *context.ropes) {
    tables.push_back(rope.is_uniform() ? transformer::rotation_table(rope.text, context.positions,
                                                                     x.size(1), longest, x)
                                       : std::nullopt);
  }
  return tables;
}

bool can_select_tokens(const Config& config, const ForwardContext& context, const at::Tensor& x,
                       const at::Tensor& tokens) {
  const std::int64_t num_tokens = x.size(0) * x.size(1);
  // Kernels with fewer queries than keys are of 16-bit types only; the CPU runs sequence by
  // sequence.
  const bool has_kernel = x.is_cpu() || x.element_size() == 2;
  // Distances of an encoding of the content are those of adjacent tokens.
  const bool has_content = !split_encoding(config.position_encoding).of_layers.empty();
  return config.attention_type == AttentionKind::kSoftmax && !context.causal && !has_content &&
         !context.attend.padding && !context.attend.bias && has_kernel && tokens.numel() > 0 &&
         2 * tokens.numel() <= num_tokens &&
         std::ranges::all_of(*context.ropes,
                             [](const PassRope& rope) { return rope.groups.empty(); });
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
  some.selected_tables = context.tables;
  for (std::size_t i = 0; i < some.tables.size(); ++i) {
    if (!some.tables[i]) continue;
    some.tables[i]->rows = positions;
    some.selected_tables[i]->rows = some.selected_positions.positions;
  }
  return some;
}

}  // namespace rotary::roformer
