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

using OneFirst = Build<1, false, 512, 3, Prefetch::kFirst>;
using TwoHeads = Build<2, true, 512, 2>;
using TwoFirst = Build<2, false, 512, 3, Prefetch::kFirst>;
using FourAhead = Build<4, false, 256, 4, Prefetch::kAll>;
using EightAhead = Build<8, false, 256, 2, Prefetch::kAll>;

/// What decides which build is the fastest: how much there is, and how much of it is one token's.
enum class Amount : std::uint8_t {
  kFew,     // a decoding step, or little more
  kSmall,   // the caches hold it
  kNarrow,  // tokens of up to 4 KB
  kMiddle,  // up to 8 KB
  kWide,
};

inline Amount amount_of(const SimpleParams& p) noexcept {
  constexpr std::int64_t kFewBytes = std::int64_t{16} << 20;
  constexpr std::int64_t kSmallBytes = std::int64_t{32} << 20;
  const std::int64_t token = static_cast<std::int64_t>(size_of(p.type)) * p.num_heads * p.head_dim;
  if (p.batch * p.tokens * token <= kFewBytes) return Amount::kFew;
  if (p.batch * p.tokens * token < kSmallBytes) return Amount::kSmall;
  return token <= 4096 ? Amount::kNarrow : token <= 8192 ? Amount::kMiddle : Amount::kWide;
}

inline bool is_in_place(const SimpleParams& p) noexcept {
  return p.operands[0].in == p.operands[0].out;
}

/// What the first blocks prefetch while the launch before ends: as much as comes in meanwhile.
inline int first_bytes(const SimpleParams& p, Amount amount) noexcept {
  return p.overlaps && amount >= Amount::kNarrow ? 4 << 20 : 0;
}

/// Whether a block has enough to do with one token: nearly always.
inline bool has_large_tokens(const SimpleParams& p, const PackParams& packs) noexcept {
  constexpr std::int32_t kLeastUnits = 64;
  return packs.units * p.num_heads >= kLeastUnits;
}

inline bool is_few(const SimpleParams& p, const PackParams& packs, Amount amount) noexcept {
  constexpr std::int64_t kFewTokens = 128;
  return amount == Amount::kFew && (has_large_tokens(p, packs) || p.batch * p.tokens <= kFewTokens);
}

template <class Unit>
cudaError_t launch_few(const SimpleParams& p, PackParams& packs, cudaStream_t stream) noexcept {
  const int most_packs = p.batch * p.tokens <= 64 ? 160 : 320;
  return launch_tokens<Unit, Prefetch::kNone>(p, most_packs, 0, packs, stream);
}

template <class Element, class Out>
cudaError_t launch_half(const SimpleParams& p, PackParams& packs, cudaStream_t stream) noexcept {
  using Unit = TwoPackUnit<Element, Pairing::kHalf, Pairing::kHalf, Out>;
  const Amount amount = amount_of(p);
  if (is_few(p, packs, amount)) return launch_few<Unit>(p, packs, stream);
  cudaError_t error = cudaSuccess;
  if (amount == Amount::kWide &&
      launch_exchanged<ExchangedUnit<Element, Out>, FourAhead>(p, packs, stream, error)) {
    return error;
  }
  if (amount == Amount::kWide) return launch_packs<Unit, TwoHeads>(p, 4, packs, stream);
  constexpr bool kSameType = std::is_same_v<Element, Out>;
  const int first = first_bytes(p, amount);
  if (kSameType && amount == Amount::kMiddle && has_large_tokens(p, packs)) {
    return launch_tokens<Unit, Prefetch::kFirst>(p, 192, first, packs, stream);
  }
  return launch_packs<Unit, OneFirst>(p, 1, packs, stream, first);
}

template <class Element, class Out>
cudaError_t launch_neighbours(const SimpleParams& p, PackParams& packs,
                              cudaStream_t stream) noexcept {
  using Unit = NeighbourUnit<Element, Out>;
  const Amount amount = amount_of(p);
  if (is_few(p, packs, amount)) return launch_few<Unit>(p, packs, stream);
  if (amount == Amount::kWide && is_in_place(p)) {
    return launch_packs<Unit, EightAhead>(p, 1, packs, stream);
  }
  if (amount == Amount::kWide) return launch_packs<Unit, FourAhead>(p, 2, packs, stream);
  return launch_packs<Unit, TwoFirst>(p, 1, packs, stream, first_bytes(p, amount));
}

}  // namespace rotary::internal::cuda
