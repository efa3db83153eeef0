// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Eight elements at once: what a thread reads, computes with and writes in one step.
#pragma once

#include <cuda_runtime.h>

#include "layers/layers_cuda.h"
#include "linear_attention/numbers.cuh"

namespace rotary::torch::cuda {

constexpr int kThreads = kTileColumns / kDrawn;
constexpr int kWarps = kThreads / kWarp;

struct Eight {
  float at[kDrawn];
};

/// As they lie in memory, in parts of 16 bytes.
template <typename T>
struct Raw {
  static constexpr int kEach = 16 / sizeof(T);
  static constexpr int kParts = kDrawn / kEach;
  Pack<T, kEach> part[kParts];
};

template <typename T>
__device__ Raw<T> load_raw(const T* from) {
  Raw<T> x;
#pragma unroll
  for (int p = 0; p < Raw<T>::kParts; ++p) {
    x.part[p] = load_pack<Raw<T>::kEach>(from + p * Raw<T>::kEach);
  }
  return x;
}

template <typename T>
__device__ Eight widen_all(const Raw<T>& raw) {
  Eight x;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    x.at[i] = widen(raw.part[i / Raw<T>::kEach].at[i % Raw<T>::kEach]);
  }
  return x;
}

/// A bfloat16 is the upper half of a float: one instruction each, of the word that has two.
template <>
__device__ inline Eight widen_all(const Raw<__nv_bfloat16>& raw) {
  static_assert(Raw<__nv_bfloat16>::kParts == 1);
  const auto& words = reinterpret_cast<const Pack<unsigned, kDrawn / 2>&>(raw.part[0]);
  Eight x;
#pragma unroll
  for (int i = 0; i < kDrawn; i += 2) {
    x.at[i] = __uint_as_float(words.at[i / 2] << 16);
    x.at[i + 1] = __uint_as_float(words.at[i / 2] & 0xffff0000U);
  }
  return x;
}

template <typename T>
__device__ Eight load_eight(const T* from) {
  return widen_all(load_raw(from));
}

template <typename T>
__device__ void store_eight(T* to, const Eight& x) {
  constexpr int kEach = 16 / sizeof(T);
#pragma unroll
  for (int part = 0; part < kDrawn / kEach; ++part) {
    Pack<T, kEach> pack;
#pragma unroll
    for (int i = 0; i < kEach; ++i) store(&pack.at[i], x.at[part * kEach + i]);
    store_pack(to + part * kEach, pack);
  }
}

__device__ inline Eight zeros() { return Eight{}; }

/// Calls work(0 of the type); what cudaGetLastError() says.
template <typename Work>
int by_type(LayerType type, const Work& work) {
  switch (type) {
    case LayerType::kFloat:
      work(float{});
      break;
    case LayerType::kBFloat16:
      work(__nv_bfloat16{});
      break;
    case LayerType::kFloat16:
      work(__half{});
      break;
  }
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::torch::cuda
