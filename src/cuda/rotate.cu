// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The usual launches.

#include "cuda/launch.cuh"
#include "cuda/launch_builds.cuh"
#include "cuda/pack_params.h"
#include "cuda/rotate.h"
#include "cuda/rotate_float8.h"

namespace rotary::internal::cuda {
namespace {

template <class Element>
cudaError_t launch_tuned(const SimpleParams& p, cudaStream_t stream) noexcept {
  const Layout layout = layout_of(p);
  if (layout == Layout::kMixed) return launch_mixed<Element>(p, stream);
  PackParams packs{};
  if (layout == Layout::kAnywhere || !make_pack_params(p, layout, packs)) {
    return launch_untuned<Element>(p, stream);
  }
  return layout == Layout::kHalf ? launch_half<Element, Element>(p, packs, stream)
                                 : launch_neighbours<Element, Element>(p, packs, stream);
}

}  // namespace

cudaError_t rotate(const SimpleParams& params, cudaStream_t stream) noexcept {
  if (!fits_launch(params, kSimplePairs)) return cudaErrorInvalidValue;
  if (params.batch == 0 || params.tokens == 0 || params.num_heads == 0) return cudaSuccess;
  if (is_float8(params.out_type)) return rotate_to_float8(params, stream);
  switch (params.type) {
    case DType::kFloat16:
      return launch_tuned<Float16>(params, stream);
    case DType::kBFloat16:
      return launch_tuned<BFloat16>(params, stream);
    case DType::kFloat32:
      return launch_tuned<Float32>(params, stream);
    case DType::kFloat64:
      return launch_untuned<Float64>(params, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace rotary::internal::cuda
