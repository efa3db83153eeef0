// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/any_row.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/launch.cuh"
#include "cuda/launch_builds.cuh"
#include "cuda/rotate_float8.h"

namespace rotary::internal::cuda {
namespace {

template <class Element, class Params>
cudaError_t launch_any(const Params& p, cudaStream_t stream) noexcept {
  constexpr Pairing kHalf = Pairing::kHalf;
  constexpr Pairing kInterleaved = Pairing::kInterleaved;
  switch (layout_of(p)) {
    case Layout::kHalf:
      return launch_unit<TwoPackUnit<Element, kHalf, kHalf, Float8>>(p, stream);
    case Layout::kNeighbours:
      return launch_unit<NeighbourUnit<Element, Float8>>(p, stream);
    case Layout::kMixed:
      if constexpr (std::is_same_v<Params, SimpleParams>) {
        return p.read == kHalf
                   ? launch_unit<TwoPackUnit<Element, kHalf, kInterleaved, Float8>>(p, stream)
                   : launch_unit<TwoPackUnit<Element, kInterleaved, kHalf, Float8>>(p, stream);
      }
      [[fallthrough]];
    default:
      return launch_unit<PairUnit<Element, Float8>>(p, stream);
  }
}

/// The usual case: the tuned kernel, where it reaches.
template <class Element>
cudaError_t launch(const SimpleParams& p, cudaStream_t stream) noexcept {
  const Layout layout = layout_of(p);
  const bool plain = layout == Layout::kHalf || layout == Layout::kNeighbours;
  PackParams packs{};
  if (!plain || !make_pack_params(p, layout, packs)) return launch_any<Element>(p, stream);
  return layout == Layout::kHalf ? launch_half<Element, Float8>(p, packs, stream)
                                 : launch_neighbours<Element, Float8>(p, packs, stream);
}
template <class Element, class Params>
cudaError_t launch(const Params& p, cudaStream_t stream) noexcept {
  return launch_any<Element>(p, stream);
}

template <class Params>
cudaError_t launch_type(const Params& p, cudaStream_t stream) noexcept {
  switch (p.type) {
    case DType::kFloat16:
      return launch<Float16>(p, stream);
    case DType::kBFloat16:
      return launch<BFloat16>(p, stream);
    case DType::kFloat32:
      return launch<Float32>(p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t rotate_to_float8(const SimpleParams& params, cudaStream_t stream) noexcept {
  return launch_type(params, stream);
}
cudaError_t rotate_to_float8(const TableParams& params, cudaStream_t stream) noexcept {
  return launch_type(params, stream);
}
cudaError_t rotate_to_float8(const AnyParams& params, cudaStream_t stream) noexcept {
  return launch_type(params, stream);
}

}  // namespace rotary::internal::cuda
