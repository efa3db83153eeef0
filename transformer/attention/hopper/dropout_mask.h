// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Sampling of the dropout mask, the same bits on CPU and CUDA. A word of 32 Bernoulli(keep_prob)
// bits, keep_prob of 16 binary digits, is made of 16 random words, one per digit, least significant
// first: bit i is set where the number that bits i of these words spell is less than keep_prob. The
// last eight digits decide only where the first eight are equal, in 1 of 256 cases: the eight words
// of a sample share them, each rotated by another amount. Every bit has exactly the probability
// keep_prob, and any two are as good as independent.
#pragma once

#include "transformer/attention/hopper/kernels.h"
#include "transformer/kernels/philox.h"

#ifdef __CUDA_ARCH__
#define ROTARY_UNROLL _Pragma("unroll")
#else
#define ROTARY_UNROLL
#endif

namespace rotary::transformer::hopper::attention {

/// A sample decides on 16 x 16 of the 64 x 64 weights of a block.
constexpr int kSamplesPerBlock = 16;
constexpr int kSampleWords = kMaskWords / kSamplesPerBlock;
constexpr int kDigits = 16;
constexpr int kSharedDigits = 8;

/// Binary digits of keep_prob, least significant first: all bits set, or none.
struct KeepProbDigits {
  std::uint32_t at[kDigits];
};

/// Of keep_steps / kDropoutSteps, below 1.
inline KeepProbDigits make_keep_prob_digits(int keep_steps) {
  KeepProbDigits digits{};
  for (int i = 0; i < kDigits; ++i) digits.at[i] = (keep_steps >> i & 1) != 0 ? ~0U : 0U;
  return digits;
}

/// Multiply-with-carry generator, an instruction per random word: the high halves of
/// y[n + 1] = f (y[n] mod 2^32) + y[n - 1] mod 2^64. The factor f, of Marsaglia ("Random number
/// generators", 2003), is close to 2^32, so that high halves are nearly uniform.
struct MultiplyWithCarry {
  std::uint64_t last;
  std::uint64_t before;

  ROTARY_HOST_DEVICE explicit MultiplyWithCarry(const Philox4x32& seed)
      : last(std::uint64_t{seed.word[1]} << 32 | seed.word[0]),
        before(std::uint64_t{seed.word[3]} << 32 | seed.word[2]) {}

  ROTARY_HOST_DEVICE std::uint32_t next() {
    constexpr std::uint32_t kFactor = 4294883355U;
    const std::uint64_t state = mul_wide(static_cast<std::uint32_t>(last), kFactor) + before;
    before = last;
    last = state;
    return static_cast<std::uint32_t>(state >> 32);
  }
};

/// Bitwise comparison, one digit further: the majority of three. With random bits taken as the
/// complement of a number's digits, it is keep_prob's digit where the two digits differ, else
/// `less`.
ROTARY_HOST_DEVICE inline std::uint32_t compare_digit(std::uint32_t less, std::uint32_t random,
                                                      std::uint32_t digit) {
#ifdef __CUDA_ARCH__
  std::uint32_t majority;  // one instruction, which nvcc does not find
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(majority) : "r"(less), "r"(random), "r"(digit));
  return majority;
#else
  return (less & random) | (digit & (less | random));
#endif
}

/// Word 2w + e has queries 16w + 8h + 2s + e and keys 8j + 2t + f of a block at bits
/// 16h + 8f + 7 - j. Sample 4s + t of block b is sample 16b + 4s + t of all.
struct MaskSample {
  std::uint32_t word[kSampleWords];
};

ROTARY_HOST_DEVICE inline MaskSample sample_mask(std::uint64_t seed, std::uint64_t index,
                                                 const KeepProbDigits& digits) {
  MultiplyWithCarry random(philox4x32(seed, index));
  std::uint32_t shared = 0;
  ROTARY_UNROLL
  for (int i = 0; i < kSharedDigits; ++i) {
    shared = compare_digit(shared, random.next(), digits.at[i]);
  }
  MaskSample sample;
  ROTARY_UNROLL
  for (int w = 0; w < kSampleWords; ++w) {
    std::uint32_t less = w == 0 ? shared : shared << (4 * w) | shared >> (32 - 4 * w);
    ROTARY_UNROLL
    for (int i = kSharedDigits; i < kDigits; ++i) {
      less = compare_digit(less, random.next(), digits.at[i]);
    }
    sample.word[w] = less;
  }
  return sample;
}

ROTARY_HOST_DEVICE inline std::uint32_t select_bits(std::uint32_t bits, std::uint32_t a,
                                                    std::uint32_t b) {
  return (a & bits) | (b & ~bits);
}

/// Exchanges queries and keys: word 2w + f has keys 16w + 8h + 2t + f and queries 8j + 2s + e at
/// bits 16h + 8e + 7 - j.
ROTARY_HOST_DEVICE inline void transpose(MaskSample& sample) {
  std::uint32_t(&x)[kSampleWords] = sample.word;
  ROTARY_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 4];
    x[i] = select_bits(0xF0F0F0F0, a, b >> 4);
    x[i + 4] = select_bits(0xF0F0F0F0, a << 4, b);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kSampleWords; ++i) {
    if ((i & 2) != 0) continue;
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 2];
    x[i] = select_bits(0xCCCCCCCC, a, b >> 2);
    x[i + 2] = select_bits(0xCCCCCCCC, a << 2, b);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kSampleWords; i += 2) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 1];
    x[i] = select_bits(0xFF00FF00, b << 8, a);
    x[i + 1] = select_bits(0xFF00FF00, b, a >> 8);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kSampleWords; ++i) {
    const std::uint32_t swapped = (x[i] ^ x[i] >> 17) & 0x00005555;
    x[i] ^= swapped ^ swapped << 17;
  }
}

/// Into a block's words, as sample `index` of kSamplesPerBlock.
ROTARY_HOST_DEVICE inline void store(const MaskSample& sample, std::uint32_t* block, int index) {
  struct alignas(8) Pair {
    std::uint32_t word[2];
  };
  ROTARY_UNROLL
  for (int w = 0; w < kSampleWords / 2; ++w) {
    reinterpret_cast<Pair*>(block)[kSamplesPerBlock * w + index] = {
        {sample.word[2 * w], sample.word[2 * w + 1]}};
  }
}

/// Sample `index` of a head, into the orders that the mask has.
ROTARY_HOST_DEVICE inline void sample_into(const DropoutMask& mask, std::uint64_t seed, int head,
                                           int index, int query_blocks, int key_blocks,
                                           const KeepProbDigits& digits) {
  const int block = index / kSamplesPerBlock;
  const int s = index / 4 % 4;
  const int t = index % 4;
  const std::int64_t first = std::int64_t{head} * query_blocks * key_blocks;
  MaskSample sample =
      sample_mask(seed, static_cast<std::uint64_t>(first * kSamplesPerBlock + index), digits);
  store(sample, mask.by_queries + (first + block) * kMaskWords, 4 * s + t);
  if (mask.by_keys == nullptr) return;
  transpose(sample);
  const int transposed_block = block % key_blocks * query_blocks + block / key_blocks;
  store(sample, mask.by_keys + (first + transposed_block) * kMaskWords, 4 * t + s);
}

}  // namespace rotary::transformer::hopper::attention

#undef ROTARY_UNROLL
