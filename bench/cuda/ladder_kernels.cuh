// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The kernel versions before the one in src/cuda, each a step up the ladder: contiguous q and k,
// one axis, full rotary_dim. They share its device functions, so that all versions give the same
// bits.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"

namespace ladder_kernels {

using namespace rotary::internal::cuda;  // NOLINT: a program's own kernels
using rotary::internal::CosSin;

enum class Layout { kHalf, kInterleaved };

/// Rows are the tokens of all batch rows, end to end; blockIdx.x is the token, blockIdx.y the batch
/// row.
struct LadderParams {
  const void* in[2];  // [rows, heads[o], 2 * pairs]
  void* out[2];       // [rows, heads[o], 2 * pairs]
  int heads[2];
  int pairs;
  std::int64_t tokens;  // per batch row
  std::int64_t rows;
  const std::int64_t* ids;  // [rows], or null: token + start
  std::int64_t start;
  float sign;                   // of sin: -1 for the adjoint
  std::uint64_t fractions[64];  // [pairs]
};

__device__ __forceinline__ std::int64_t position_of(const LadderParams& p, std::int64_t row,
                                                    std::int64_t token) {
  return p.ids != nullptr ? p.ids[row] : p.start + token;
}

__device__ __forceinline__ float2 cos_sin_of(const LadderParams& p, std::int64_t position,
                                             int pair) {
  const CosSin<float> z = cos_sin_on_device<float>(static_cast<std::uint64_t>(position) *
                                                   as_generic_memory(p.fractions)[pair]);
  return {z.cos, z.sin * p.sign};
}

template <class E>
__device__ __forceinline__ typename E::Storage* head_of(void* const (&base)[2],
                                                        const LadderParams& p, std::int64_t row,
                                                        int h) {
  const int o = h >= p.heads[0] ? 1 : 0;
  const int at = o ? h - p.heads[0] : h;
  return static_cast<typename E::Storage*>(base[o]) + (row * p.heads[o] + at) * (2 * p.pairs);
}
template <class E>
__device__ __forceinline__ const typename E::Storage* head_of(const void* const (&base)[2],
                                                              const LadderParams& p,
                                                              std::int64_t row, int h) {
  const int o = h >= p.heads[0] ? 1 : 0;
  const int at = o ? h - p.heads[0] : h;
  return static_cast<const typename E::Storage*>(base[o]) + (row * p.heads[o] + at) * (2 * p.pairs);
}

// ---- 1: one thread per pair, which computes its own angle -------------------------------------
template <class E, Layout kLayout>
__global__ void naive(const __grid_constant__ LadderParams p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int heads = p.heads[0] + p.heads[1];
  const int pair = static_cast<int>(i % p.pairs);
  const int h = static_cast<int>(i / p.pairs % heads);
  const std::int64_t row = i / p.pairs / heads;
  if (row >= p.rows) return;
  const float2 z = cos_sin_of(p, position_of(p, row, row % p.tokens), pair);
  const int first = kLayout == Layout::kHalf ? pair : 2 * pair;
  const int second = kLayout == Layout::kHalf ? pair + p.pairs : 2 * pair + 1;
  const auto* in = head_of<E>(p.in, p, row, h);
  auto* out = head_of<E>(p.out, p, row, h);
  const float x = E::load(in[first]);
  const float y = E::load(in[second]);
  out[first] = E::store(fma_rn(-y, z.y, mul_rn(x, z.x)));
  out[second] = E::store(fma_rn(x, z.y, mul_rn(y, z.x)));
}

// ---- 2: one block per token; its rotation row is computed once, in shared memory --------------
__device__ __forceinline__ void fill_row(const LadderParams& p, std::int64_t row,
                                         std::int64_t token, int thread, int threads, float* c,
                                         float* s) {
  const std::int64_t position = position_of(p, row, token);
  for (int pair = thread; pair < p.pairs; pair += threads) {
    const float2 z = cos_sin_of(p, position, pair);
    c[pair] = z.x;
    s[pair] = z.y;
  }
}

template <class E, Layout kLayout>
__global__ void shared_angles(const __grid_constant__ LadderParams p) {
  __shared__ float c[64];
  __shared__ float s[64];
  const std::int64_t row = blockIdx.y * p.tokens + blockIdx.x;
  fill_row(p, row, blockIdx.x, threadIdx.x, blockDim.x, c, s);
  __syncthreads();
  const int heads = p.heads[0] + p.heads[1];
  for (int i = threadIdx.x; i < heads * p.pairs; i += blockDim.x) {
    const int pair = i % p.pairs;
    const int first = kLayout == Layout::kHalf ? pair : 2 * pair;
    const int second = kLayout == Layout::kHalf ? pair + p.pairs : 2 * pair + 1;
    const auto* in = head_of<E>(p.in, p, row, i / p.pairs);
    auto* out = head_of<E>(p.out, p, row, i / p.pairs);
    const float x = E::load(in[first]);
    const float y = E::load(in[second]);
    out[first] = E::store(fma_rn(-y, s[pair], mul_rn(x, c[pair])));
    out[second] = E::store(fma_rn(x, s[pair], mul_rn(y, c[pair])));
  }
}

// ---- 16-byte accesses, without or with a streaming (evict-first) cache hint -------------------
enum class CacheHint { kNone, kStream };

template <CacheHint kHint>
__device__ __forceinline__ Packed<16> load_hinted(const void* from) {
  if constexpr (kHint == CacheHint::kNone) return load_packed(from);
  Packed<16> v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(from)
               : "memory");
  return v;
}

