// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Pairs of a head on NEON, for the loops of frequencies of each head. Compilers vectorise the
// conversions of 16-bit floats badly, and may not fuse a product and a sum (-ffp-contract=off).
// bfloat16 is rounded without shifts, which run on only one of a Neoverse-N1's two vector pipes, as
// in src/cpu/elements-inl.h.
#pragma once

#if defined(__aarch64__)

#include <arm_neon.h>
#include <c10/macros/Macros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace rotary::torch::neon {

/// A register of elements: as in memory (Packed) and for the arithmetic (Widened).
template <typename T>
struct Elements;

template <>
struct Elements<float> {
  using Packed = float32x4_t;
  using Widened = float32x4_t;
  static Packed load(const float* from) { return vld1q_f32(from); }
  static void store(Packed v, float* to) { vst1q_f32(to, v); }
  static Widened load_floats(const float* from) { return vld1q_f32(from); }
  static void store_floats(Widened v, float* to) { vst1q_f32(to, v); }
  static Widened widen(Packed v) { return v; }
  static Packed narrow(Widened v) { return v; }
  static Packed unzip_even(Packed a, Packed b) { return vuzp1q_f32(a, b); }
  static Packed unzip_odd(Packed a, Packed b) { return vuzp2q_f32(a, b); }
  static Packed zip_lower(Packed a, Packed b) { return vzip1q_f32(a, b); }
  static Packed zip_upper(Packed a, Packed b) { return vzip2q_f32(a, b); }
};

/// Loads, stores and moves of 16-bit types, and their arithmetic on two registers of floats.
template <typename T>
struct Elements16 {
  using Packed = uint16x8_t;
  using Widened = float32x4x2_t;
  static Packed load(const T* from) { return vld1q_u16(&from->x); }
  static void store(Packed v, T* to) { vst1q_u16(&to->x, v); }
  static Widened load_floats(const float* from) { return {{vld1q_f32(from), vld1q_f32(from + 4)}}; }
  static void store_floats(const Widened& v, float* to) {
    vst1q_f32(to, v.val[0]);
    vst1q_f32(to + 4, v.val[1]);
  }
  static Packed unzip_even(Packed a, Packed b) { return vuzp1q_u16(a, b); }
  static Packed unzip_odd(Packed a, Packed b) { return vuzp2q_u16(a, b); }
  static Packed zip_lower(Packed a, Packed b) { return vzip1q_u16(a, b); }
  static Packed zip_upper(Packed a, Packed b) { return vzip2q_u16(a, b); }
};

template <>
struct Elements<c10::BFloat16> : Elements16<c10::BFloat16> {
  static Widened widen(Packed bits) {
    const uint16x8_t zero = vdupq_n_u16(0);
    return {{vreinterpretq_f32_u16(vzip1q_u16(zero, bits)),
             vreinterpretq_f32_u16(vzip2q_u16(zero, bits))}};
  }
  /// To nearest even: up if the lower half is above the middle, or in the middle with an odd upper
  /// half. A NaN has a lower half of zeros (UnitRow), so that it stays one.
  static Packed narrow(Widened v) {
    const uint16x8_t v0 = vreinterpretq_u16_f32(v.val[0]);
    const uint16x8_t v1 = vreinterpretq_u16_f32(v.val[1]);
    const uint16x8_t upper = vuzp2q_u16(v0, v1);
    const uint16x8_t odd = vandq_u16(upper, vdupq_n_u16(1));
    const uint16x8_t is_up = vcgtq_u16(vorrq_u16(vuzp1q_u16(v0, v1), odd), vdupq_n_u16(0x8000));
    return vsubq_u16(upper, is_up);  // minus all ones
  }
};

template <>
struct Elements<c10::Half> : Elements16<c10::Half> {
  static Widened widen(Packed bits) {
    const float16x8_t both = vreinterpretq_f16_u16(bits);
    return {{vcvt_f32_f16(vget_low_f16(both)), vcvt_high_f32_f16(both)}};
  }
  static Packed narrow(Widened v) {
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.val[0]), v.val[1]));
  }
};

/// Pairs of one step: x and y fill a register each.
template <typename T>
inline constexpr std::int64_t kPairs = 16 / sizeof(T);

