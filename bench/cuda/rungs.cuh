// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rungs below the kernel of src/cuda: q and k without gaps, one axis, every pair turns. They
// share its mathematics, so that all rungs give the same bits.
#pragma once

#include <cstdint>

#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/row.cuh"

namespace rungs {

using namespace rotary::internal::cuda;  // NOLINT: a program's own kernels
using rotary::internal::CosSin;

enum class Layout { kHalf, kNeighbours };

/// Rows are tokens of all batch rows, end to end; the token is blockIdx.x, the batch row
/// blockIdx.y.
struct Call {
  const void* in[2];  // [rows, heads[o], 2 * pairs]
  void* out[2];       // [rows, heads[o], 2 * pairs]
  int heads[2];
  int pairs;
  std::int64_t tokens;  // of a batch row
  std::int64_t rows;
  const std::int64_t* ids;  // [rows], or null: token + start
  std::int64_t start;
  float sign;                   // of the sine: -1 for the adjoint
  std::uint64_t fractions[64];  // [pairs]
};

__device__ __forceinline__ std::int64_t position_of(const Call& a, std::int64_t row,
                                                    std::int64_t token) {
  return a.ids != nullptr ? a.ids[row] : a.start + token;
}

__device__ __forceinline__ float2 z_of(const Call& a, std::int64_t position, int pair) {
  const CosSin<float> z =
      cos_sin_on_device<float>(static_cast<std::uint64_t>(position) * as_memory(a.fractions)[pair]);
  return {z.cos, z.sin * a.sign};
}

template <class E>
__device__ __forceinline__ typename E::Storage* head_of(void* const (&base)[2], const Call& a,
                                                        std::int64_t row, int h) {
  const int o = h >= a.heads[0] ? 1 : 0;
  const int at = o ? h - a.heads[0] : h;
  return static_cast<typename E::Storage*>(base[o]) + (row * a.heads[o] + at) * (2 * a.pairs);
}
template <class E>
__device__ __forceinline__ const typename E::Storage* head_of(const void* const (&base)[2],
                                                              const Call& a, std::int64_t row,
                                                              int h) {
  const int o = h >= a.heads[0] ? 1 : 0;
  const int at = o ? h - a.heads[0] : h;
  return static_cast<const typename E::Storage*>(base[o]) + (row * a.heads[o] + at) * (2 * a.pairs);
}

// ---- 1: a thread a pair, which makes its own angle. -------------------------------------------
template <class E, Layout kLayout>
__global__ void naive(const __grid_constant__ Call a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int heads = a.heads[0] + a.heads[1];
  const int pair = static_cast<int>(i % a.pairs);
  const int h = static_cast<int>(i / a.pairs % heads);
  const std::int64_t row = i / a.pairs / heads;
  if (row >= a.rows) return;
  const float2 z = z_of(a, position_of(a, row, row % a.tokens), pair);
  const int first = kLayout == Layout::kHalf ? pair : 2 * pair;
  const int second = kLayout == Layout::kHalf ? pair + a.pairs : 2 * pair + 1;
  const auto* in = head_of<E>(a.in, a, row, h);
  auto* out = head_of<E>(a.out, a, row, h);
  const float x = E::load(in[first]);
  const float y = E::load(in[second]);
  out[first] = E::store(fused(-y, z.y, product(x, z.x)));
  out[second] = E::store(fused(x, z.y, product(y, z.x)));
}

// ---- 2: a block a token; its angles are made once, in shared memory. --------------------------
__device__ __forceinline__ void make_row(const Call& a, std::int64_t row, std::int64_t token,
                                         int thread, int threads, float* c, float* s) {
  const std::int64_t position = position_of(a, row, token);
  for (int pair = thread; pair < a.pairs; pair += threads) {
    const float2 z = z_of(a, position, pair);
    c[pair] = z.x;
    s[pair] = z.y;
  }
}

template <class E, Layout kLayout>
__global__ void shared_angles(const __grid_constant__ Call a) {
  __shared__ float c[64];
  __shared__ float s[64];
  const std::int64_t row = blockIdx.y * a.tokens + blockIdx.x;
  make_row(a, row, blockIdx.x, threadIdx.x, blockDim.x, c, s);
  __syncthreads();
  const int heads = a.heads[0] + a.heads[1];
  for (int i = threadIdx.x; i < heads * a.pairs; i += blockDim.x) {
    const int pair = i % a.pairs;
    const int first = kLayout == Layout::kHalf ? pair : 2 * pair;
    const int second = kLayout == Layout::kHalf ? pair + a.pairs : 2 * pair + 1;
    const auto* in = head_of<E>(a.in, a, row, i / a.pairs);
    auto* out = head_of<E>(a.out, a, row, i / a.pairs);
    const float x = E::load(in[first]);
    const float y = E::load(in[second]);
    out[first] = E::store(fused(-y, s[pair], product(x, c[pair])));
    out[second] = E::store(fused(x, s[pair], product(y, c[pair])));
  }
}

// ---- Accesses: as they are, or with the hint that the line will not be wanted again -----------
enum class Hint { kNone, kStream };

template <Hint kHint>
__device__ __forceinline__ Pack<16> load16(const void* from) {
  if constexpr (kHint == Hint::kNone) return load_pack(from);
  Pack<16> v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(from)
               : "memory");
  return v;
}

