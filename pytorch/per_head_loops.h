// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The loops of frequencies of each head on the CPU, over a block of tokens of one batch row. They
// know pointers and strides alone, and each is a function of its own: in a core that writes whole
// cache lines past its caches (docs/performance.md), a register saved on the stack between two
// lines of results costs more than the rotation. They are written for the compiler's vectoriser:
// one pairing each, no aliases; on AArch64 it only gets what per_head_neon.h leaves.
#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/TypeCast.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "pytorch/per_head_neon.h"

namespace rotary::torch {

/// `group` heads in a row of a tensor share each of `heads` rows of frequencies.
struct BlockShape {
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t group;
  std::int64_t pairs;
};

/// Where the first rotated elements of a block's heads are.
template <typename T>
struct BlockOf {
  T* data;
  std::int64_t token_stride;
  std::int64_t head_stride;

  T* at(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};

/// The factor of a block, c + i s: [tokens, heads, pairs] each, contiguous.
template <typename S>
struct BlockFactor {
  const S* c;
  const S* s;
};

/// Elements of pair i: neighbours, or half a head apart.
template <bool kHalf>
constexpr std::int64_t first_of(std::int64_t i) {
  return kHalf ? i : 2 * i;
}
template <bool kHalf>
constexpr std::int64_t second_of(std::int64_t i, std::int64_t pairs) {
  return kHalf ? i + pairs : 2 * i + 1;
}

/// A pair of elements in the type of the arithmetic.
template <typename S>
struct PairOf {
  S x, y;
};

// bfloat16 is the upper half of a float. Conversions by integers, without a branch, are those that
// the vectoriser takes; two neighbours in a word need no lane to move.

/// Bits whose upper half is x rounded to nearest even. A NaN of the factor or of hardware has a
/// lower half of zeros (UnitRow), so that rounding does not change it.
inline std::uint32_t rounded_to_upper(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return bits + 0x7fffu + (bits >> 16 & 1u);
}

template <typename S, typename T>
C10_ALWAYS_INLINE S widen(T x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return std::bit_cast<float>(std::uint32_t{x.x} << 16);
  } else {
    return static_cast<S>(x);
  }
}
template <typename T, typename S>
C10_ALWAYS_INLINE T narrow(S x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return {static_cast<std::uint16_t>(rounded_to_upper(x) >> 16), c10::BFloat16::from_bits()};
  } else {
    return c10::convert<T>(x);
  }
}

/// Pair i of a head.
template <bool kHalf, typename S, typename T>
C10_ALWAYS_INLINE PairOf<S> load_pair(const T* in, std::int64_t i, std::int64_t pairs) {
  if constexpr (std::is_same_v<T, c10::BFloat16> && !kHalf) {
    std::uint32_t word = 0;
    std::memcpy(&word, in + 2 * i, sizeof(word));
    return {std::bit_cast<float>(word << 16), std::bit_cast<float>(word & 0xffff0000u)};
  } else {
    return {widen<S>(in[first_of<kHalf>(i)]), widen<S>(in[second_of<kHalf>(i, pairs)])};
  }
}
/// Of neighbours.
template <typename S, typename T>
C10_ALWAYS_INLINE void store_pair(PairOf<S> v, T* out, std::int64_t i) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const std::uint32_t word = rounded_to_upper(v.x) >> 16 | (rounded_to_upper(v.y) & 0xffff0000u);
    std::memcpy(out + 2 * i, &word, sizeof(word));
  } else {
    out[2 * i] = narrow<T>(v.x);
    out[2 * i + 1] = narrow<T>(v.y);
  }
}

