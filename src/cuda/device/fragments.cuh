// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Fragments: the part of one head that a thread loads, rotates and stores. A pair (x, y) becomes
//   x c - y s,  y c + x s
// each as one rounded product with c and one fused multiply-add with s. One policy type per memory
// layout of pairs:
//   kPairs         pairs per fragment; a head has pair_count / kPairs fragments per launch
//   kPacks         16-byte packs per fragment
//   kCopyElements  elements per pass-through copy outside the rotary slice
//   Data           the fragment in registers
//   StoreParams    run-time parameters of the output type
// `Out` is the element type written; it differs from `In` for 8-bit output only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/token_heads.cuh"
#include "cuda/params.h"
#include "rotary/pairing.h"

namespace rotary::internal::cuda {

/// Offsets in a head, in elements: of the two elements of a pair, or of the first elements of two
/// packs.
struct PairOffsets {
  std::int32_t first;
  std::int32_t second;
};

template <typename T>
__device__ __forceinline__ void rotate_pair(T& x, T& y, T c, T s) {
  const T first = fma_rn(-y, s, mul_rn(x, c));
  y = fma_rn(x, s, mul_rn(y, c));
  x = first;
}

/// The packs of a rotated fragment, in the output type.
template <typename OutPack, int kPacks>
struct Rotated {
  OutPack packs[kPacks];
};

/// Address of element i of a contiguous head.
template <class Element, typename Pointer>
__device__ __forceinline__ Pointer element_address(const Head<Pointer>& head, std::int32_t i) {
  return head.data + i * static_cast<std::int32_t>(sizeof(typename Element::Storage));
}

/// Base of fragments that consist of 16-byte packs.
template <class In, class Out>
struct PackedFragment {
  using OutElement = Out;
  using StoreParams = typename Out::StoreParams;
  static constexpr int kCopyElements = In::kPerPack;
  /// Fragment of the rotation row that fragment x of the head reads, and how many the row has.
  static __device__ __forceinline__ std::uint32_t row_fragment(std::uint32_t x) { return x; }
  static __device__ __forceinline__ std::uint32_t row_fragments(std::uint32_t fragments) {
    return fragments;
  }
  static __device__ __forceinline__ void copy(const Head<const char*>& in, const Head<char*>& out,
                                              std::int32_t i, const StoreParams& store_params) {
    const Packed<16> pack = load_packed(element_address<In>(in, i));
    if constexpr (std::is_same_v<In, Out>) {
      store_packed(element_address<Out>(out, i), pack);
    } else {
      typename In::Compute v[kCopyElements];
      In::unpack(pack, v);
      store_packed(element_address<Out>(out, i), Out::pack(v, store_params));
    }
  }
};

/// Interleaved pairs (2i, 2i + 1): one pack holds whole pairs.
template <class In, class Out = In>
struct InterleavedFragment : PackedFragment<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack / 2;
  static constexpr int kPacks = 1;
  struct Data {
    Packed<16> packs[1];
  };

  static __device__ __forceinline__ auto rotate(const Data& data, const T (&c)[kPairs],
                                                const T (&s)[kPairs],
                                                const typename Out::StoreParams& store_params) {
    T v[2 * kPairs];
    In::unpack(data.packs[0], v);
    for (int i = 0; i < kPairs; ++i) rotate_pair(v[2 * i], v[2 * i + 1], c[i], s[i]);
    return Rotated<decltype(Out::pack(v, store_params)), 1>{{Out::pack(v, store_params)}};
  }

  static __device__ __forceinline__ std::int32_t read_offsets(const KernelParams& p,
                                                              std::int32_t pair) {
    return p.rotary_offset + 2 * pair;
  }
  static __device__ __forceinline__ std::int32_t write_offsets(const KernelParams& p,
                                                               std::int32_t pair) {
    return p.rotary_offset + 2 * pair;
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, std::int32_t at) {
    return {{load_packed(element_address<In>(head, at))}};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[kPairs],
                                               const T (&s)[kPairs], const Head<char*>& head,
                                               std::int32_t at,
                                               const typename Out::StoreParams& store_params) {
    store_packed(element_address<Out>(head, at), rotate(data, c, s, store_params).packs[0]);
  }
};

