// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Random numbers without state, the same on CPU and CUDA: Philox 4x32 with seven rounds (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ROTARY_HOST_DEVICE __host__ __device__
#else
#define ROTARY_HOST_DEVICE
#endif

namespace rotary::torch {

/// How many elements one draw decides on, and how finely: a probability is a number of 2^-16.
constexpr int kDrawn = 8;
constexpr std::uint32_t kDrawSteps = 1U << 16;

struct Draw {
  std::uint32_t word[4];

  /// Of 2^16 numbers, for element i of the eight.
  ROTARY_HOST_DEVICE std::uint32_t at(int i) const {
    return (word[i / 2] >> (16 * (i % 2))) & (kDrawSteps - 1);
  }
};

ROTARY_HOST_DEVICE inline std::uint64_t wide_product(std::uint32_t x, std::uint32_t y) {
#ifdef __CUDA_ARCH__
  std::uint64_t product;  // nvcc adds a 0 to the high half of what C++ says
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(y));
  return product;
#else
  return std::uint64_t{x} * y;
#endif
}

ROTARY_HOST_DEVICE inline Draw draw(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  Draw x{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = wide_product(x.word[0], 0xD2511F53);
    const std::uint64_t b = wide_product(x.word[2], 0xCD9E8D57);
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ key[0], static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ key[1], static_cast<std::uint32_t>(a)}};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

/// Element e is kept where draw(seed, e / 8).at(e % 8) >= threshold, and multiplied by scale.
struct Dropout {
  std::uint32_t threshold = 0;
  float scale = 1.0F;
};

inline Dropout dropout_of(double probability) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(probability * kDrawSteps));
  return {threshold, static_cast<float>(kDrawSteps) / static_cast<float>(kDrawSteps - threshold)};
}

}  // namespace rotary::torch
