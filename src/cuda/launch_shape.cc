// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_shape.h"

#include <algorithm>
#include <cstdint>

namespace rotary::internal::cuda {
namespace {

constexpr std::int64_t kFewTokens =
    128;                               // up to here several blocks per token fill a large GPU once
constexpr int kFewTokensThreads = 80;  // threads per block then
constexpr int kMinThreads = 96;        // threads per block otherwise

bool is_aligned(std::int64_t bytes) noexcept { return bytes % kPackBytes == 0; }

bool is_vectorizable(const OperandParams& o, std::int64_t in_size, std::int64_t out_size) noexcept {
  return o.in_element == in_size && o.out_element == out_size &&
         is_aligned_to(o.in, kPackBytes, o.in_batch, o.in_token, o.in_head) &&
         is_aligned_to(o.out, kPackBytes / in_size * out_size, o.out_batch, o.out_token,
                       o.out_head);
}

/// So few tokens that the heads of each are split over several blocks.
bool has_few_tokens(const KernelParams& p) noexcept { return p.batch * p.tokens <= kFewTokens; }

}  // namespace

bool is_aligned_to(const void* data, std::int64_t bytes, std::int64_t batch, std::int64_t token,
                   std::int64_t head) noexcept {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data));
  return address % bytes == 0 && batch % bytes == 0 && token % bytes == 0 && head % bytes == 0;
}

bool fits_launch(const KernelParams& p, int max_pairs) noexcept {
  const bool split = p.pair_count != p.pairs;
  return p.num_operands <= kOperandsPerLaunch && p.pair_count <= max_pairs &&
         p.batch <= kBatchPerLaunch && p.tokens <= kTokensPerLaunch &&
         !(split && p.read != p.write && is_in_place(p));
}

Layout layout_of(const KernelParams& p) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  const auto out_size = static_cast<std::int64_t>(size_of(p.out_type));
  for (int k = 0; k < p.num_operands; ++k) {
    if (!is_vectorizable(p.operands[k], size, out_size)) return Layout::kStrided;
  }
  // Half pairing: each half consists of whole packs. Interleaved: pairs take two elements each.
  const bool halves = p.read == Pairing::kHalf || p.write == Pairing::kHalf;
  const std::int64_t pair_size = halves ? size : 2 * size;
  const bool fits = is_aligned(p.rotary_offset * size) && is_aligned(p.pairs * pair_size) &&
                    is_aligned(p.first_pair * pair_size) && is_aligned(p.pair_count * pair_size) &&
                    (!p.copies_pass_through || is_aligned(p.head_dim * size));
  if (!fits) return Layout::kStrided;
  if (p.read != p.write) return Layout::kMixed;
  return p.read == Pairing::kHalf ? Layout::kHalf : Layout::kInterleaved;
}

LaunchShape make_launch_shape(const KernelParams& p, int fragments, int max_threads) noexcept {
  LaunchShape shape{.fragments = fragments};
  if (has_few_tokens(p)) {
    const std::int64_t threads = static_cast<std::int64_t>(fragments) * p.num_heads;
    shape.head_splits = static_cast<int>(std::max<std::int64_t>(1, threads / kFewTokensThreads));
  }
  shape.head_splits = std::min(shape.head_splits, p.num_heads);
  for (;; ++shape.head_splits) {
    shape.rows = ceil_div(p.num_heads, shape.head_splits);
    if (shape.fragments * shape.rows <= max_threads || shape.rows == 1) break;
  }
  const int threads = shape.fragments * shape.rows;
  if (!has_few_tokens(p) && threads * shape.tokens < kMinThreads) {
    shape.tokens = ceil_div(kMinThreads, threads);
  }
  shape.tokens = std::max(1, std::min({shape.tokens, max_threads / threads, 64}));
  return shape;
}

}  // namespace rotary::internal::cuda
