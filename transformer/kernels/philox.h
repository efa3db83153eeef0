// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Philox4x32 with seven rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), and dropout by it. Counter-based: the same bits on CPU and CUDA, whatever the thread
// mapping.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ROTARY_HOST_DEVICE __host__ __device__
#else
#define ROTARY_HOST_DEVICE
#endif

namespace rotary::transformer {

/// 16-bit random values of one Philox output.
constexpr int kPhiloxValues = 8;

/// One output: 128 random bits.
struct Philox4x32 {
  std::uint32_t word[4];

  /// Value i of kPhiloxValues, 16 bits.
  ROTARY_HOST_DEVICE std::uint32_t value(int i) const {
    return (word[i / 2] >> (16 * (i % 2))) & 0xFFFFU;
  }
};

/// 64-bit product.
ROTARY_HOST_DEVICE inline std::uint64_t mul_wide(std::uint32_t x, std::uint32_t y) {
#ifdef __CUDA_ARCH__
  std::uint64_t product;  // PTX, since nvcc adds a 0 to the high half of the C++ product
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(y));
  return product;
#else
  return std::uint64_t{x} * y;
#endif
}

ROTARY_HOST_DEVICE inline Philox4x32 philox4x32(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  Philox4x32 x{
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = mul_wide(x.word[0], 0xD2511F53);
    const std::uint64_t b = mul_wide(x.word[2], 0xCD9E8D57);
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ key[0], static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ key[1], static_cast<std::uint32_t>(a)}};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

/// Dropout probabilities are multiples of 1 / kDropoutSteps: a 16-bit random value decides.
constexpr std::uint32_t kDropoutSteps = 1U << 16;

/// Random values below the threshold drop: `probability` to the nearest step.
inline std::uint32_t drop_threshold(double probability) {
  return static_cast<std::uint32_t>(std::lround(probability * kDropoutSteps));
}

/// Element e of a tensor is kept where philox4x32(seed, e / 8).value(e % 8) >= threshold, and then
/// multiplied by scale = 1 / keep_prob.
struct Dropout {
  std::uint32_t threshold = 0;
  float scale = 1.0F;
};

inline Dropout make_dropout(double probability) {
  const std::uint32_t threshold = drop_threshold(probability);
  return {threshold,
          static_cast<float>(kDropoutSteps) / static_cast<float>(kDropoutSteps - threshold)};
}

}  // namespace rotary::transformer
