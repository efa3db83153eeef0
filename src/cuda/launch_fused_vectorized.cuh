// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Chooses the tuned fused kernel for a launch, and its shape, by trials of similar kernels
// (docs/fused.md).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device/fused_block.cuh"
#include "cuda/device/fused_vectorized.cuh"
#include "cuda/launch_fused_vectorized.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {

/// Launches of up to so many steps, of heads that lanes with whole packs hold at once, are decoding
/// steps; without stores, those of up to so many are short.
inline constexpr std::int64_t kMaxDecodingSteps = 5000;
inline constexpr std::int64_t kMaxShortSteps = 160'000;
/// As kFusedPrefetch.
inline constexpr std::int64_t kShortPrefetch = 6 << 20;
/// Of decoding steps: those whose blocks are small, those whose blocks have no helpers, and those
/// whose lanes have packs of four elements if they store.
inline constexpr std::int64_t kFewestTokens = 4;
inline constexpr std::int64_t kFewTokens = 16;
inline constexpr std::int64_t kMediumTokens = 128;
/// Packs of four elements in decoding steps.
inline constexpr int kStepPack = 4;

using StepConfig = FusedBlockConfig<kStepPack, 1, WeightsIn::kRegisters, 0, 320, 4>;
using HelpedStepConfig = FusedBlockConfig<kStepPack, 1, WeightsIn::kShared, 2, 224, 5>;
/// Of more tokens, with whole packs.
template <class Element>
using HelpedConfig = FusedBlockConfig<Element::kPerPack, 1, WeightsIn::kShared, 2, 224, 5>;
inline constexpr std::int32_t kHelpedWarps = 5;  // with heads
template <class Element>
using ShortConfig = FusedBlockConfig<Element::kPerPack, 2, WeightsIn::kShared, 0, 96, 10>;

template <class Element, Pairing kPairing, int kLanes, Stores kStored, class Config>
cudaError_t launch_fused_block(std::int32_t batch, std::int32_t max_warps,
                               std::int64_t prefetch_bytes, FusedVectorizedParams& p,
                               cudaStream_t stream) noexcept {
  using Head = LaneHead<Element, kPairing, kLanes, Config::kCount>;
  const FusedVectorizedShape shape =
      shape_fused_block(kLanes, Config::kHeads, max_warps, prefetch_bytes, p);
  const dim3 grid(static_cast<unsigned>(p.angles.tokens), static_cast<unsigned>(batch),
                  shape.parts);
  const dim3 block(32, shape.warps + Config::kHelpers);
  return launch_kernel(fused_block<Element, kPairing, kLanes, kStored, Config>, p, grid, block,
                       kFusedBlockBytes<Head, Config>, p.angles.overlaps, stream);
}

/// What decides between the kernels.
struct FusedLaunch {
  std::int64_t tokens = 0;
  std::int64_t steps = 0;  // of heads that lanes with whole packs hold at once
  Stores stores = Stores::kNone;
  bool normalizes = false;
  bool has_own_weights = true;  // of the elements' type
  bool can_share_weights = true;
};

template <class Element>
FusedLaunch describe_launch(std::int32_t batch, const FusedVectorizedParams& p) noexcept {
  FusedLaunch launch{.tokens = std::int64_t{p.angles.tokens} * batch,
                     .can_share_weights = !p.operands[kSharedWeights].normalizes};
  const std::int32_t warp_heads = 32 / p.angles.fragments;
  for (const FusedTileOperand& o : p.operands) {
    launch.normalizes = launch.normalizes || o.normalizes;
    if (o.store != kNoStore && launch.stores != Stores::kAny) {
      const DType type = p.stores[o.store].type;
      const bool is_quantized = is_float8(type) || type == DType::kInt8;
      launch.stores = is_quantized ? Stores::kAny : Stores::kPlain;
    }
    if (o.weight != nullptr && o.has_float_weight != std::is_same_v<Element, Float32>) {
      launch.has_own_weights = false;
    }
    launch.steps += ceil_div(o.heads, warp_heads) * launch.tokens;
  }
  return launch;
}

