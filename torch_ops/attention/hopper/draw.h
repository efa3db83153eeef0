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

#ifdef __CUDA_ARCH__
#define ROTARY_UNROLL _Pragma("unroll")
#else
#define ROTARY_UNROLL
#endif

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

/// The high halves of y[n + 1] = f (y[n] mod 2^32) + y[n - 1] mod 2^64: an instruction each. The
/// factor f, of Marsaglia's multiply with carry ("Random number generators", 2003), is close to
/// 2^32, so that a step adds every number to a high half with nearly the same probability.
struct Numbers {
  std::uint64_t last;
  std::uint64_t before;

  ROTARY_HOST_DEVICE explicit Numbers(const Draw& start)
      : last(std::uint64_t{start.word[1]} << 32 | start.word[0]),
        before(std::uint64_t{start.word[3]} << 32 | start.word[2]) {}

  ROTARY_HOST_DEVICE std::uint32_t next() {
    constexpr std::uint32_t kFactor = 4294883355U;
    const std::uint64_t state = wide_product(static_cast<std::uint32_t>(last), kFactor) + before;
    before = last;
    last = state;
    return static_cast<std::uint32_t>(state >> 32);
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
  Numbers numbers(draw(seed, number));
  std::uint32_t shared = 0;
  ROTARY_UNROLL
  for (int i = 0; i < kSharedDigits; ++i) {
    shared = next_less(shared, numbers.next(), digits.at[i]);
  }
  Drawn drawn;
  ROTARY_UNROLL
  for (int w = 0; w < kDrawWords; ++w) {
    std::uint32_t less = w == 0 ? shared : shared << (4 * w) | shared >> (32 - 4 * w);
    ROTARY_UNROLL
    for (int i = kSharedDigits; i < kDigits; ++i) {
      less = next_less(less, numbers.next(), digits.at[i]);
    }
    drawn.word[w] = less;
  }
  return drawn;
}

ROTARY_HOST_DEVICE inline std::uint32_t choose_bits(std::uint32_t bits, std::uint32_t a,
                                                    std::uint32_t b) {
  return (a & bits) | (b & ~bits);
}

/// As drawn, but with queries and keys exchanged: word 2w + f has keys 16w + 8h + 2t + f and
/// queries 8j + 2s + e at bits 16h + 8e + 7 - j.
ROTARY_HOST_DEVICE inline void transpose(Drawn& drawn) {
  std::uint32_t(&x)[kDrawWords] = drawn.word;
  ROTARY_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 4];
    x[i] = choose_bits(0xF0F0F0F0, a, b >> 4);
    x[i + 4] = choose_bits(0xF0F0F0F0, a << 4, b);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kDrawWords; ++i) {
    if ((i & 2) != 0) continue;
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 2];
    x[i] = choose_bits(0xCCCCCCCC, a, b >> 2);
    x[i + 2] = choose_bits(0xCCCCCCCC, a << 2, b);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kDrawWords; i += 2) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 1];
    x[i] = choose_bits(0xFF00FF00, b << 8, a);
    x[i + 1] = choose_bits(0xFF00FF00, b, a >> 8);
  }
  ROTARY_UNROLL
  for (int i = 0; i < kDrawWords; ++i) {
    const std::uint32_t swapped = (x[i] ^ x[i] >> 17) & 0x00005555;
    x[i] ^= swapped ^ swapped << 17;
  }
}

/// Into a block's 128 words, as the threads of a warpgroup read them.
ROTARY_HOST_DEVICE inline void store(const Drawn& drawn, std::uint32_t* block, int place) {
  struct alignas(8) Pair {
    std::uint32_t word[2];
  };
  ROTARY_UNROLL
  for (int w = 0; w < kDrawWords / 2; ++w) {
    reinterpret_cast<Pair*>(block)[kDrawsPerBlock * w + place] = {
        {drawn.word[2 * w], drawn.word[2 * w + 1]}};
  }
}

/// Draw `number` of a head's, in the orders that the mask has.
ROTARY_HOST_DEVICE inline void draw_into(const Mask& mask, std::uint64_t seed, int head, int number,
                                         int query_blocks, int key_blocks, const Digits& digits) {
  constexpr int kWords = kDrawsPerBlock * kDrawWords;
  const int block = number / kDrawsPerBlock;
  const int s = number / 4 % 4;
  const int t = number % 4;
  const std::int64_t first = std::int64_t{head} * query_blocks * key_blocks;
  Drawn drawn =
      draw_kept(seed, static_cast<std::uint64_t>(first * kDrawsPerBlock + number), digits);
  store(drawn, mask.by_queries + (first + block) * kWords, 4 * s + t);
  if (mask.by_keys == nullptr) return;
  transpose(drawn);
  const int turned = block % key_blocks * query_blocks + block / key_blocks;
  store(drawn, mask.by_keys + (first + turned) * kWords, 4 * t + s);
}

}  // namespace rotary::torch::hopper

#undef ROTARY_UNROLL
