// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/shape.h"

#include <algorithm>
#include <cstdint>

namespace rotary::internal::cuda {
namespace {

constexpr std::int64_t kFewTokens = 128;  // several blocks a token then fill a large GPU once
constexpr int kFewThreads = 80;           // of a block then
constexpr int kLeastThreads = 96;         // of a block otherwise
constexpr std::int64_t kPackBytes = 16;

int divided_up(int a, int b) noexcept { return (a + b - 1) / b; }

bool whole_packs(std::int64_t bytes) noexcept { return bytes % kPackBytes == 0; }

/// Whether one side of an operand lies in packs of `bytes`.
bool has_packs(const void* data, std::int64_t bytes, std::int64_t batch, std::int64_t token,
               std::int64_t head) noexcept {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data));
  return address % bytes == 0 && batch % bytes == 0 && token % bytes == 0 && head % bytes == 0;
}

bool has_packs(const OperandParams& o, std::int64_t in_size, std::int64_t out_size) noexcept {
  return o.in_element == in_size && o.out_element == out_size &&
         has_packs(o.in, kPackBytes, o.in_batch, o.in_token, o.in_head) &&
         has_packs(o.out, kPackBytes / in_size * out_size, o.out_batch, o.out_token, o.out_head);
}

bool is_in_place(const RotateParams& p) noexcept {
  return p.num_operands > 0 && p.operands[0].in == p.operands[0].out;
}

/// So few tokens that each is worth several blocks.
bool has_few_tokens(const RotateParams& p) noexcept { return p.batch * p.tokens <= kFewTokens; }

}  // namespace

bool fits_launch(const RotateParams& p, int most_pairs) noexcept {
  const bool split = p.pair_count != p.pairs;
  return p.num_operands <= kOperandsPerLaunch && p.pair_count <= most_pairs &&
         p.batch <= kBatchPerLaunch && p.tokens <= kTokensPerLaunch &&
         !(split && p.read != p.write && is_in_place(p));
}

Layout layout_of(const RotateParams& p) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  const auto out_size = static_cast<std::int64_t>(size_of(p.out_type));
  for (int k = 0; k < p.num_operands; ++k) {
    if (!has_packs(p.operands[k], size, out_size)) return Layout::kAnywhere;
  }
  // Halves begin and end at packs; of neighbours a pack holds half as many pairs.
  const bool halves = p.read == Pairing::kHalf || p.write == Pairing::kHalf;
  const std::int64_t pair_size = halves ? size : 2 * size;
  const bool fits = whole_packs(p.rotary_offset * size) && whole_packs(p.pairs * pair_size) &&
                    whole_packs(p.first_pair * pair_size) &&
                    whole_packs(p.pair_count * pair_size) &&
                    (!p.copies_rest || whole_packs(p.head_dim * size));
  if (!fits) return Layout::kAnywhere;
  if (p.read != p.write) return Layout::kMixed;
  return p.read == Pairing::kHalf ? Layout::kHalf : Layout::kNeighbours;
}

Shape make_shape(const RotateParams& p, int units, int heads, int most_threads, int shares,
                 int tokens) noexcept {
  Shape shape{.heads = heads, .units = units, .rows = 1, .tokens = tokens, .shares = shares};
  if (has_few_tokens(p)) {
    const std::int64_t threads = static_cast<std::int64_t>(units) * p.num_heads / heads;
    shape.shares = static_cast<int>(std::max<std::int64_t>(1, threads / kFewThreads));
    shape.tokens = 1;
  }
  shape.shares = std::min(shape.shares, p.num_heads);
  for (;; ++shape.shares) {
    shape.rows = divided_up(divided_up(p.num_heads, shape.shares), heads);
    if (shape.units * shape.rows <= most_threads || shape.rows == 1) break;
  }
  const int threads = shape.units * shape.rows;
  if (!has_few_tokens(p) && threads * shape.tokens < kLeastThreads) {
    shape.tokens = divided_up(kLeastThreads, threads);
  }
  shape.tokens = std::max(1, std::min({shape.tokens, most_threads / threads, 64}));
  return shape;
}

}  // namespace rotary::internal::cuda