/// A decoding step, `kLanes` of whose lanes share a head.
template <class Element, Pairing kPairing, int kLanes>
cudaError_t launch_decoding_step(const FusedLaunch& launch, std::int32_t batch,
                                 FusedVectorizedParams& p, cudaStream_t stream) noexcept {
  if (launch.stores == Stores::kPlain) {
    return launch_fused_block<Element, kPairing, kLanes, Stores::kPlain, HelpedStepConfig>(
        batch, kHelpedWarps, 0, p, stream);
  }
  const bool is_medium = launch.tokens > kFewTokens && launch.tokens <= kMediumTokens;
  if (launch.stores == Stores::kAny) {
    return launch_fused_block<Element, kPairing, kLanes, Stores::kAny, StepConfig>(
        batch, is_medium && launch.normalizes ? 4 : 10, 0, p, stream);
  }
  if (launch.can_share_weights && (is_medium || !launch.has_own_weights)) {
    return launch_fused_block<Element, kPairing, kLanes, Stores::kNone, HelpedStepConfig>(
        batch, kHelpedWarps, 0, p, stream);
  }
  return launch_fused_block<Element, kPairing, kLanes, Stores::kNone, StepConfig>(
      batch, launch.tokens <= kFewestTokens ? 3 : 10, 0, p, stream);
}

template <class Element, Pairing kPairing, int kLanes>
cudaError_t launch_fused_vectorized(std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  const FusedLaunch launch = describe_launch<Element>(batch, p);
  const bool stores = launch.stores != Stores::kNone;
  constexpr int kStepLanes = kLanes * (Element::kPerPack / kStepPack);
  const bool is_step = launch.steps <= kMaxDecodingSteps;
  const bool stores_plain = launch.stores == Stores::kPlain;
  if (is_step && stores_plain && launch.can_share_weights && launch.tokens > kMediumTokens) {
    return launch_fused_block<Element, kPairing, kLanes, Stores::kPlain, HelpedConfig<Element>>(
        batch, kHelpedWarps, 0, p, stream);
  }
  if constexpr (kStepLanes <= 32) {
    const bool may_share = launch.can_share_weights && launch.stores != Stores::kAny;
    if (is_step && (may_share || (launch.has_own_weights && !stores_plain))) {
      return launch_decoding_step<Element, kPairing, kStepLanes>(launch, batch, p, stream);
    }
  }
  if (!stores && launch.can_share_weights && launch.steps <= kMaxShortSteps) {
    return launch_fused_block<Element, kPairing, kLanes, Stores::kNone, ShortConfig<Element>>(
        batch, 3, kShortPrefetch, p, stream);
  }
  const auto kernel = stores ? fused_vectorized<Element, kPairing, kLanes, true>
                             : fused_vectorized<Element, kPairing, kLanes, false>;
  const FusedVectorizedShape shape =
      shape_fused_vectorized(batch, kFusedHeadsPerThread, kMaxFusedWarps, kFusedPrefetch, p);
  const dim3 grid(static_cast<unsigned>(p.angles.tokens), static_cast<unsigned>(batch),
                  shape.parts);
  constexpr std::size_t kShared = 4 * kLanes * Element::kPerPack * sizeof(float);
  return launch_kernel(kernel, p, grid, dim3(32), kShared, p.angles.overlaps, stream);
}

template <class Element, Pairing kPairing>
cudaError_t launch_fused_vectorized(std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  switch (p.angles.fragments) {
    case 4:
      return launch_fused_vectorized<Element, kPairing, 4>(batch, p, stream);
    case 8:
      return launch_fused_vectorized<Element, kPairing, 8>(batch, p, stream);
    case 16:
      return launch_fused_vectorized<Element, kPairing, 16>(batch, p, stream);
    default:
      return launch_fused_vectorized<Element, kPairing, 32>(batch, p, stream);
  }
}

template <class Element>
cudaError_t launch_fused_vectorized(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  return pairing == Pairing::kHalf
             ? launch_fused_vectorized<Element, Pairing::kHalf>(batch, p, stream)
             : launch_fused_vectorized<Element, Pairing::kInterleaved>(batch, p, stream);
}

}  // namespace rotary::internal::cuda