/// Two packs, one of each half (pairs (i, i + pairs)) or two adjacent ones (interleaved); pairings
/// read and written may differ.
template <class In, Pairing kRead, Pairing kWrite, class Out = In>
struct TwoPackFragment : PackedFragment<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack;
  static constexpr int kPacks = 2;
  struct Data {
    Packed<16> packs[2];
  };

  static __device__ __forceinline__ auto rotate(const Data& data, const T (&c)[kPairs],
                                                const T (&s)[kPairs],
                                                const typename Out::StoreParams& store_params) {
    // The two packs in memory order: v as read, w as written.
    constexpr bool kReadHalf = kRead == Pairing::kHalf;
    constexpr bool kWriteHalf = kWrite == Pairing::kHalf;
    T v[2][kPairs];
    T w[2][kPairs];
    In::unpack(data.packs[0], v[0]);
    In::unpack(data.packs[1], v[1]);
    for (int i = 0; i < kPairs; ++i) {
      T x = kReadHalf ? v[0][i] : v[2 * i / kPairs][2 * i % kPairs];
      T y = kReadHalf ? v[1][i] : v[2 * i / kPairs][2 * i % kPairs + 1];
      rotate_pair(x, y, c[i], s[i]);
      (kWriteHalf ? w[0][i] : w[2 * i / kPairs][2 * i % kPairs]) = x;
      (kWriteHalf ? w[1][i] : w[2 * i / kPairs][2 * i % kPairs + 1]) = y;
    }
    return Rotated<decltype(Out::pack(w[0], store_params)), 2>{
        {Out::pack(w[0], store_params), Out::pack(w[1], store_params)}};
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ PairOffsets offsets(const KernelParams& p, std::int32_t pair) {
    if constexpr (kPairing == Pairing::kHalf) {
      return {p.rotary_offset + pair, p.rotary_offset + pair + p.pairs};
    }
    return {p.rotary_offset + 2 * pair, p.rotary_offset + 2 * pair + kPairs};
  }
  static __device__ __forceinline__ PairOffsets read_offsets(const KernelParams& p,
                                                             std::int32_t pair) {
    return offsets<kRead>(p, pair);
  }
  static __device__ __forceinline__ PairOffsets write_offsets(const KernelParams& p,
                                                              std::int32_t pair) {
    return offsets<kWrite>(p, pair);
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, PairOffsets at) {
    return {{load_packed(element_address<In>(head, at.first)),
             load_packed(element_address<In>(head, at.second))}};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[kPairs],
                                               const T (&s)[kPairs], const Head<char*>& head,
                                               PairOffsets at,
                                               const typename Out::StoreParams& store_params) {
    const auto rotated = rotate(data, c, s, store_params);
    store_packed(element_address<Out>(head, at.first), rotated.packs[0]);
    store_packed(element_address<Out>(head, at.second), rotated.packs[1]);
  }
};

/// One pair, accessed element by element: any stride and alignment, any pairings.
template <class In, class Out = In>
struct PairFragment {
  using T = typename In::Compute;
  using OutElement = Out;
  using StoreParams = typename Out::StoreParams;
  static constexpr int kPairs = 1;
  static constexpr int kCopyElements = 1;
  struct Data {
    T x;
    T y;
  };

  static __device__ __forceinline__ PairOffsets offsets(const KernelParams& p, Pairing pairing,
                                                        std::int32_t pair) {
    if (pairing == Pairing::kHalf) {
      return {p.rotary_offset + pair, p.rotary_offset + pair + p.pairs};
    }
    return {p.rotary_offset + 2 * pair, p.rotary_offset + 2 * pair + 1};
  }
  static __device__ __forceinline__ PairOffsets read_offsets(const KernelParams& p,
                                                             std::int32_t pair) {
    return offsets(p, p.read, pair);
  }
  static __device__ __forceinline__ PairOffsets write_offsets(const KernelParams& p,
                                                              std::int32_t pair) {
    return offsets(p, p.write, pair);
  }
  static __device__ __forceinline__ T load_element(const Head<const char*>& head, std::int32_t i) {
    return In::load(
        *reinterpret_cast<const typename In::Storage*>(head.data + i * head.element_stride));
  }
  static __device__ __forceinline__ void store_element(T value, const Head<char*>& head,
                                                       std::int32_t i,
                                                       const StoreParams& store_params) {
    *reinterpret_cast<typename Out::Storage*>(head.data + i * head.element_stride) =
        Out::store(value, store_params);
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, PairOffsets at) {
    return {load_element(head, at.first), load_element(head, at.second)};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[1], const T (&s)[1],
                                               const Head<char*>& head, PairOffsets at,
                                               const StoreParams& store_params) {
    T x = data.x;
    T y = data.y;
    rotate_pair(x, y, c[0], s[0]);
    store_element(x, head, at.first, store_params);
    store_element(y, head, at.second, store_params);
  }
  static __device__ __forceinline__ void copy(const Head<const char*>& in, const Head<char*>& out,
                                              std::int32_t i, const StoreParams& store_params) {
    if constexpr (std::is_same_v<In, Out>) {
      using Storage = typename In::Storage;
      *reinterpret_cast<Storage*>(out.data + i * out.element_stride) =
          *reinterpret_cast<const Storage*>(in.data + i * in.element_stride);
    } else {
      store_element(load_element(in, i), out, i, store_params);
    }
  }
};

}  // namespace rotary::internal::cuda
