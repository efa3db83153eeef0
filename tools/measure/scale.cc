// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A loop that the compiler vectorises (flags in CMakeLists.txt), once per vector width of x86-64.
// Other architectures (NEON) have one width.
#include "tools/measure/scale.h"

namespace rotary::measure {
namespace {

template <typename T>
[[gnu::always_inline]] inline void loop(const T* in, T* out, std::size_t count, T factor) noexcept {
  // Separate loops, so that neither needs an aliasing check.
  if (in == out) {
    for (std::size_t i = 0; i < count; ++i) out[i] *= factor;
    return;
  }
  const T* __restrict from = in;
  T* __restrict to = out;
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

#ifdef __x86_64__

template <typename T>
[[gnu::target("avx512f")]] void scale_avx512(const T* in, T* out, std::size_t count,
                                             T factor) noexcept {
  loop(in, out, count, factor);
}

template <typename T>
[[gnu::target("avx2")]] void scale_avx2(const T* in, T* out, std::size_t count, T factor) noexcept {
  loop(in, out, count, factor);
}

template <typename T>
void dispatch(const T* in, T* out, std::size_t count, T factor) noexcept {
  if (__builtin_cpu_supports("avx512f") != 0) {
    scale_avx512(in, out, count, factor);
  } else if (__builtin_cpu_supports("avx2") != 0) {
    scale_avx2(in, out, count, factor);
  } else {
    loop(in, out, count, factor);
  }
}

#else

template <typename T>
void dispatch(const T* in, T* out, std::size_t count, T factor) noexcept {
  loop(in, out, count, factor);
}

#endif

}  // namespace

void scale(const float* in, float* out, std::size_t count, float factor) noexcept {
  dispatch(in, out, count, factor);
}

void scale(const double* in, double* out, std::size_t count, double factor) noexcept {
  dispatch(in, out, count, factor);
}

}  // namespace rotary::measure
