// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of the gradient of a norm and the rotation after it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

/// Blocks per operand, at most; each sums over its share of the tokens. Eight for each
/// multiprocessor of an H200; norm_gradient_vectorized takes fewer.
inline constexpr std::int64_t kNormGradientSlices = 8 * 132;
/// Shared memory of a block, at most: what compute capability 9.0 has. Others have less, and then a
/// launch with large norms across heads fails.
inline constexpr std::int64_t kMaxNormGradientShared = 227 * 1024;

/// Floats of a norm of `size` elements beside those of its angles: its gradient, and per weight a
/// sum over the heads of a token (float) and over tokens (double); the latter twice with biases.
inline constexpr std::int64_t norm_gradient_floats(std::int64_t size, bool has_biases) noexcept {
  return size * (1 + 3 * (has_biases ? 2 : 1));
}

/// The rotation is the adjoint: it reads grads[k].in and its results have the layout of
/// operands[k].in, the input of the norm. operands[k].out is the gradient of that input; null: not
/// wanted.
template <class Angles>
struct NormGradientParams : FusedParams<Angles> {
  OperandParams grads[kOperandsPerLaunch];
  double* partial = nullptr;                             // [slices][partial_size]
  std::int64_t partial_offset[kOperandsPerLaunch] = {};  // factors, then biases if has_biases
  std::int64_t partial_size = 0;
  std::int32_t slices = 0;
  bool has_biases = false;
};
static_assert(sizeof(NormGradientParams<GeneralParams>) <= kMaxParameterBytes);

/// Sums partial[:, offset + i] into to[i], for each part.
struct NormSumParams {
  const double* partial = nullptr;  // [slices][partial_size]
  std::int64_t partial_size = 0;
  std::int32_t slices = 0;
  std::int32_t num_parts = 0;
  struct Part {
    double* to;
    std::int64_t offset;  // of its first element in a slice
    std::int32_t count;
  } parts[2 * kOperandsPerLaunch] = {};  // weights and biases
  bool overlaps = false;
};

}  // namespace rotary::internal::cuda
