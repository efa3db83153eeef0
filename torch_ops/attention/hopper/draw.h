// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which weights are kept, the same on CPU and CUDA. A word of 32 bits that are each set with a
// probability of 16 binary digits is made of 16 random words, one a digit, from the last digit to
// the first: a bit is set where the number that the words spell in its place is less than the
// probability. The last eight digits decide only where the first eight are equal, once in 256
// times; the eight words of a draw share what they decide, each turned by another amount. So every
// bit has the exact probability, and two of them are as good as independent.
#pragma once

#include "attention/hopper/hopper.h"
#include "layers/random.h"

namespace rotary::torch::hopper {

constexpr int kDrawsPerBlock = 16;  // of 64 queries and 64 keys: 16 x 16 bits a draw
constexpr int kDrawWords = 8;
constexpr int kDigits = 16;
constexpr int kSharedDigits = 8;

struct Digits {
  std::uint32_t at[kDigits];  // of the probability, the last first: all bits set, or none
};

/// Of `keep` / kKeepSteps, below 1.
inline Digits digits_of(int keep) {
  Digits digits{};
  for (int i = 0; i < kDigits; ++i) digits.at[i] = (keep >> i & 1) != 0 ? ~0U : 0U;
  return digits;
}

/// Multiply with carry (Marsaglia, "Random number generators", 2003): 32 bits a step.
struct Numbers {
  std::uint32_t x;
  std::uint32_t carry;

  ROTARY_HOST_DEVICE std::uint32_t next() {
    constexpr std::uint64_t kFactor = 4294883355U;
    const std::uint64_t state = kFactor * x + carry;
    x = static_cast<std::uint32_t>(state);
    carry = static_cast<std::uint32_t>(state >> 32);
    return x ^ carry;
  }
};

/// `less`, one digit further: where digits differ they decide, elsewhere `less` does. It is what
/// most of the three say.
ROTARY_HOST_DEVICE inline std::uint32_t next_less(std::uint32_t less, std::uint32_t random,
                                                  std::uint32_t digit) {
#ifdef __CUDA_ARCH__
  std::uint32_t most;  // in one instruction, which nvcc does not find
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(most) : "r"(less), "r"(random), "r"(digit));
  return most;
#else
  return (less & random) | (digit & (less | random));
#endif
}

/// Word 2w + e has queries 16w + 8h + 2s + e and keys 8j + 2t + f of a block at bits
/// 16h + 8f + 7 - j. Draw 4s + t of block b is draw 16b + 4s + t of all.
struct Drawn {
  std::uint32_t word[kDrawWords];
};

ROTARY_HOST_DEVICE inline Drawn draw_kept(std::uint64_t seed, std::uint64_t number,
                                          const Digits& digits) {
  const Draw start = draw(seed, number);
  Numbers numbers[2] = {{start.word[0], start.word[1]}, {start.word[2], start.word[3]}};
  std::uint32_t shared = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < kSharedDigits; ++i) {
    shared = next_less(shared, numbers[i % 2].next(), digits.at[i]);
  }
  Drawn drawn;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int w = 0; w < kDrawWords; ++w) {
    std::uint32_t less = w == 0 ? shared : shared << (4 * w) | shared >> (32 - 4 * w);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = kSharedDigits; i < kDigits; ++i) {
      less = next_less(less, numbers[w % 2].next(), digits.at[i]);
    }
    drawn.word[w] = less;
  }
  return drawn;
}

}  // namespace rotary::torch::hopper