/// (x, y) times c + i s for `kCount` pairs from `first` on, or for all from there where it is 0.
/// Halves of a head are written one after the other: stores to two places in turn would take twice
/// as long.
template <bool kReadHalf, bool kWriteHalf, std::int64_t kCount, typename T, typename S>
C10_ALWAYS_INLINE void multiply_pairs(const T* __restrict in, T* __restrict out,
                                      const S* __restrict c, const S* __restrict s,
                                      std::int64_t first, std::int64_t pairs) {
  const std::int64_t last = kCount == 0 ? pairs : first + kCount;
  const auto product = [in, c, s, pairs](std::int64_t i) -> PairOf<S> {
    const PairOf<S> v = load_pair<kReadHalf, S>(in, i, pairs);
    return {v.x * c[i] - v.y * s[i], v.x * s[i] + v.y * c[i]};
  };
  if constexpr (!kWriteHalf) {
    for (std::int64_t i = first; i < last; ++i) store_pair(product(i), out, i);
  } else {
    for (std::int64_t i = first; i < last; ++i) out[i] = narrow<T>(product(i).x);
    T* __restrict second = out + pairs;
    for (std::int64_t i = first; i < last; ++i) second[i] = narrow<T>(product(i).y);
  }
}

/// Heads at equal distances. Their factors follow each other after `stride`, which is 0 where they
/// share one.
template <typename T, typename S>
struct HeadRun {
  const T* in;
  std::int64_t in_stride;
  T* out;
  std::int64_t out_stride;
  BlockFactor<S> factor;
  std::int64_t factor_stride;
  std::int64_t heads;
};

/// Multiplies heads of `pairs` pairs by their factors.
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
C10_NOINLINE void multiply_heads(HeadRun<T, S> run, std::int64_t pairs) {
  // A cache line of x, then one of y, while the lines read for both are in the first-level cache.
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (; run.heads > 0; --run.heads) {
    std::int64_t i = 0;
#if defined(__aarch64__)
    if constexpr (std::is_same_v<S, float>) {
      for (; i + kLine <= pairs; i += kLine) {
        neon::multiply_pairs<kReadHalf, kWriteHalf, kLine / neon::kPairs<T>>(
            run.in, run.out, run.factor.c, run.factor.s, i, pairs);
      }
      for (; i + neon::kPairs<T> <= pairs; i += neon::kPairs<T>) {
        neon::multiply_pairs<kReadHalf, kWriteHalf, 1>(run.in, run.out, run.factor.c, run.factor.s,
                                                       i, pairs);
      }
    }
#endif
    if constexpr (kWriteHalf) {
      for (; i + kLine <= pairs; i += kLine) {
        multiply_pairs<kReadHalf, true, kLine>(run.in, run.out, run.factor.c, run.factor.s, i,
                                               pairs);
      }
    }
    multiply_pairs<kReadHalf, kWriteHalf, 0>(run.in, run.out, run.factor.c, run.factor.s, i, pairs);
    run.in += run.in_stride;
    run.out += run.out_stride;
    run.factor.c += run.factor_stride;
    run.factor.s += run.factor_stride;
  }
}

/// Multiplies a block by its factor: in runs as long as its strides allow.
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
void multiply_block(BlockOf<const T> in, BlockOf<T> out, BlockFactor<S> factor,
                    const BlockShape& shape) {
  const std::int64_t pairs = shape.pairs;
  HeadRun<T, S> run{.in = in.data,
                    .in_stride = in.head_stride,
                    .out = out.data,
                    .out_stride = out.head_stride,
                    .factor = factor,
                    .factor_stride = shape.group == 1 ? pairs : 0,
                    .heads = shape.group == 1 ? shape.heads : shape.group};
  const bool one_run = shape.group == 1 && in.token_stride == shape.heads * in.head_stride &&
                       out.token_stride == shape.heads * out.head_stride;
  if (one_run) {
    run.heads *= shape.tokens;
    const bool dense = in.head_stride == 2 * pairs && out.head_stride == 2 * pairs;
    if (!kReadHalf && !kWriteHalf && dense) {  // neighbours form pairs across heads just the same
      const std::int64_t all = std::exchange(run.heads, 1) * pairs;
      return multiply_heads<kReadHalf, kWriteHalf>(run, all);
    }
    return multiply_heads<kReadHalf, kWriteHalf>(run, pairs);
  }
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t h = 0; h < shape.heads * shape.group; h += run.heads) {
      run.in = in.at(t, h);
      run.out = out.at(t, h);
      multiply_heads<kReadHalf, kWriteHalf>(run, pairs);
      const std::int64_t used = shape.group == 1 ? shape.heads : 1;
      run.factor.c += used * pairs;
      run.factor.s += used * pairs;
    }
  }
}

