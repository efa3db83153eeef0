// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Heads into a store and out of it: copied, or quantised by given or computed scales.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/store_heads.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/elements-inl.h"
#include "cpu/quantize-inl.h"
#include "cpu/store_block.h"
#include "cpu/store_heads.h"
#include "support/float8.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The smallest computed scale that divides. Its reciprocal is the largest that multiplies.
inline constexpr float kMinScale = power_of_two(-126);

/// What is done to an element before it is rounded.
struct Scaling {
  float scale = 1.0f;
  bool divides = false;
};

/// The product with the reciprocal of a power of two is the quotient, in a fraction of the time.
inline Scaling given_scaling(const HeadStore& store, std::int64_t head) {
  if (store.scale == nullptr) return {};
  const float scale = store.scale[head * store.scale_stride];
  if (store.use == ScaleUse::kMultiply) return {scale, false};
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::uint32_t exponent = bits >> 23;
  const bool is_exact = (bits & 0x7fffffu) == 0 && exponent >= 1 && exponent <= 253;
  return is_exact ? Scaling{1.0f / scale, false} : Scaling{scale, true};
}

template <class Q>
Scaling computed_scaling(ScaleUse use, float max) {
  if (use == ScaleUse::kMultiply) return {std::min(Q::kMax / max, 1.0f / kMinScale), false};
  return {std::max(max / Q::kMax, kMinScale), true};
}

template <class E, class D>
HWY_INLINE hn::Vec<D> magnitude(D d, const typename E::Storage* from) {
  const auto x = hn::Abs(E::load(d, from));
  return hn::IfThenElseZero(hn::Eq(x, x), x);
}

/// The largest magnitude of n elements, NaN aside; at most the largest float.
template <class E>
HWY_INLINE float max_magnitude(const typename E::Storage* from, std::int64_t step, std::int64_t n) {
  std::int64_t i = 0;
  float max = 0.0f;
  if (step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto all = hn::Zero(d);
    for (; i + lanes <= n; i += lanes) all = hn::Max(all, magnitude<E>(d, from + i));
    alignas(64) float each[kMaxLanes<decltype(d)>];
    hn::StoreU(all, d, each);
    for (std::int64_t k = 0; k < lanes; ++k) max = std::max(max, each[k]);
  }
  const OneTag<float> one;
  for (; i < n; ++i) max = std::max(max, hn::GetLane(magnitude<E>(one, from + i * step)));
  return std::min(max, std::numeric_limits<float>::max());
}

/// A function, not a lambda: those GCC does not inline by force.
template <class E, class Q, bool kDivides, class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> code_of(D d, const typename E::Storage* from,
                                                    hn::Vec<D> scale) {
  const auto x = E::load(d, from);
  return Q::encode(d, kDivides ? hn::Div(x, scale) : hn::Mul(x, scale));
}

template <class E, class Q, bool kDivides>
HWY_INLINE void quantize_elements(const typename E::Storage* from, std::int64_t step,
                                  std::int64_t n, float scale, std::uint8_t* to) {
  std::int64_t i = 0;
  if (step == 1) {
    const FullTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto s = hn::Set(d, scale);
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      const auto c0 = code_of<E, Q, kDivides>(d, from + i, s);
      const auto c1 = code_of<E, Q, kDivides>(d, from + i + lanes, s);
      const auto c2 = code_of<E, Q, kDivides>(d, from + i + 2 * lanes, s);
      const auto c3 = code_of<E, Q, kDivides>(d, from + i + 3 * lanes, s);
      store_codes(d, c0, c1, c2, c3, to + i);
    }
  }
  const OneTag<float> one;
  const auto s = hn::Set(one, scale);
  for (; i < n; ++i) {
    to[i] =
        static_cast<std::uint8_t>(hn::GetLane(code_of<E, Q, kDivides>(one, from + i * step, s)));
  }
}

template <class E, class Q>
HWY_INLINE void quantize_scaled(const typename E::Storage* from, std::int64_t step, std::int64_t n,
                                const Scaling& scaling, std::uint8_t* to) {
  scaling.divides ? quantize_elements<E, Q, true>(from, step, n, scaling.scale, to)
                  : quantize_elements<E, Q, false>(from, step, n, scaling.scale, to);
}

template <class E, class Q>
HWY_INLINE void quantize_head(const HeadStore& store, const typename E::Storage* from,
                              std::int64_t step, std::int64_t head, std::uint8_t* to,
                              float* computed) {
  if (computed == nullptr) {
    return quantize_scaled<E, Q>(from, step, store.head_dim, given_scaling(store, head), to);
  }
  const std::int64_t n = store.head_dim / store.groups;
  for (std::int64_t g = 0; g < store.groups; ++g) {
    const auto* const group = from + g * n * step;
    const Scaling scaling = computed_scaling<Q>(store.use, max_magnitude<E>(group, step, n));
    computed[g * store.computed_group_stride] = scaling.scale;
    quantize_scaled<E, Q>(group, step, n, scaling, to + g * n);
  }
}

