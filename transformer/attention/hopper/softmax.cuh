// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Online softmax over an accumulator of scores (Milakov and Gimelshein 2018; FlashAttention-3).
#pragma once

#include "transformer/attention/hopper/tiles.cuh"

namespace rotary::transformer::hopper::attention {

/// Running maximum and sum of a thread's two rows. Weights are exp2(scale_log2 * (s - row_max)),
/// where row_max may lag behind the true maximum by up to kMaxLag in the exponent: so the
/// accumulator is seldom rescaled. row_sum is of the thread's columns only until total().
struct OnlineSoftmax {
  static constexpr float kMaxLag = 8.0F;

  float row_max[2] = {-kInfinity, -kInfinity};
  float row_sum[2] = {0.0F, 0.0F};

  /// Correction of earlier results when row_max grows: exp2(old_max - new_max).
  struct Rescale {
    float factor[2];
    bool needed;  // by any row of the warp

    __device__ void apply(float (&accumulator)[32]) const {
      if (!needed) return;
#pragma unroll
      for (int i = 0; i < 32; ++i) accumulator[i] *= factor[i / 2 % 2];
    }
  };

  /// Scores [64, 128] become weights, not yet divided by their sums. Columns from keys_left on are
  /// masked with kMaskTail.
  template <bool kMaskTail>
  __device__ Rescale update(float (&s)[64], float scale_log2, int keys_left) {
    fence_operand(s);
    if (kMaskTail) {
      const int column = AccumulatorCoord().column();
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        if (8 * (i / 4) + column + i % 2 >= keys_left) s[i] = -kInfinity;
      }
    }
    float max[2];
    bool grows = false;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      max[h] = row_max[h];
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        max[h] = fmaxf(max[h], fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
      }
      max[h] = fmaxf(max[h], __shfl_xor_sync(~0U, max[h], 1));
      max[h] = fmaxf(max[h], __shfl_xor_sync(~0U, max[h], 2));
      grows = grows || (max[h] - row_max[h]) * scale_log2 > kMaxLag;
    }
    Rescale rescale;
    rescale.needed = __any_sync(~0U, grows);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float new_max = rescale.needed ? max[h] : row_max[h];
      rescale.factor[h] = cuda::exp2_approx((row_max[h] - new_max) * scale_log2);
      row_max[h] = new_max;
      const float max_scaled = new_max * scale_log2;
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * j + 2 * h + e];
          x = cuda::exp2_approx(fmaf(x, scale_log2, -max_scaled));
          sum += x;
        }
      }
      row_sum[h] = fmaf(row_sum[h], rescale.factor[h], sum);
    }
    return rescale;
  }

  /// The sum of all columns of row h: a row lies in four neighbouring lanes.
  __device__ float total(int h) const {
    float sum = row_sum[h];
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    return sum;
  }
};

}  // namespace rotary::transformer::hopper::attention
