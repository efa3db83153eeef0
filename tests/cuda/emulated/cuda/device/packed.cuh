// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// In place of the library's: vectorised accesses without PTX, which check their alignment.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace rotary::internal::cuda {

template <int kBytes>
struct alignas(kBytes) Packed {
  std::uint32_t words[kBytes / 4];
};

template <int kBytes>
void check_alignment(const void* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % kBytes != 0) std::abort();
}

inline Packed<16> load_packed(const void* from) {
  check_alignment<16>(from);
  return *static_cast<const Packed<16>*>(from);
}
inline Packed<8> load_packed8(const void* from) {
  check_alignment<8>(from);
  return *static_cast<const Packed<8>*>(from);
}
inline void load_pack(const void* from, Packed<16>& to) { to = load_packed(from); }
inline void load_pack(const void* from, Packed<8>& to) { to = load_packed8(from); }
inline std::uint32_t load_u32(const void* from) {
  check_alignment<4>(from);
  return *static_cast<const std::uint32_t*>(from);
}
template <int kBytes>
void store_packed(void* to, const Packed<kBytes>& packed) {
  check_alignment<kBytes>(to);
  *static_cast<Packed<kBytes>*>(to) = packed;
}

inline void prefetch_l2(const void*) {}

inline void copy_to_shared(Packed<16>* to, const void* from) {
  check_alignment<16>(to);
  check_alignment<16>(from);
  emulated::start_copy(to, from);
}
inline void commit_copies() { emulated::commit_copies(); }
template <int kPending>
void wait_for_copies() {
  emulated::wait_for_copies(kPending);
}

template <typename T>
inline void materialize(T&) {}

template <typename T>
inline void touch(const T&) {}

}  // namespace rotary::internal::cuda