template <class V>
struct PairsOf {
  V x, y;
};

/// (x + i y)(c + i s): a product with c, then one fused multiply-add, as the library computes it.
C10_ALWAYS_INLINE PairsOf<float32x4_t> product(const PairsOf<float32x4_t>& v, const float* c,
                                               const float* s) {
  const float32x4_t cos = vld1q_f32(c);
  const float32x4_t sin = vld1q_f32(s);
  return {vfmsq_f32(vmulq_f32(v.x, cos), v.y, sin), vfmaq_f32(vmulq_f32(v.y, cos), v.x, sin)};
}
C10_ALWAYS_INLINE PairsOf<float32x4x2_t> product(const PairsOf<float32x4x2_t>& v, const float* c,
                                                 const float* s) {
  const auto lower = product(PairsOf<float32x4_t>{v.x.val[0], v.y.val[0]}, c, s);
  const auto upper = product(PairsOf<float32x4_t>{v.x.val[1], v.y.val[1]}, c + 4, s + 4);
  return {{{lower.x, upper.x}}, {{lower.y, upper.y}}};
}

/// For inputs (x, y) and their gradients g: adds Im(conj(x) g) to `angle`, Re(conj(x) g) to
/// `length`.
C10_ALWAYS_INLINE void add_gradients(const PairsOf<float32x4_t>& v, const PairsOf<float32x4_t>& g,
                                     float32x4_t& angle, float32x4_t& length) {
  angle = vfmsq_f32(vfmaq_f32(angle, g.y, v.x), g.x, v.y);
  length = vfmaq_f32(vfmaq_f32(length, g.x, v.x), g.y, v.y);
}
C10_ALWAYS_INLINE void add_gradients(const PairsOf<float32x4x2_t>& v,
                                     const PairsOf<float32x4x2_t>& g, float32x4x2_t& angle,
                                     float32x4x2_t& length) {
  for (int k = 0; k < 2; ++k) {
    add_gradients(PairsOf<float32x4_t>{v.x.val[k], v.y.val[k]},
                  PairsOf<float32x4_t>{g.x.val[k], g.y.val[k]}, angle.val[k], length.val[k]);
  }
}

/// Pairs of a head from i on.
template <bool kHalf, typename T, class E = Elements<T>>
C10_ALWAYS_INLINE PairsOf<typename E::Widened> load(const T* in, std::int64_t i,
                                                    std::int64_t pairs) {
  if constexpr (kHalf) {
    return {E::widen(E::load(in + i)), E::widen(E::load(in + i + pairs))};
  } else {
    const auto v0 = E::load(in + 2 * i);
    const auto v1 = E::load(in + 2 * i + kPairs<T>);
    return {E::widen(E::unzip_even(v0, v1)), E::widen(E::unzip_odd(v0, v1))};
  }
}

/// Multiplies kSteps times kPairs<T> pairs from `first` on: all x are written before all y.
template <bool kReadHalf, bool kWriteHalf, int kSteps, typename T, class E = Elements<T>>
C10_ALWAYS_INLINE void multiply_pairs(const T* in, T* out, const float* c, const float* s,
                                      std::int64_t first, std::int64_t pairs) {
  PairsOf<typename E::Packed> results[kSteps];
  for (int k = 0; k < kSteps; ++k) {
    const std::int64_t i = first + k * kPairs<T>;
    const auto v = product(load<kReadHalf>(in, i, pairs), c + i, s + i);
    results[k] = {E::narrow(v.x), E::narrow(v.y)};
  }
  if constexpr (kWriteHalf) {
    for (int k = 0; k < kSteps; ++k) E::store(results[k].x, out + first + k * kPairs<T>);
    for (int k = 0; k < kSteps; ++k) E::store(results[k].y, out + pairs + first + k * kPairs<T>);
  } else {
    for (int k = 0; k < kSteps; ++k) {
      T* const to = out + 2 * (first + k * kPairs<T>);
      E::store(E::zip_lower(results[k].x, results[k].y), to);
      E::store(E::zip_upper(results[k].x, results[k].y), to + kPairs<T>);
    }
  }
}