template <Hint kHint>
__device__ __forceinline__ void store16(void* to, const Pack<16>& v) {
  if constexpr (kHint == Hint::kNone) return store_pack(to, v);
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.words[0]),
               "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}

// ---- How a pack or two of a head turn ---------------------------------------------------------
/// Pairs (2i, 2i + 1): a pack turns by itself.
template <class E>
struct Neighbours {
  static constexpr int kPacks = 1;
  static constexpr int kZ = E::kPerPack / 2;
  static __device__ int first_z(int x, int /*pairs*/) { return x * kZ; }
  static __device__ int at(int x, int /*k*/, int /*pairs*/) { return x * E::kPerPack; }
  static __device__ __forceinline__ void turn(Pack<16> (&v)[1], const float* c, const float* s, int,
                                              int) {
    float e[E::kPerPack];
    E::unpack(v[0], e);
    for (int i = 0; i < kZ; ++i) {
      const float x = e[2 * i];
      const float y = e[2 * i + 1];
      e[2 * i] = fused(-y, s[i], product(x, c[i]));
      e[2 * i + 1] = fused(x, s[i], product(y, c[i]));
    }
    v[0] = E::pack(e);
  }
};

/// Pairs (i, i + pairs): a thread holds a pack of either half.
template <class E>
struct TwoPacks {
  static constexpr int kPacks = 2;
  static constexpr int kZ = E::kPerPack;
  static __device__ int first_z(int x, int /*pairs*/) { return x * kZ; }
  static __device__ int at(int x, int k, int pairs) { return x * E::kPerPack + k * pairs; }
  static __device__ __forceinline__ void turn(Pack<16> (&v)[2], const float* c, const float* s, int,
                                              int) {
    float x[E::kPerPack];
    float y[E::kPerPack];
    E::unpack(v[0], x);
    E::unpack(v[1], y);
    for (int i = 0; i < kZ; ++i) {
      const float first = fused(-y[i], s[i], product(x[i], c[i]));
      y[i] = fused(x[i], s[i], product(y[i], c[i]));
      x[i] = first;
    }
    v[0] = E::pack(x);
    v[1] = E::pack(y);
  }
};

/// Pairs (i, i + pairs): a thread holds one pack, the other half comes from another lane. Warps
/// read and write without gaps. Packs of a half: a power of two, at most 16.
template <class E>
struct Exchanged {
  static constexpr int kPacks = 1;
  static constexpr int kZ = E::kPerPack;
  static __device__ int first_z(int x, int pairs) { return x * E::kPerPack % pairs; }
  static __device__ int at(int x, int /*k*/, int /*pairs*/) { return x * E::kPerPack; }
  static __device__ __forceinline__ void turn(Pack<16> (&v)[1], const float* c, const float* s,
                                              int x, int pairs) {
    const int distance = pairs / E::kPerPack;
    Pack<16> other;
    for (int i = 0; i < 4; ++i) {
      other.words[i] = __shfl_xor_sync(0xffffffffu, v[0].words[i], distance);
    }
    float mine[E::kPerPack];
    float theirs[E::kPerPack];
    E::unpack(v[0], mine);
    E::unpack(other, theirs);
    const std::uint32_t sign = x < distance ? 1u : 0u;
    for (int i = 0; i < kZ; ++i) {
      mine[i] = fused(theirs[i], flip_sign(s[i], sign), product(mine[i], c[i]));
    }
    v[0] = E::pack(mine);
  }
};

