// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which build of the tuned kernel rotates what: each where it was the fastest (docs/cuda.md).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/launch_packs.cuh"
#include "cuda/pack_params.h"

namespace rotary::internal::cuda {

using OneHead = Build<1, false, 512, 3>;
using TwoHeads = Build<2, true, 512, 2>;
using TwoLean = Build<2, false, 512, 3>;
using ThreeAhead = Build<3, false, 256, 4, true>;
using FourAhead = Build<4, false, 256, 4, true>;
using EightAhead = Build<8, false, 256, 2, true>;

/// What decides which build is the fastest: how much there is, and how much of it is one token's.
enum class Amount : std::uint8_t {
  kSmall,   // the caches hold it
  kNarrow,  // tokens of up to 4 KB
  kMiddle,  // up to 8 KB
  kWide,
};

inline Amount amount_of(const SimpleParams& p) noexcept {
  constexpr std::int64_t kSmallBytes = std::int64_t{32} << 20;
  const std::int64_t token = static_cast<std::int64_t>(size_of(p.type)) * p.num_heads * p.head_dim;
  if (p.batch * p.tokens * token < kSmallBytes) return Amount::kSmall;
  return token <= 4096 ? Amount::kNarrow : token <= 8192 ? Amount::kMiddle : Amount::kWide;
}

inline bool is_in_place(const SimpleParams& p) noexcept {
  return p.operands[0].in == p.operands[0].out;
}

inline bool has_threes_of_heads(const PackParams& packs, const SimpleParams& p) noexcept {
  for (int k = 0; k < p.num_operands; ++k) {
    if (packs.operands[k].heads % 3 != 0) return false;
  }
  return true;
}

template <class Element, class Out>
cudaError_t launch_half(const SimpleParams& p, PackParams& packs, cudaStream_t stream) noexcept {
  using Unit = TwoPackUnit<Element, Pairing::kHalf, Pairing::kHalf, Out>;
  const Amount amount = amount_of(p);
  cudaError_t error = cudaSuccess;
  if (amount == Amount::kWide &&
      launch_exchanged<ExchangedUnit<Element, Out>, FourAhead>(p, packs, stream, error)) {
    return error;
  }
  constexpr bool kSameType = std::is_same_v<Element, Out>;  // 8 bits are too short to gain by it
  if (kSameType && amount == Amount::kMiddle &&
      launch_exchanged<ExchangedUnit<Element, Out>, TwoLean>(p, packs, stream, error)) {
    return error;
  }
  if (amount == Amount::kWide) return launch_packs<Unit, TwoHeads>(p, 4, packs, stream);
  const int tokens = amount == Amount::kNarrow && p.overlaps ? 4 : 1;
  return launch_packs<Unit, OneHead>(p, tokens, packs, stream);
}

template <class Element, class Out>
cudaError_t launch_neighbours(const SimpleParams& p, PackParams& packs,
                              cudaStream_t stream) noexcept {
  using Unit = NeighbourUnit<Element, Out>;
  if (has_few_tokens(p)) return launch_packs<Unit, OneHead>(p, 1, packs, stream);
  const Amount amount = amount_of(p);
  if (amount == Amount::kWide && is_in_place(p)) {
    return launch_packs<Unit, EightAhead>(p, 1, packs, stream);
  }
  if (amount == Amount::kWide) return launch_packs<Unit, FourAhead>(p, 2, packs, stream);
  if (amount == Amount::kNarrow && p.overlaps && has_threes_of_heads(packs, p)) {
    return launch_packs<Unit, ThreeAhead>(p, 1, packs, stream);
  }
  return launch_packs<Unit, TwoLean>(p, 1, packs, stream);
}

}  // namespace rotary::internal::cuda
