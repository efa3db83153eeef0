// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Vectorised global loads and stores of 4, 8 and 16 bytes. No cache hints: streaming loads,
// streaming stores and both were measured slower (docs/cuda.md). Independent of the library.
#pragma once

#include <cstdint>

namespace rotary::internal::cuda {

/// The raw words of one vectorised access, kBytes wide; elements.cuh converts them. 16 bytes is the
/// widest access of a thread.
template <int kBytes>
struct alignas(kBytes) Packed {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  std::uint32_t words[kBytes / 4];
};

/// Volatile: the compiler keeps the order of loads among each other and across barriers, so that
/// they are issued where they are written.
__device__ __forceinline__ Packed<16> load_packed(const void* from) {
  Packed<16> packed;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(packed.words[0]), "=r"(packed.words[1]), "=r"(packed.words[2]),
                 "=r"(packed.words[3])
               : "l"(from)
               : "memory");
  return packed;
}

__device__ __forceinline__ Packed<8> load_packed8(const void* from) {
  Packed<8> packed;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(packed.words[0]), "=r"(packed.words[1])
               : "l"(from)
               : "memory");
  return packed;
}

/// By the width of the result.
__device__ __forceinline__ void load_pack(const void* from, Packed<16>& to) {
  to = load_packed(from);
}
__device__ __forceinline__ void load_pack(const void* from, Packed<8>& to) {
  to = load_packed8(from);
}

__device__ __forceinline__ std::uint32_t load_u32(const void* from) {
  std::uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/// Prefetches the cache line into L2. Not a read: L2 is coherent, so a later load sees what is
/// written to the line in between.
__device__ __forceinline__ void prefetch_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

__device__ __forceinline__ void store_packed(void* to, const Packed<16>& packed) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(packed.words[0]),
               "r"(packed.words[1]), "r"(packed.words[2]), "r"(packed.words[3])
               : "memory");
}

__device__ __forceinline__ void store_packed(void* to, const Packed<8>& packed) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(packed.words[0]),
               "r"(packed.words[1])
               : "memory");
}

__device__ __forceinline__ void store_packed(void* to, const Packed<4>& packed) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(packed.words[0]) : "memory");
}

/// Starts the copy of a pack to shared memory (cp.async), past the first-level cache.
__device__ __forceinline__ void copy_to_shared(Packed<16>* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
/// The copies that the thread started since the last call become a group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for all groups of the thread but the last kPending.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Forces the value to be computed here instead of at its first use.
template <typename T>
__device__ __forceinline__ void materialize(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}
__device__ __forceinline__ void materialize(std::uint64_t& value) {
  asm volatile("" : "+l"(value));
}
__device__ __forceinline__ void materialize(std::uint32_t& value) {
  asm volatile("" : "+r"(value));
}

/// Reads a parameter where it stands. Parameters that are first read after
/// wait_on_dependent_grids() miss the constant cache, which costs a decoding step as much time as
/// its rotation.
__device__ __forceinline__ void touch(const void* x) { asm volatile("" ::"l"(x)); }
__device__ __forceinline__ void touch(std::int64_t x) { asm volatile("" ::"l"(x)); }
__device__ __forceinline__ void touch(std::int32_t x) { asm volatile("" ::"r"(x)); }
__device__ __forceinline__ void touch(float x) { asm volatile("" ::"f"(x)); }

}  // namespace rotary::internal::cuda