/// sums[i] += factor * values[i] for the values of a register or two.
C10_ALWAYS_INLINE void add_product(float32x4_t values, float64x2_t factor, double* sums) {
  vst1q_f64(sums, vfmaq_f64(vld1q_f64(sums), vcvt_f64_f32(vget_low_f32(values)), factor));
  vst1q_f64(sums + 2, vfmaq_f64(vld1q_f64(sums + 2), vcvt_high_f64_f32(values), factor));
}
C10_ALWAYS_INLINE void add_product(const float32x4x2_t& values, float64x2_t factor, double* sums) {
  add_product(values.val[0], factor, sums);
  add_product(values.val[1], factor, sums + 4);
}

/// Heads of one token that share a factor: inputs, and the gradients of their rotation.
template <typename T>
struct HeadGroup {
  const T* in;
  std::int64_t in_stride;
  const T* grad;
  std::int64_t grad_stride;
  std::int64_t heads;
};

/// Sums of the gradients of angles, [axes, pairs], times the token's position on each axis.
struct AngleSums {
  const double* position;
  std::int64_t axis_stride;
  std::int64_t axes;
  double* sums;
};

/// Adds the gradients of a group to `angles`, and to `length`, [pairs]. Returns the first pair that
/// is left.
template <bool kReadHalf, bool kWriteHalf, typename T, class E = Elements<T>>
C10_ALWAYS_INLINE std::int64_t add_group_gradients(const HeadGroup<T>& group, const float* c,
                                                   const float* s, std::int64_t pairs,
                                                   const AngleSums& angles, float* length) {
  std::int64_t i = 0;
  for (; i + kPairs<T> <= pairs; i += kPairs<T>) {
    typename E::Widened angle{};
    typename E::Widened total = E::load_floats(length + i);
    for (std::int64_t h = 0; h < group.heads; ++h) {
      const auto v = load<kReadHalf>(group.in + h * group.in_stride, i, pairs);
      const auto u = load<kWriteHalf>(group.grad + h * group.grad_stride, i, pairs);
      add_gradients(v, product(u, c + i, s + i), angle, total);
    }
    E::store_floats(total, length + i);
    for (std::int64_t a = 0; a < angles.axes; ++a) {
      add_product(angle, vdupq_n_f64(angles.position[a * angles.axis_stride]),
                  angles.sums + a * pairs + i);
    }
  }
  return i;
}

/// Entries of a table that stay in registers.
inline constexpr std::int64_t kTableEntries = 8;

/// kTableEntries of `tokens` rows of cos and sin: each is the row before times the step, in double.
/// `now` is the row before the first, and becomes the last. Rows have `entries`.
inline void advance_entries(double* now_cos, double* now_sin, const double* step_cos,
                            const double* step_sin, std::int64_t entries, std::int64_t tokens,
                            float* cos, float* sin) {
  constexpr int kRegisters = kTableEntries / 2;
  PairsOf<float64x2_t> now[kRegisters];
  PairsOf<float64x2_t> step[kRegisters];
  for (int k = 0; k < kRegisters; ++k) {
    now[k] = {vld1q_f64(now_cos + 2 * k), vld1q_f64(now_sin + 2 * k)};
    step[k] = {vld1q_f64(step_cos + 2 * k), vld1q_f64(step_sin + 2 * k)};
  }
  for (; tokens > 0; --tokens, cos += entries, sin += entries) {
    for (int k = 0; k < kRegisters; ++k) {
      const auto [x, y] = now[k];
      now[k] = {vfmsq_f64(vmulq_f64(x, step[k].x), y, step[k].y),
                vfmaq_f64(vmulq_f64(y, step[k].x), x, step[k].y)};
    }
    for (int k = 0; k < kRegisters; k += 2) {
      vst1q_f32(cos + 2 * k, vcvt_high_f32_f64(vcvt_f32_f64(now[k].x), now[k + 1].x));
      vst1q_f32(sin + 2 * k, vcvt_high_f32_f64(vcvt_f32_f64(now[k].y), now[k + 1].y));
    }
  }
  for (int k = 0; k < kRegisters; ++k) {
    vst1q_f64(now_cos + 2 * k, now[k].x);
    vst1q_f64(now_sin + 2 * k, now[k].y);
  }
}

}  // namespace rotary::torch::neon

#endif