template <CacheHint kHint>
__device__ __forceinline__ void store_hinted(void* to, const Packed<16>& v) {
  if constexpr (kHint == CacheHint::kNone) return store_packed(to, v);
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.words[0]),
               "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}

// ---- Fragments: how a thread's packs are rotated ----------------------------------------------
/// Interleaved pairs (2i, 2i + 1): one pack holds whole pairs.
template <class E>
struct InterleavedFragment {
  static constexpr int kPacks = 1;
  static constexpr int kPairs = E::kPerPack / 2;
  static __device__ int row_offset(int x, int /*pairs*/) { return x * kPairs; }
  static __device__ int at(int x, int /*k*/, int /*pairs*/) { return x * E::kPerPack; }
  static __device__ __forceinline__ void rotate(Packed<16> (&v)[1], const float* c, const float* s,
                                                int, int) {
    float e[E::kPerPack];
    E::unpack(v[0], e);
    for (int i = 0; i < kPairs; ++i) {
      const float x = e[2 * i];
      const float y = e[2 * i + 1];
      e[2 * i] = fma_rn(-y, s[i], mul_rn(x, c[i]));
      e[2 * i + 1] = fma_rn(x, s[i], mul_rn(y, c[i]));
    }
    v[0] = E::pack(e);
  }
};

/// Pairs (i, i + pairs): one pack of each half per thread.
template <class E>
struct TwoPackFragment {
  static constexpr int kPacks = 2;
  static constexpr int kPairs = E::kPerPack;
  static __device__ int row_offset(int x, int /*pairs*/) { return x * kPairs; }
  static __device__ int at(int x, int k, int pairs) { return x * E::kPerPack + k * pairs; }
  static __device__ __forceinline__ void rotate(Packed<16> (&v)[2], const float* c, const float* s,
                                                int, int) {
    float x[E::kPerPack];
    float y[E::kPerPack];
    E::unpack(v[0], x);
    E::unpack(v[1], y);
    for (int i = 0; i < kPairs; ++i) {
      const float first = fma_rn(-y[i], s[i], mul_rn(x[i], c[i]));
      y[i] = fma_rn(x[i], s[i], mul_rn(y[i], c[i]));
      x[i] = first;
    }
    v[0] = E::pack(x);
    v[1] = E::pack(y);
  }
};

/// Pairs (i, i + pairs): one pack per thread, the other half comes by warp shuffle, so that
/// accesses of a warp are fully coalesced. Packs per half: a power of two, at most 16.
template <class E>
struct ShuffleFragment {
  static constexpr int kPacks = 1;
  static constexpr int kPairs = E::kPerPack;
  static __device__ int row_offset(int x, int pairs) { return x * E::kPerPack % pairs; }
  static __device__ int at(int x, int /*k*/, int /*pairs*/) { return x * E::kPerPack; }
  static __device__ __forceinline__ void rotate(Packed<16> (&v)[1], const float* c, const float* s,
                                                int x, int pairs) {
    const int lane_mask = pairs / E::kPerPack;
    Packed<16> other;
    for (int i = 0; i < 4; ++i) {
      other.words[i] = __shfl_xor_sync(0xffffffffu, v[0].words[i], lane_mask);
    }
    float mine[E::kPerPack];
    float theirs[E::kPerPack];
    E::unpack(v[0], mine);
    E::unpack(other, theirs);
    const std::uint32_t sign = x < lane_mask ? 1u : 0u;
    for (int i = 0; i < kPairs; ++i) {
      mine[i] = fma_rn(theirs[i], flip_sign(s[i], sign), mul_rn(mine[i], c[i]));
    }
    v[0] = E::pack(mine);
  }
};

