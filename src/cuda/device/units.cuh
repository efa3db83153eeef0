// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What one thread holds of a head, and how it turns: first = x c - y s, second = y c + x s, each as
// the product with c and one fused multiply-add. One policy for each way in which pairs lie in
// memory:
//   kPairs     pairs of a unit; a launch has pair_count / kPairs units a head
//   kPacks     packs of a unit
//   kPack      elements that lie together; outside the rotary slice a unit copies as many
//   Data       what a thread holds
//   Target     what the type written must be told
// `Out` is the type written: another one than read for 8-bit results.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/elements.cuh"
#include "cuda/device/operands.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/params.h"
#include "rotary/pairing.h"

namespace rotary::internal::cuda {

/// Two elements of a head, counted from its beginning; of two packs their first ones.
struct Places {
  std::int32_t first;
  std::int32_t second;
};

template <typename T>
__device__ __forceinline__ void turn_pair(T& x, T& y, T c, T s) {
  const T first = fused(-y, s, product(x, c));
  y = fused(x, s, product(y, c));
  x = first;
}

/// Packs as they are written.
template <typename OutPack, int kPacks>
struct Turned {
  OutPack packs[kPacks];
};

template <class Element>
__device__ __forceinline__ const char* at_element(const Head<const char*>& head, std::int32_t i) {
  return head.data + i * static_cast<std::int32_t>(sizeof(typename Element::Storage));
}
template <class Element>
__device__ __forceinline__ char* at_element(const Head<char*>& head, std::int32_t i) {
  return head.data + i * static_cast<std::int32_t>(sizeof(typename Element::Storage));
}

/// Elements side by side.
template <class In, class Out>
struct PackedUnit {
  using OutElement = Out;
  using Target = typename Out::Target;
  static constexpr int kPack = In::kPerPack;
  /// Which part of the row unit x turns by, of how many.
  static __device__ __forceinline__ std::uint32_t row_part(std::uint32_t x) { return x; }
  static __device__ __forceinline__ std::uint32_t row_parts(std::uint32_t units) { return units; }
  static __device__ __forceinline__ void copy(const Head<const char*>& in, const Head<char*>& out,
                                              std::int32_t i, const Target& target) {
    const Pack<16> pack = load_pack(at_element<In>(in, i));
    if constexpr (std::is_same_v<In, Out>) {
      store_pack(at_element<Out>(out, i), pack);
    } else {
      typename In::Compute v[kPack];
      In::unpack(pack, v);
      store_pack(at_element<Out>(out, i), Out::pack(v, target));
    }
  }
};

/// Pairs (2i, 2i + 1): a pack turns by itself.
template <class In, class Out = In>
struct NeighbourUnit : PackedUnit<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack / 2;
  static constexpr int kPacks = 1;
  struct Data {
    Pack<16> packs[1];
  };

  static __device__ __forceinline__ auto turn(const Data& data, const T (&c)[kPairs],
                                              const T (&s)[kPairs],
                                              const typename Out::Target& target) {
    T v[2 * kPairs];
    In::unpack(data.packs[0], v);
    for (int i = 0; i < kPairs; ++i) turn_pair(v[2 * i], v[2 * i + 1], c[i], s[i]);
    return Turned<decltype(Out::pack(v, target)), 1>{{Out::pack(v, target)}};
  }

  static __device__ __forceinline__ std::int32_t read_places(const RotateParams& p,
                                                             std::int32_t pair) {
    return p.rotary_offset + 2 * pair;
  }
  static __device__ __forceinline__ std::int32_t write_places(const RotateParams& p,
                                                              std::int32_t pair) {
    return p.rotary_offset + 2 * pair;
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, std::int32_t at) {
    return {{load_pack(at_element<In>(head, at))}};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[kPairs],
                                               const T (&s)[kPairs], const Head<char*>& head,
                                               std::int32_t at,
                                               const typename Out::Target& target) {
    store_pack(at_element<Out>(head, at), turn(data, c, s, target).packs[0]);
  }
};

