// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The usual launches, each build of the kernel where it was fastest (bench/cuda/ladder.md).

#include "cuda/device/rotate_packs.cuh"
#include "cuda/launch.cuh"
#include "cuda/pack_params.h"
#include "cuda/rotate.h"
#include "cuda/rotate_float8.h"

namespace rotary::internal::cuda {
namespace {

// bfloat16: 40, 59 and 38 registers.
using OneHead = Build<1, false, 512, 3>;
using TwoHeads = Build<2, true, 512, 2>;
using TwoLean = Build<2, false, 512, 3>;

/// So much work that large blocks do not let multiprocessors wait for the last ones.
bool is_large(const SimpleParams& p, const PackParams& packs) noexcept {
  constexpr std::int64_t kManyUnits = 256;  // of a token
  constexpr std::int64_t kManyBytes = std::int64_t{400} << 20;
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  return static_cast<std::int64_t>(packs.units) * p.num_heads >= kManyUnits &&
         p.batch * p.tokens * p.num_heads * p.head_dim * size >= kManyBytes;
}

/// `tokens` of a block, of the operand with more heads.
template <class Unit, class Build>
cudaError_t launch_packs(const SimpleParams& p, int tokens, PackParams& packs,
                         cudaStream_t stream) noexcept {
  const PackShape shape = shape_packs(p, Build::kHeads, Build::kThreads, tokens, packs);
  const dim3 grid(static_cast<unsigned>(shape.tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.shares));
  const dim3 block(static_cast<unsigned>(packs.units), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.depth));
  const std::size_t shared = static_cast<std::size_t>(shape.depth) * 2 *
                             static_cast<std::size_t>(packs.row_size) * sizeof(float);
  return launch_kernel(rotate_packs<Unit, Build>, packs, grid, block, shared, p.overlaps, stream);
}

template <class Element>
cudaError_t launch_half(const SimpleParams& p, PackParams& packs, cudaStream_t stream) noexcept {
  using Unit = TwoPackUnit<Element, Pairing::kHalf, Pairing::kHalf>;
  if (is_large(p, packs)) return launch_packs<Unit, TwoHeads>(p, 4, packs, stream);
  return launch_packs<Unit, OneHead>(p, 1, packs, stream);
}

template <class Element>
cudaError_t launch_neighbours(const SimpleParams& p, PackParams& packs,
                              cudaStream_t stream) noexcept {
  using Unit = NeighbourUnit<Element>;
  if (has_few_tokens(p)) return launch_packs<Unit, OneHead>(p, 1, packs, stream);
  return launch_packs<Unit, TwoLean>(p, 1, packs, stream);
}

template <class Element>
cudaError_t launch_tuned(const SimpleParams& p, cudaStream_t stream) noexcept {
  const Layout layout = layout_of(p);
  if (layout == Layout::kMixed) return launch_mixed<Element>(p, stream);
  PackParams packs{};
  if (layout == Layout::kAnywhere || !make_pack_params(p, layout, packs)) {
    return launch_untuned<Element>(p, stream);
  }
  return layout == Layout::kHalf ? launch_half<Element>(p, packs, stream)
                                 : launch_neighbours<Element>(p, packs, stream);
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
