// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotates a query and a key at several positions and shows the purpose of rotary embeddings: the
// score of a query and a key depends on their distance, not on their positions.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/rope.h"
#include "rotary/version.h"

namespace {

constexpr std::int64_t kHeadDim = 8;

/// The score of a query at `query_position` and a key at `key_position`.
float score(const rotary::Rope& rope, std::int64_t query_position, std::int64_t key_position) {
  std::vector<float> q{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F};
  std::vector<float> k{0.8F, 0.7F, 0.6F, 0.5F, 0.4F, 0.3F, 0.2F, 0.1F};
  const auto view = [](std::vector<float>& x) {  // [tokens, heads, head_dim]
    return rotary::TensorView::contiguous(x.data(), rotary::DType::kFloat32, {1, 1, kHeadDim});
  };
  rope.rotate(view(q), rotary::Positions::range(query_position));
  rope.rotate(view(k), rotary::Positions::range(key_position));
  float sum = 0.0F;
  for (std::size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
  return sum;
}

}  // namespace

int main() {
  const rotary::Frequencies frequencies =
      rotary::make_frequencies({.rotary_dim = kHeadDim, .theta = 10000.0});
  const rotary::Rope rope(frequencies, {.head_dim = kHeadDim, .pairing = rotary::Pairing::kHalf});

  std::printf("rotary %s\n", ROTARY_VERSION_STRING);
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    std::printf("pair %d: frequency %g rad per token\n", static_cast<int>(pair), frequencies(pair));
  }
  const float near = score(rope, 5, 2);
  const float far = score(rope, 1'000'005, 1'000'002);
  std::printf("score 3 apart: %.5f at 5, %.5f at 1000005\n", static_cast<double>(near),
              static_cast<double>(far));
  return std::abs(near - far) < 1e-5F ? 0 : 1;
}
