// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of a kernel that rotates the heads of one token, the same for all targets.
#pragma once

#include <hwy/base.h>

#include <cstdint>

#include "cpu/realign_state.h"
#include "rotary/pairing.h"

namespace rotary::internal {

/// The rotary slices of the heads of one token, input and output. `step` is the stride of the
/// elements of a slice, `stride` that of the heads.
template <typename Storage>
struct HeadSlices {
  const Storage* in;
  Storage* out;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t in_step;
  std::int64_t out_step;
  std::int64_t heads;
  std::int64_t pairs;
};

/// The same with the element type erased, for kernels chosen once per operand, and without the
/// pointers. These are arguments of their own: a kernel that read them from memory, just after they
/// were written there for the next token, would wait for that (some 300 cycles on a Neoverse-N1).
struct TokenHeads {
  std::int64_t in_token_bytes;  // from a token to the next
  std::int64_t out_token_bytes;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t in_step;
  std::int64_t out_step;
  std::int64_t count;
  std::int64_t pairs;
  Pairing read;
  Pairing write;
  void* scratch;          // one slice
  RealignState* realign;  // of a RealignedStreamWriter

  template <typename Storage>
  HWY_INLINE HeadSlices<Storage> as(const void* in, void* out) const {
    return {.in = static_cast<const Storage*>(in),
            .out = static_cast<Storage*>(out),
            .in_stride = in_stride,
            .out_stride = out_stride,
            .in_step = in_step,
            .out_step = out_step,
            .heads = count,
            .pairs = pairs};
  }
};

/// The layout in which a kernel reads cos and sin, besides kPerPair, which tails read.
enum class RowLayout : std::uint8_t {
  kPerPair,     // [c0 c1 ...] and [s0 s1 ...]
  kPerElement,  // [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...]
  kEvenOdd,     // [c0 c2 ... c1 c3 ...] and [s0 s2 ... s1 s3 ...]
};

/// cos and sin of a token, [pairs] each, and the same in another RowLayout if a kernel reads that.
template <typename T>
struct RotationRow {
  const T* c;
  const T* s;
  const T* arranged_c = nullptr;
  const T* arranged_s = nullptr;
  std::int64_t odd_begin = 0;  // of kEvenOdd: where the odd pairs begin
};

/// Rotates the heads of `count` tokens by consecutive rows; `in` and `out` are the slices of the
/// first head of the first token.
template <typename T>
using RotateTokens = void (*)(const TokenHeads& heads, const char* in, char* out,
                              const RotationRow<T>* rows, std::int64_t count);

}  // namespace rotary::internal