// ---- 3: vectorised, 256 threads per token, angles before loads --------------------------------
template <class E, class Fragment>
__global__ void vectorized(const __grid_constant__ LadderParams p) {
  __shared__ alignas(16) float c[64];
  __shared__ alignas(16) float s[64];
  const std::int64_t row = blockIdx.y * p.tokens + blockIdx.x;
  fill_row(p, row, blockIdx.x, threadIdx.x, blockDim.x, c, s);
  __syncthreads();
  const int fragments = 2 * p.pairs / E::kPerPack / Fragment::kPacks;
  const int heads = p.heads[0] + p.heads[1];
  for (int i = threadIdx.x; i < heads * fragments; i += blockDim.x) {
    const int x = i % fragments;
    const auto* in = head_of<E>(p.in, p, row, i / fragments);
    auto* out = head_of<E>(p.out, p, row, i / fragments);
    Packed<16> v[Fragment::kPacks];
    for (int k = 0; k < Fragment::kPacks; ++k) {
      v[k] = load_hinted<CacheHint::kStream>(in + Fragment::at(x, k, p.pairs));
    }
    const int offset = Fragment::row_offset(x, p.pairs);
    Fragment::rotate(v, c + offset, s + offset, x, p.pairs);
    for (int k = 0; k < Fragment::kPacks; ++k) {
      store_hinted<CacheHint::kStream>(out + Fragment::at(x, k, p.pairs), v[k]);
    }
  }
}

// ---- 4, 5, 6: one thread per fragment of kHeads heads; loads are issued before the angles are
// computed. Block: [tokens][heads / kHeads][fragments of a head] ---------------------------------
template <class E, class Fragment, int kHeads, CacheHint kLoad, CacheHint kStore>
__global__ void __launch_bounds__(1024) loads_first(const __grid_constant__ LadderParams p) {
  extern __shared__ __align__(16) float rotation_rows[];
  const int x = threadIdx.x;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.z + threadIdx.z;
  const std::int64_t row = blockIdx.y * p.tokens + token;
  float* const c = rotation_rows + threadIdx.z * 2 * p.pairs;
  float* const s = c + p.pairs;
  const int heads = p.heads[0] + p.heads[1];
  Packed<16> v[kHeads][Fragment::kPacks];
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    const int h = threadIdx.y + j * blockDim.y;
    if (token >= p.tokens || h >= heads) continue;
    const auto* in = head_of<E>(p.in, p, row, h);
#pragma unroll
    for (int k = 0; k < Fragment::kPacks; ++k) {
      v[j][k] = load_hinted<kLoad>(in + Fragment::at(x, k, p.pairs));
    }
  }
  if (token < p.tokens) {
    fill_row(p, row, token, threadIdx.y * blockDim.x + x, blockDim.x * blockDim.y, c, s);
  }
  __syncthreads();
  const int row_offset = Fragment::row_offset(x, p.pairs);
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    const int h = threadIdx.y + j * blockDim.y;
    Fragment::rotate(v[j], c + row_offset, s + row_offset, x, p.pairs);
    if (token >= p.tokens || h >= heads) continue;
    auto* out = head_of<E>(p.out, p, row, h);
#pragma unroll
    for (int k = 0; k < Fragment::kPacks; ++k) {
      store_hinted<kStore>(out + Fragment::at(x, k, p.pairs), v[j][k]);
    }
  }
}

// ---- 7: persistent blocks; the next token is loaded before this one is stored -----------------
template <class E, class Fragment, int kHeads, CacheHint kLoad, CacheHint kStore>
__global__ void __launch_bounds__(1024) persistent(const __grid_constant__ LadderParams p) {
  __shared__ alignas(16) float rotation_rows[2][128];
  const int x = threadIdx.x;
  const int thread = threadIdx.y * blockDim.x + x;
  const int threads = blockDim.x * blockDim.y;
  const int heads = p.heads[0] + p.heads[1];
  const int row_offset = Fragment::row_offset(x, p.pairs);
  Packed<16> v[kHeads][Fragment::kPacks];
  Packed<16> next[kHeads][Fragment::kPacks];
  const auto load = [&](std::int64_t row, Packed<16>(&to)[kHeads][Fragment::kPacks]) {
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      const int h = threadIdx.y + j * blockDim.y;
      if (row >= p.rows || h >= heads) continue;
#pragma unroll
      for (int k = 0; k < Fragment::kPacks; ++k) {
        to[j][k] = load_hinted<kLoad>(head_of<E>(p.in, p, row, h) + Fragment::at(x, k, p.pairs));
      }
    }
  };
  std::int64_t row = blockIdx.x;
  load(row, v);
  for (int buffer = 0; row < p.rows; row += gridDim.x, buffer ^= 1) {
    load(row + gridDim.x, next);
    fill_row(p, row, static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(p.tokens), thread,
             threads, rotation_rows[buffer], rotation_rows[buffer] + 64);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      const int h = threadIdx.y + j * blockDim.y;
      Fragment::rotate(v[j], rotation_rows[buffer] + row_offset,
                       rotation_rows[buffer] + 64 + row_offset, x, p.pairs);
#pragma unroll
      for (int k = 0; k < Fragment::kPacks; ++k) {
        if (h < heads) {
          store_hinted<kStore>(head_of<E>(p.out, p, row, h) + Fragment::at(x, k, p.pairs), v[j][k]);
        }
        v[j][k] = next[j][k];
      }
    }
  }
}

}  // namespace ladder_kernels