/// Any pairings: a thread holds two packs, one of each half or two neighbours.
template <class In, Pairing kRead, Pairing kWrite, class Out = In>
struct TwoPackUnit : PackedUnit<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack;
  static constexpr int kPacks = 2;
  struct Data {
    Pack<16> packs[2];
  };

  static __device__ __forceinline__ auto turn(const Data& data, const T (&c)[kPairs],
                                              const T (&s)[kPairs],
                                              const typename Out::Target& target) {
    // v and w are the two packs as they lie, before and after.
    constexpr bool kReadHalf = kRead == Pairing::kHalf;
    constexpr bool kWriteHalf = kWrite == Pairing::kHalf;
    T v[2][kPairs];
    T w[2][kPairs];
    In::unpack(data.packs[0], v[0]);
    In::unpack(data.packs[1], v[1]);
    for (int i = 0; i < kPairs; ++i) {
      T x = kReadHalf ? v[0][i] : v[2 * i / kPairs][2 * i % kPairs];
      T y = kReadHalf ? v[1][i] : v[2 * i / kPairs][2 * i % kPairs + 1];
      turn_pair(x, y, c[i], s[i]);
      (kWriteHalf ? w[0][i] : w[2 * i / kPairs][2 * i % kPairs]) = x;
      (kWriteHalf ? w[1][i] : w[2 * i / kPairs][2 * i % kPairs + 1]) = y;
    }
    return Turned<decltype(Out::pack(w[0], target)), 2>{
        {Out::pack(w[0], target), Out::pack(w[1], target)}};
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ Places places(const RotateParams& p, std::int32_t pair) {
    if constexpr (kPairing == Pairing::kHalf) {
      return {p.rotary_offset + pair, p.rotary_offset + pair + p.pairs};
    }
    return {p.rotary_offset + 2 * pair, p.rotary_offset + 2 * pair + kPairs};
  }
  static __device__ __forceinline__ Places read_places(const RotateParams& p, std::int32_t pair) {
    return places<kRead>(p, pair);
  }
  static __device__ __forceinline__ Places write_places(const RotateParams& p, std::int32_t pair) {
    return places<kWrite>(p, pair);
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, Places at) {
    return {
        {load_pack(at_element<In>(head, at.first)), load_pack(at_element<In>(head, at.second))}};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[kPairs],
                                               const T (&s)[kPairs], const Head<char*>& head,
                                               Places at, const typename Out::Target& target) {
    const auto turned = turn(data, c, s, target);
    store_pack(at_element<Out>(head, at.first), turned.packs[0]);
    store_pack(at_element<Out>(head, at.second), turned.packs[1]);
  }
};

/// One pair; elements anywhere, any pairings.
template <class In, class Out = In>
struct PairUnit {
  using T = typename In::Compute;
  using OutElement = Out;
  using Target = typename Out::Target;
  static constexpr int kPairs = 1;
  static constexpr int kPack = 1;
  struct Data {
    T x;
    T y;
  };

  static __device__ __forceinline__ Places places(const RotateParams& p, Pairing pairing,
                                                  std::int32_t pair) {
    if (pairing == Pairing::kHalf) {
      return {p.rotary_offset + pair, p.rotary_offset + pair + p.pairs};
    }
    return {p.rotary_offset + 2 * pair, p.rotary_offset + 2 * pair + 1};
  }
  static __device__ __forceinline__ Places read_places(const RotateParams& p, std::int32_t pair) {
    return places(p, p.read, pair);
  }
  static __device__ __forceinline__ Places write_places(const RotateParams& p, std::int32_t pair) {
    return places(p, p.write, pair);
  }
  static __device__ __forceinline__ T load_one(const Head<const char*>& head, std::int32_t i) {
    return In::load(*reinterpret_cast<const typename In::Storage*>(head.data + i * head.element));
  }
  static __device__ __forceinline__ void store_one(T value, const Head<char*>& head, std::int32_t i,
                                                   const Target& target) {
    *reinterpret_cast<typename Out::Storage*>(head.data + i * head.element) =
        Out::store(value, target);
  }
  static __device__ __forceinline__ Data load(const Head<const char*>& head, Places at) {
    return {load_one(head, at.first), load_one(head, at.second)};
  }
  static __device__ __forceinline__ void store(const Data& data, const T (&c)[1], const T (&s)[1],
                                               const Head<char*>& head, Places at,
                                               const Target& target) {
    T x = data.x;
    T y = data.y;
    turn_pair(x, y, c[0], s[0]);
    store_one(x, head, at.first, target);
    store_one(y, head, at.second, target);
  }
  static __device__ __forceinline__ void copy(const Head<const char*>& in, const Head<char*>& out,
                                              std::int32_t i, const Target& target) {
    if constexpr (std::is_same_v<In, Out>) {
      using Storage = typename In::Storage;
      *reinterpret_cast<Storage*>(out.data + i * out.element) =
          *reinterpret_cast<const Storage*>(in.data + i * in.element);
    } else {
      store_one(load_one(in, i), out, i, target);
    }
  }
};

}  // namespace rotary::internal::cuda
