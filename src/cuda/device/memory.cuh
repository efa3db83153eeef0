// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Loads and stores of whole packs. They carry no cache hints: streaming loads, streaming stores and
// both were measured slower (docs/cuda.md).
#pragma once

#include <cstdint>

namespace rotary::internal::cuda {

/// Bytes of one access; a thread's widest is 16.
template <int kBytes>
struct alignas(kBytes) Pack {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  std::uint32_t words[kBytes / 4];
};

/// Not moved across a barrier or across one another, so that loads go out where they are written.
__device__ __forceinline__ Pack<16> load_pack(const void* from) {
  Pack<16> pack;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(pack.words[0]), "=r"(pack.words[1]), "=r"(pack.words[2]), "=r"(pack.words[3])
               : "l"(from)
               : "memory");
  return pack;
}

__device__ __forceinline__ std::uint32_t load_word(const void* from) {
  std::uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/// Brings the line into the second-level cache. That is no read: what is written to it meanwhile is
/// seen by the load that follows.
__device__ __forceinline__ void prefetch_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

__device__ __forceinline__ void store_pack(void* to, const Pack<16>& pack) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(pack.words[0]),
               "r"(pack.words[1]), "r"(pack.words[2]), "r"(pack.words[3])
               : "memory");
}

__device__ __forceinline__ void store_pack(void* to, const Pack<8>& pack) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(pack.words[0]), "r"(pack.words[1])
               : "memory");
}

__device__ __forceinline__ void store_pack(void* to, const Pack<4>& pack) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(pack.words[0]) : "memory");
}

}  // namespace rotary::internal::cuda
