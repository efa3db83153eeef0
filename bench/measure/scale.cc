// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A plain loop that the compiler turns into vectors (CMakeLists.txt sees to the flags), once for
// each width of x86-64; elsewhere (NEON) the one of the build is the one of the machine.
#include "bench/measure/scale.h"

namespace rotary::measure {
namespace {

template <typename T>
[[gnu::always_inline]] inline void loop(const T* in, T* out, std::size_t count, T factor) noexcept {
  // Two loops, so that the compiler need not ask which it is.
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
void choose(const T* in, T* out, std::size_t count, T factor) noexcept {
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
void choose(const T* in, T* out, std::size_t count, T factor) noexcept {
  loop(in, out, count, factor);
}

#endif

}  // namespace

void scale(const float* in, float* out, std::size_t count, float factor) noexcept {
  choose(in, out, count, factor);
}

void scale(const double* in, double* out, std::size_t count, double factor) noexcept {
  choose(in, out, count, factor);
}

}  // namespace rotary::measure
