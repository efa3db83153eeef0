// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// CUDA's built-in variables and intrinsics as host code, so that kernels run on the CPU: the
// threads of a block are fibers of one thread that change at barriers and shuffles. Included before
// every file of the emulated kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define ROTARY_EMULATES_CUDA

namespace emulated {

/// Gives the launches that follow that much dynamic shared memory, rounded up to 16 bytes. Accesses
/// beyond its end crash. False if there is not so much.
bool allocate_shared(std::size_t bytes);
/// Runs `thread` for every thread of a block, whose shared memory has no value yet (NaN).
void run_block(const dim3& block, const std::function<void()>& thread);
void block_barrier();
void warp_barrier();
/// A slot of each lane of the current warp.
std::uint64_t* warp_slots();
int current_lane();

// cp.async of 16 bytes, each part of it at the worst moment: from its start on, `to` has no value
// (NaN), and `from` is only read, and `to` written, at the wait for its group.
void start_copy(void* to, const void* from);
void commit_copies();
void wait_for_copies(std::size_t pending);

}  // namespace emulated

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

inline void __syncthreads() { emulated::block_barrier(); }
inline void __syncwarp() { emulated::warp_barrier(); }

template <typename T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  emulated::warp_slots()[emulated::current_lane()] = bits;
  emulated::warp_barrier();
  bits = emulated::warp_slots()[lane & 31];
  emulated::warp_barrier();
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int step) {
  return __shfl_sync(mask, value, emulated::current_lane() ^ step);
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float __int_as_float(std::int32_t x) { return std::bit_cast<float>(x); }
inline double __longlong_as_double(std::int64_t x) { return std::bit_cast<double>(x); }
inline std::int64_t __double_as_longlong(double x) { return std::bit_cast<std::int64_t>(x); }
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 32);
}
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<std::uint64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 |
                               static_cast<std::uint32_t>(low));
}
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline unsigned long long __double2ull_rz(double x) { return static_cast<unsigned long long>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline std::uint64_t __umul64hi(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

#define asm(...)  // of as_generic_memory()

// Dynamic shared memory, by the names that kernels give it. Its address depends on its size: what
// kernels declare, extern float memory[], becomes a pointer to such an array.
#define memory (*memory_of_block)
#define totals (*totals_of_block)

#undef __launch_bounds__
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __grid_constant__
#define __launch_bounds__(...)
#define __global__
#define __device__
#define __host__
#define __shared__
#define __grid_constant__
