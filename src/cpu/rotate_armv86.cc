// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Compiled with flags of its own (CMakeLists.txt), which allow instructions that not every AArch64
// CPU has. Therefore every function that this file defines must be its own: the linker keeps one of
// several copies of an inline function, and must not keep a copy from here for the whole library.
// The kernels are in a namespace of this file; whatever else it uses is inlined by force, as
// Highway's functions are. The test `armv86_symbols` checks it.

#include "cpu/rotate_armv86.h"

#if ROTARY_CPU_ARMV86
#define ROTARY_CPU_NAMESPACE N_ARMV86
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/highway.h>

#include <cstdint>

#include "cpu/armv86-inl.h"
#include "cpu/rotate_dense-inl.h"
#include "cpu/writers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal {
namespace N_ARMV86 {

template <class Policy, Pairing kPairing>
Armv86Kernel choose(std::int64_t pairs, HeadOrder order) {
  return {choose_dense<Policy, CachedWriter, kPairing, Prefetch::kRead>(pairs, order),
          Policy::kRowLayout};
}

}  // namespace N_ARMV86

Armv86Kernel choose_armv86_kernel(DType dtype, Pairing pairing, std::int64_t pairs,
                                  HeadOrder order) noexcept {
  using namespace N_ARMV86;  // NOLINT(google-build-using-namespace): of this file
  if (pairing == Pairing::kInterleaved) {
    constexpr auto kPairing = Pairing::kInterleaved;
    if (dtype == DType::kFloat32) return choose<ComplexPairs<Float32>, kPairing>(pairs, order);
    if (dtype == DType::kFloat16) {
      return choose<ComplexPairs<Float16Armv86>, kPairing>(pairs, order);
    }
    if (dtype == DType::kBFloat16) {
      return choose<ComplexPairs<BFloat16Armv86>, kPairing>(pairs, order);
    }
  } else {
    constexpr auto kPairing = Pairing::kHalf;
    if (dtype == DType::kFloat16) {
      return choose<HalfPairs<Float16Armv86>, kPairing>(pairs, order);
    }
    if (dtype == DType::kBFloat16) {
      return choose<HalfPairs<BFloat16Armv86>, kPairing>(pairs, order);
    }
  }
  return {nullptr, RowLayout::kPerPair};
}

}  // namespace rotary::internal
HWY_AFTER_NAMESPACE();
#endif  // ROTARY_CPU_ARMV86