/// For an input (x, y) and the gradient (u, v) of its rotation, where g = (u, v) (c + i s) is the
/// gradient of the input: adds Im(conj(x) g) to `angle` and Re(conj(x) g) to `length`, [pairs]
/// each, from pair `first` on.
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
C10_ALWAYS_INLINE void add_head_gradients(const T* __restrict in, const T* __restrict grad,
                                          const S* __restrict c, const S* __restrict s,
                                          std::int64_t first, std::int64_t pairs,
                                          S* __restrict angle, S* __restrict length) {
  for (std::int64_t i = first; i < pairs; ++i) {
    const auto [x, y] = load_pair<kReadHalf, S>(in, i, pairs);
    const auto [u, v] = load_pair<kWriteHalf, S>(grad, i, pairs);
    const S gx = u * c[i] - v * s[i];
    const S gy = u * s[i] + v * c[i];
    angle[i] += gy * x - gx * y;
    length[i] += gx * x + gy * y;
  }
}

/// sums[i] += factor * values[i]
template <typename S>
C10_ALWAYS_INLINE void add_product(const S* __restrict values, double factor, std::int64_t count,
                                   double* __restrict sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(values[i]);
}

/// The positions of a block, and sums of gradients: frequencies [heads, axes, pairs] and
/// log(scale) [pairs].
struct BlockSums {
  const double* positions;  // of axis 0; those of the others follow after `axis_stride`
  std::int64_t axis_stride;
  std::int64_t axes;
  double* frequencies;
  double* length;
};

/// Adds the gradients of a block. `in` and `grad` are the block's input and the gradient of its
/// result, `factor` that of the transpose; `scratch` is [2, pairs].
template <bool kReadHalf, bool kWriteHalf, typename T, typename S>
C10_NOINLINE void add_block_gradients(BlockOf<const T> in, BlockOf<const T> grad,
                                      BlockFactor<S> factor, BlockShape shape, BlockSums sums,
                                      S* scratch) {
  const std::int64_t pairs = shape.pairs;
  S* angle = scratch;
  S* length = scratch + pairs;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    std::fill(length, length + pairs, S{0});
    double* to = sums.frequencies;
    const double* position = sums.positions + t;
    for (std::int64_t f = 0; f < shape.heads; ++f) {
      std::int64_t first = 0;
      const std::int64_t h = f * shape.group;
#if defined(__aarch64__)
      if constexpr (std::is_same_v<S, float>) {
        const neon::HeadGroup<T> group{in.at(t, h), in.head_stride, grad.at(t, h), grad.head_stride,
                                       shape.group};
        const neon::AngleSums angles{position, sums.axis_stride, sums.axes, to};
        first = neon::add_group_gradients<kReadHalf, kWriteHalf>(group, factor.c, factor.s, pairs,
                                                                 angles, length);
      }
#endif
      if (first < pairs) {
        std::fill(angle + first, angle + pairs, S{0});
        for (std::int64_t k = h; k < h + shape.group; ++k) {
          add_head_gradients<kReadHalf, kWriteHalf>(in.at(t, k), grad.at(t, k), factor.c, factor.s,
                                                    first, pairs, angle, length);
        }
        for (std::int64_t a = 0; a < sums.axes; ++a) {
          add_product(angle + first, position[a * sums.axis_stride], pairs - first,
                      to + a * pairs + first);
        }
      }
      to += sums.axes * pairs;
      factor.c += pairs;
      factor.s += pairs;
    }
    add_product(length, 1.0, pairs, sums.length);
  }
}

}  // namespace rotary::torch
