// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What kv_cache.h stores, element by element: the definition in plain code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reference/float8.h"
#include "rotary/kv_cache.h"
#include "rotary/tensor.h"

namespace rotary::reference {

inline std::int8_t to_int8(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0f, 127.0f));
}

/// The bits of a scaled element.
inline std::uint8_t quantized(DType stored, float value) {
  return stored == DType::kInt8 ? static_cast<std::uint8_t>(to_int8(value))
                                : to_float8(stored, value);
}

inline double dequantized(DType stored, std::uint8_t bits) {
  return stored == DType::kInt8 ? static_cast<std::int8_t>(bits) : from_float8(stored, bits);
}

inline float max_of(DType stored) {
  return stored == DType::kInt8 ? 127.0f : stored == DType::kFloat8E4M3 ? 448.0f : 57344.0f;
}

inline float computed_scale(DType stored, ScaleUse use, std::span<const float> values) {
  float max = 0.0f;
  for (const float x : values) {
    if (!std::isnan(x)) max = std::fmax(max, std::fabs(x));
  }
  max = std::fmin(max, std::numeric_limits<float>::max());
  return use == ScaleUse::kDivide ? std::fmax(max / max_of(stored), 0x1p-126f)
                                  : std::fmin(max_of(stored) / max, 0x1p126f);
}

inline float scaled(ScaleUse use, float value, float scale) {
  return use == ScaleUse::kDivide ? value / scale : value * scale;
}

}  // namespace rotary::reference
