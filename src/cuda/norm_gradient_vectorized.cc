// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/norm_gradient_vectorized.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {
namespace {

constexpr std::int32_t kWarpLanes = 32;

template <class Angles>
bool fill_operand(const NormGradientParams<Angles>& p, int k,
                  NormGradientTileOperand& to) noexcept {
  const FusedOperand& f = p.fused[k];
  OperandParams x = p.operands[k];
  OperandParams g = p.grads[k];
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  if (x.in_element != size || g.in_element != size ||
      !is_aligned_to(x.in, kPackBytes, x.in_batch, x.in_token, x.in_head) ||
      !is_aligned_to(g.in, kPackBytes, g.in_batch, g.in_token, g.in_head) ||
      !is_aligned_to(f.weight, kPackBytes, 0, 0, 0)) {
    return false;
  }
  if (x.out == nullptr) {
    x.out_batch = x.out_token = x.out_head = 0;
  } else if (x.out_element != size ||
             !is_aligned_to(x.out, kPackBytes, x.out_batch, x.out_token, x.out_head)) {
    return false;
  }
  if (f.weight != nullptr && f.weight_type != p.type && f.weight_type != DType::kFloat32) {
    return false;
  }
  g.out_batch = g.out_token = g.out_head = 0;
  VectorizedOperand input;
  VectorizedOperand gradient;
  if (!fill_vectorized_operand(p, x, input) || !fill_vectorized_operand(p, g, gradient)) {
    return false;
  }
  const std::int32_t end = k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads;
  if (end == p.first_head[k]) return false;  // no steps to divide among warps
  to.in = input.in;
  to.grad = gradient.in;
  to.out = input.out;
  to.weight = f.weight;
  to.partial_offset = p.partial_offset[k];
  to.in_batch = input.in_batch;
  to.in_token = input.in_token;
  to.in_head = input.in_head;
  to.grad_batch = gradient.in_batch;
  to.grad_token = gradient.in_token;
  to.grad_head = gradient.in_head;
  to.out_batch = input.out_batch;
  to.out_token = input.out_token;
  to.out_head = input.out_head;
  to.heads = end - p.first_head[k];
  to.has_float_weight = f.weight_type == DType::kFloat32;
  return true;
}

NormGradientShape shape_of(const NormGradientVectorizedParams& p) noexcept {
  constexpr std::uint32_t kWarps = kMaxNormGradientThreads / kWarpLanes;
  const auto packs = static_cast<std::uint32_t>(p.angles.fragments);
  const std::uint32_t lanes = std::max(4u, std::bit_ceil(packs));
  const auto pairs = static_cast<std::uint32_t>(p.angles.pair_count);
  const std::uint32_t row_bytes = 2 * (pairs / packs * lanes) * 4;
  const std::uint32_t sum_bytes = kWarps * (kWarpLanes / lanes) * 2 * pairs * 4;
  return {
      .lanes = static_cast<std::int32_t>(lanes),
      .warps = kWarps,
      .shared_bytes = kNormGradientStageFloats * 4 + std::max((1 + kWarps) * row_bytes, sum_bytes)};
}

bool fill_angles(const NormGradientParams<SimpleParams>& p, Layout layout,
                 NormGradientVectorizedParams& to) noexcept {
  return fill_vectorized_angles(p, layout, to.angles);
}
bool fill_angles(const NormGradientParams<TableParams>& p, Layout layout,
                 NormGradientVectorizedParams& to) noexcept {
  return fill_vectorized_table(p, layout, to.angles, to.table);
}

template <class Angles>
NormGradientShape make(const NormGradientParams<Angles>& p,
                       NormGradientVectorizedParams& to) noexcept {
  const auto per_pack = static_cast<std::int32_t>(kPackBytes / size_of(p.type));
  const std::int64_t count = p.batch * p.tokens;
  if (p.norm.across_heads || p.norm.has_mean || p.has_biases || p.read != p.write ||
      p.rotary_offset != 0 || p.head_dim != 2 * p.pairs || p.pairs % per_pack != 0 ||
      p.pairs / per_pack > kWarpLanes || count > std::numeric_limits<std::int32_t>::max() ||
      !fill_angles(p, p.read == Pairing::kHalf ? Layout::kHalf : Layout::kInterleaved, to)) {
    return {};
  }
  to.angles.fragments = p.pairs / per_pack;
  for (int k = 0; k < p.num_operands; ++k) {
    if (!fill_operand(p, k, to.operands[k])) return {};
  }
  to.partial = p.partial;
  to.partial_size = p.partial_size;
  to.count = static_cast<std::uint32_t>(count);
  to.slices = static_cast<std::uint32_t>(std::min(p.slices, kVectorizedSlices));
  to.batch = p.batch;
  to.eps = p.norm.eps;
  to.reciprocal_size = 1.0f / static_cast<float>(p.head_dim);
  to.adds_one = p.norm.adds_one;
  return shape_of(to);
}

}  // namespace

NormGradientShape make_norm_gradient_vectorized(const NormGradientParams<SimpleParams>& p,
                                                NormGradientVectorizedParams& to) noexcept {
  return make(p, to);
}
NormGradientShape make_norm_gradient_vectorized(const NormGradientParams<TableParams>& p,
                                                NormGradientVectorizedParams& to) noexcept {
  return make(p, to);
}

}  // namespace rotary::internal::cuda