template <class E, class Q>
void quantize_tokens(const StoreBlock& block) {
  const HeadStore& store = block.store;
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    const std::int64_t slot = block.slot(t);
    if (slot < 0) continue;
    const auto* const from =
        static_cast<const typename E::Storage*>(block.heads) + t * block.token_stride;
    const StoredToken at(store, slot);
    for (std::int64_t h = 0; h < store.heads; ++h) {
      quantize_head<E, Q>(
          store, from + h * block.head_stride, block.step, h,
          static_cast<std::uint8_t*>(store.data) + at.offset + h * store.head_stride,
          at.computed(store, h));
    }
  }
}

template <class E>
void quantize_tokens_from(const StoreBlock& block) {
  switch (block.store.dtype) {
    case DType::kFloat8E4M3:
      return quantize_tokens<E, E4M3Code>(block);
    case DType::kFloat8E5M2:
      return quantize_tokens<E, E5M2Code>(block);
    default:
      return quantize_tokens<E, Int8Code>(block);
  }
}

void quantize_block(const StoreBlock& block) {
  switch (block.type) {
    case DType::kBFloat16:
      return quantize_tokens_from<BFloat16>(block);
    case DType::kFloat16:
      return quantize_tokens_from<Float16>(block);
    default:
      return quantize_tokens_from<Float32>(block);
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(quantize_block);

constexpr std::array<float, 256> kE4M3Values = float8_values(kE4M3);
constexpr std::array<float, 256> kE5M2Values = float8_values(kE5M2);

float decoded(DType dtype, std::uint8_t bits) noexcept {
  if (dtype == DType::kFloat8E4M3) return kE4M3Values[bits];
  if (dtype == DType::kFloat8E5M2) return kE5M2Values[bits];
  return static_cast<float>(static_cast<std::int8_t>(bits));
}

void dequantize_head(const HeadStore& store, const std::uint8_t* from, std::int64_t head,
                     const float* computed, float* to) {
  const std::int64_t n = store.head_dim / store.groups;
  for (std::int64_t g = 0; g < store.groups; ++g) {
    float scale = 1.0f;
    if (computed != nullptr) {
      scale = computed[g * store.computed_group_stride];
    } else if (store.scale != nullptr) {
      scale = store.scale[head * store.scale_stride];
    }
    for (std::int64_t i = g * n; i < (g + 1) * n; ++i) {
      const float x = decoded(store.dtype, from[i]);
      to[i] = store.use == ScaleUse::kDivide ? x * scale : x / scale;
    }
  }
}

/// Copies heads between memory with elements `step` apart and a store; `to_store` or back.
template <bool kToStore>
void copy_block(const StoreBlock& block) {
  const HeadStore& store = block.store;
  const auto size = static_cast<std::int64_t>(size_of(store.dtype));
  const bool is_whole =
      block.step == 1 && block.head_stride == store.head_dim && store.head_stride == store.head_dim;
  const std::int64_t runs = is_whole ? 1 : store.heads;
  const std::int64_t run = is_whole ? store.heads * store.head_dim : store.head_dim;
  const auto copy = [](char* heads, char* stored, std::int64_t bytes) {
    kToStore ? std::memcpy(stored, heads, static_cast<std::size_t>(bytes))
             : std::memcpy(heads, stored, static_cast<std::size_t>(bytes));
  };
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    const std::int64_t slot = block.slot(t);
    if (slot < 0) continue;
    const StoredToken at(store, slot);
    for (std::int64_t h = 0; h < runs; ++h) {
      char* const heads =
          static_cast<char*>(block.heads) + (t * block.token_stride + h * block.head_stride) * size;
      char* const stored =
          static_cast<char*>(store.data) + (at.offset + h * store.head_stride) * size;
      if (block.step == 1) {
        copy(heads, stored, run * size);
        continue;
      }
      for (std::int64_t i = 0; i < run; ++i) {
        copy(heads + i * block.step * size, stored + i * size, size);
      }
    }
  }
}

/// Tokens without a slot become zeros: they are rotated like the others.
void clear_missing(const StoreBlock& block) {
  const auto size = static_cast<std::int64_t>(size_of(block.type));
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    if (block.slot(t) >= 0) continue;
    char* const heads = static_cast<char*>(block.heads) + t * block.token_stride * size;
    std::memset(heads, 0,
                static_cast<std::size_t>(block.store.heads * block.store.head_dim * size));
  }
}

}  // namespace

void store_tokens(const StoreBlock& block) {
  block.store.is_quantized() ? HWY_DYNAMIC_DISPATCH(quantize_block)(block)
                             : copy_block<true>(block);
}

void load_tokens(const StoreBlock& block) {
  clear_missing(block);
  const HeadStore& store = block.store;
  if (!store.is_quantized()) return copy_block<false>(block);
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    const std::int64_t slot = block.slot(t);
    if (slot < 0) continue;
    const StoredToken at(store, slot);
    for (std::int64_t h = 0; h < store.heads; ++h) {
      dequantize_head(
          store, static_cast<const std::uint8_t*>(store.data) + at.offset + h * store.head_stride,
          h, at.computed(store, h),
          static_cast<float*>(block.heads) + t * block.token_stride + h * block.head_stride);
    }
  }
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