// ---- 3: packs of 16 bytes, 256 threads a token, angles first ----------------------------------
template <class E, class Turn>
__global__ void packs(const __grid_constant__ Call a) {
  __shared__ alignas(16) float c[64];
  __shared__ alignas(16) float s[64];
  const std::int64_t row = blockIdx.y * a.tokens + blockIdx.x;
  make_row(a, row, blockIdx.x, threadIdx.x, blockDim.x, c, s);
  __syncthreads();
  const int units = 2 * a.pairs / E::kPerPack / Turn::kPacks;
  const int heads = a.heads[0] + a.heads[1];
  for (int i = threadIdx.x; i < heads * units; i += blockDim.x) {
    const int x = i % units;
    const auto* in = head_of<E>(a.in, a, row, i / units);
    auto* out = head_of<E>(a.out, a, row, i / units);
    Pack<16> v[Turn::kPacks];
    for (int k = 0; k < Turn::kPacks; ++k) {
      v[k] = load16<Hint::kStream>(in + Turn::at(x, k, a.pairs));
    }
    const int z = Turn::first_z(x, a.pairs);
    Turn::turn(v, c + z, s + z, x, a.pairs);
    for (int k = 0; k < Turn::kPacks; ++k) {
      store16<Hint::kStream>(out + Turn::at(x, k, a.pairs), v[k]);
    }
  }
}

// ---- 4, 5, 6: a thread for each pack of the token (or of every kHeads-th head); loads go out
// before the angles are made. x is the unit in the head, y the head, z the token of the block. --
template <class E, class Turn, int kHeads, Hint kLoad, Hint kStore>
__global__ void __launch_bounds__(1024) early(const __grid_constant__ Call a) {
  extern __shared__ __align__(16) float rows_z[];
  const int x = threadIdx.x;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.z + threadIdx.z;
  const std::int64_t row = blockIdx.y * a.tokens + token;
  float* const c = rows_z + threadIdx.z * 2 * a.pairs;
  float* const s = c + a.pairs;
  const int heads = a.heads[0] + a.heads[1];
  Pack<16> v[kHeads][Turn::kPacks];
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    const int h = threadIdx.y + j * blockDim.y;
    if (token >= a.tokens || h >= heads) continue;
    const auto* in = head_of<E>(a.in, a, row, h);
#pragma unroll
    for (int k = 0; k < Turn::kPacks; ++k) {
      v[j][k] = load16<kLoad>(in + Turn::at(x, k, a.pairs));
    }
  }
  if (token < a.tokens) {
    make_row(a, row, token, threadIdx.y * blockDim.x + x, blockDim.x * blockDim.y, c, s);
  }
  __syncthreads();
  const int first_z = Turn::first_z(x, a.pairs);
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    const int h = threadIdx.y + j * blockDim.y;
    Turn::turn(v[j], c + first_z, s + first_z, x, a.pairs);
    if (token >= a.tokens || h >= heads) continue;
    auto* out = head_of<E>(a.out, a, row, h);
#pragma unroll
    for (int k = 0; k < Turn::kPacks; ++k) {
      store16<kStore>(out + Turn::at(x, k, a.pairs), v[j][k]);
    }
  }
}

// ---- 7: a grid that stays; the next token's packs are loaded before this one's are stored -----
template <class E, class Turn, int kHeads, Hint kLoad, Hint kStore>
__global__ void __launch_bounds__(1024) pipelined(const __grid_constant__ Call a) {
  __shared__ alignas(16) float z[2][128];
  const int x = threadIdx.x;
  const int thread = threadIdx.y * blockDim.x + x;
  const int threads = blockDim.x * blockDim.y;
  const int heads = a.heads[0] + a.heads[1];
  const int first_z = Turn::first_z(x, a.pairs);
  Pack<16> v[kHeads][Turn::kPacks];
  Pack<16> next[kHeads][Turn::kPacks];
  const auto load = [&](std::int64_t row, Pack<16>(&to)[kHeads][Turn::kPacks]) {
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      const int h = threadIdx.y + j * blockDim.y;
      if (row >= a.rows || h >= heads) continue;
#pragma unroll
      for (int k = 0; k < Turn::kPacks; ++k) {
        to[j][k] = load16<kLoad>(head_of<E>(a.in, a, row, h) + Turn::at(x, k, a.pairs));
      }
    }
  };
  std::int64_t row = blockIdx.x;
  load(row, v);
  for (int turn = 0; row < a.rows; row += gridDim.x, turn ^= 1) {
    load(row + gridDim.x, next);
    make_row(a, row, static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(a.tokens), thread,
             threads, z[turn], z[turn] + 64);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      const int h = threadIdx.y + j * blockDim.y;
      Turn::turn(v[j], z[turn] + first_z, z[turn] + 64 + first_z, x, a.pairs);
#pragma unroll
      for (int k = 0; k < Turn::kPacks; ++k) {
        if (h < heads) {
          store16<kStore>(head_of<E>(a.out, a, row, h) + Turn::at(x, k, a.pairs), v[j][k]);
        }
        v[j][k] = next[j][k];
      }
    }
  }
}

}  // namespace rungs
