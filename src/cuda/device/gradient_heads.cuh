// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of phase and log-magnitude of a thread's pairs, summed over the heads of a token in the
// order and arithmetic of the CPU engine (cpu/gradient.cc): bit-identical sums.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/gradient.h"

namespace rotary::internal::cuda {

/// Sums over heads of d loss / d phase and d loss / d log |z|, where z is the complex number that
/// multiplies a pair.
template <typename T, int kPairs>
struct HeadGradients {
  T phase[kPairs];
  T log_magnitude[kPairs];
};

template <typename T, int kPairs>
struct PairCosSin {
  T c[kPairs];
  T s[kPairs];
};

/// This thread's pairs of one head, of the input or of the output gradient, in registers.
template <class E, int kPairs>
struct HeadPairs {
  using T = typename E::Compute;
  static constexpr int kPacks = kPairs / E::kPerPack;  // per half of the thread's elements
  Packed<16> packs[2][kPacks];

  __device__ __forceinline__ void load(const char* head, std::int64_t /*element_stride*/, bool half,
                                       std::int32_t pair, std::int32_t pairs) {
    constexpr std::int32_t kSize = sizeof(typename E::Storage);
    const char* const first = head + (half ? pair : 2 * pair) * kSize;
    const char* const second = first + (half ? pairs : kPairs) * kSize;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      packs[0][k] = load_packed(first + 16 * k);
      packs[1][k] = load_packed(second + 16 * k);
    }
  }
  __device__ __forceinline__ void read(bool half, T (&x)[kPairs], T (&y)[kPairs]) const {
    T v[2 * kPairs];
#pragma unroll
    for (int k = 0; k < 2 * kPacks; ++k) {
      T elements[E::kPerPack];
      E::unpack(packs[k / kPacks][k % kPacks], elements);
#pragma unroll
      for (int i = 0; i < E::kPerPack; ++i) v[k * E::kPerPack + i] = elements[i];
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      x[i] = half ? v[i] : v[2 * i];
      y[i] = half ? v[kPairs + i] : v[2 * i + 1];
    }
  }
};

/// One pair, accessed element by element.
template <class E>
struct HeadPairs<E, 1> {
  using T = typename E::Compute;
  typename E::Storage first, second;

  __device__ __forceinline__ void load(const char* head, std::int64_t element_stride, bool half,
                                       std::int32_t pair, std::int32_t pairs) {
    const std::int64_t at = (half ? pair : 2 * pair) * element_stride;
    const std::int64_t other = at + (half ? pairs : 1) * element_stride;
    first = *reinterpret_cast<const typename E::Storage*>(head + at);
    second = *reinterpret_cast<const typename E::Storage*>(head + other);
  }
  __device__ __forceinline__ void read(bool /*half*/, T (&x)[1], T (&y)[1]) const {
    x[0] = E::load(first);
    y[0] = E::load(second);
  }
};

template <class E, int kPairs>
__device__ __forceinline__ void add_head(const HeadPairs<E, kPairs>& in,
                                         const HeadPairs<E, kPairs>& grad, bool reads_half,
                                         bool writes_half,
                                         const PairCosSin<typename E::Compute, kPairs>& z,
                                         HeadGradients<typename E::Compute, kPairs>& sums) {
  using T = typename E::Compute;
  T x[kPairs], y[kPairs], gx[kPairs], gy[kPairs];
  in.read(reads_half, x, y);
  grad.read(writes_half, gx, gy);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const T first = fma_rn(-y[i], z.s[i], mul_rn(x[i], z.c[i]));
    const T second = fma_rn(x[i], z.s[i], mul_rn(y[i], z.c[i]));
    sums.phase[i] += fma_rn(-second, gx[i], mul_rn(first, gy[i]));
    sums.log_magnitude[i] += fma_rn(first, gx[i], mul_rn(second, gy[i]));
  }
}

/// Sums over the heads of one token of `tensor`. Software-pipelined: the loads of the next head are
/// issued before this one is added. `kHalf`: pairing of input and gradient when vectorised; single
/// pairs (kPairs 1) take it from the parameters.
template <class E, int kPairs, bool kHalf>
__device__ __forceinline__ void add_heads(const GradientKernelParams& p,
                                          const GradientTensor& tensor, std::int64_t batch,
                                          std::int64_t token, std::int32_t pair,
                                          const PairCosSin<typename E::Compute, kPairs>& z,
                                          HeadGradients<typename E::Compute, kPairs>& sums) {
  const auto begin = [&](const void* data, const std::int64_t(&strides)[4]) {
    return static_cast<const char*>(data) + batch * strides[0] + token * strides[1] +
           p.rotary_offset * strides[3];
  };
  const char* in = begin(tensor.in, tensor.in_strides);
  const char* grad = begin(tensor.grad, tensor.grad_strides);
  const bool reads_half = kPairs > 1 ? kHalf : p.read == Pairing::kHalf;
  const bool writes_half = kPairs > 1 ? kHalf : p.write == Pairing::kHalf;
  HeadPairs<E, kPairs> x, g;
  const auto load = [&](HeadPairs<E, kPairs>& next_x, HeadPairs<E, kPairs>& next_g) {
    next_x.load(in, tensor.in_strides[3], reads_half, pair, p.pairs);
    next_g.load(grad, tensor.grad_strides[3], writes_half, pair, p.pairs);
  };
  if (tensor.heads > 0) load(x, g);
  for (std::int32_t h = 0; h < tensor.heads; ++h) {
    HeadPairs<E, kPairs> next_x = x, next_g = g;
    in += tensor.in_strides[2];
    grad += tensor.grad_strides[2];
    if (h + 1 < tensor.heads) load(next_x, next_g);
    add_head<E, kPairs>(x, g, reads_half, writes_half, z, sums);
    x = next_x;
    g = next_g;
  }
}

/// Sums for kPairs pairs of one row, from the launch's pair `first` on, over all tensors.
template <typename T, int kPairs, bool kHalf, class Position>
__device__ __forceinline__ HeadGradients<T, kPairs> sum_heads(const GradientKernelParams& p,
                                                              const Position& position,
                                                              std::int64_t batch,
                                                              std::int64_t token,
                                                              std::int32_t first) {
  PairCosSin<T, kPairs> z;
  HeadGradients<T, kPairs> sums;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const CosSin<T> one = cos_sin_at<T>(p, position, first + i);
    z.c[i] = one.cos;
    z.s[i] = one.sin;
    sums.phase[i] = sums.log_magnitude[i] = T{0};
  }
  const std::int32_t pair = p.first_pair + first;
  for (std::int32_t k = 0; k < p.num_tensors; ++k) {
    const GradientTensor& tensor = p.tensors[k];
    if constexpr (sizeof(T) == sizeof(double)) {
      add_heads<Float64, kPairs, kHalf>(p, tensor, batch, token, pair, z, sums);
    } else if (tensor.type == DType::kBFloat16) {
      add_heads<BFloat16, kPairs, kHalf>(p, tensor, batch, token, pair, z, sums);
    } else if (tensor.type == DType::kFloat16) {
      add_heads<Float16, kPairs, kHalf>(p, tensor, batch, token, pair, z, sums);
    } else {
      add_heads<Float32, kPairs, kHalf>(p, tensor, batch, token, pair, z, sums);
    }
  }
  return sums;
}

}  // namespace rotary::internal::cuda
