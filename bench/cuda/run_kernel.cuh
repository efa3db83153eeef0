// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Runs every kernel version on the same problem.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "accuracy.cuh"
#include "bulk_copy.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/rotate.h"
#include "harness.cuh"
#include "ladder_kernels.cuh"

namespace ladder {

using harness::check;
using harness::Workload;
using ladder_kernels::CacheHint;
using ladder_kernels::Layout;

/// One rotation of q and k of a workload.
struct Problem {
  Workload w;
  Layout layout;
  const char* in;
  char* out;
  std::int64_t start = 0;
  const std::int64_t* ids = nullptr;  // [rows], device memory
  float sign = 1.0f;                  // -1: the adjoint
};

inline ladder_kernels::LadderParams ladder_params_of(const Problem& problem) {
  ladder_kernels::LadderParams ladder{};
  ladder.in[0] = problem.in;
  ladder.in[1] = problem.in + problem.w.q_bytes();
  ladder.out[0] = problem.out;
  ladder.out[1] = problem.out + problem.w.q_bytes();
  ladder.heads[0] = problem.w.q_heads;
  ladder.heads[1] = problem.w.k_heads;
  ladder.pairs = problem.w.head_dim / 2;
  ladder.tokens = problem.w.tokens;
  ladder.rows = problem.w.rows();
  ladder.ids = problem.ids;
  ladder.start = problem.start;
  ladder.sign = problem.sign;
  for (int i = 0; i < ladder.pairs; ++i) {
    ladder.fractions[i] =
        rotary::internal::to_turns(accuracy::frequency_of(i, ladder.pairs)).fraction;
  }
  return ladder;
}

inline rotary::internal::cuda::SimpleParams params_of(const Problem& problem, bool overlaps) {
  const ladder_kernels::LadderParams ladder = ladder_params_of(problem);
  rotary::internal::cuda::SimpleParams p{};
  p.num_operands = 2;
  for (int o = 0; o < 2; ++o) {
    auto& x = p.operands[o];
    x.in = ladder.in[o];
    x.out = ladder.out[o];
    x.in_element = x.out_element = problem.w.size;
    x.in_head = x.out_head = static_cast<std::int64_t>(problem.w.head_dim) * problem.w.size;
    x.in_token = x.out_token = x.in_head * ladder.heads[o];
    x.in_batch = x.out_batch = x.in_token * problem.w.tokens;
    p.first_head[o] = p.num_heads;
    p.num_heads += ladder.heads[o];
  }
  p.positions.start = problem.start;
  if (problem.ids != nullptr) {
    p.positions.step = 0;
    p.positions.ids = problem.ids;
    p.positions.batch_stride = problem.w.tokens;
    p.positions.token_stride = 1;
  }
  p.magnitude.sin_float = problem.sign;
  p.tokens = problem.w.tokens;
  p.batch = static_cast<std::int32_t>(problem.w.batch);
  p.head_dim = problem.w.head_dim;
  p.pairs = p.pair_count = ladder.pairs;
  p.type = problem.w.size == 4 ? rotary::DType::kFloat32 : rotary::DType::kBFloat16;
  p.out_type = p.type;
  p.read = p.write =
      problem.layout == Layout::kHalf ? rotary::Pairing::kHalf : rotary::Pairing::kInterleaved;
  p.overlaps = overlaps;
  std::copy_n(ladder.fractions, ladder.pairs, p.fractions);
  return p;
}

enum class KernelId {
  kNaive,
  kSharedAngles,
  kVectorized,
  kLoadsFirstStreaming,
  kLoadsFirstStreamingLoads,
  kLoadsFirstStreamingStores,
  kLoadsFirst,
  kShuffle,
  kPersistent,
  kBulkCopy,
  kLibrary,
  kLibraryOverlapping,
};

inline const char* name_of(KernelId kernel) {
  constexpr const char* kNames[] = {"1 naive",
                                    "2 angles shared by a token's heads",
                                    "3 vectorised, streaming hints",
                                    "4 loads before angles, streaming",
                                    "4a the same, only loads streaming",
                                    "4b the same, only stores streaming",
                                    "5 loads before angles, no hints",
                                    "6 half pairing by warp shuffle",
                                    "7 persistent blocks, double-buffered",
                                    "8 bulk copies through shared memory",
                                    "9 src/cuda",
                                    "9 src/cuda, launches overlap"};
  return kNames[static_cast<int>(kernel)];
}

/// [tokens][rows][fragments of a head]: `heads` heads per thread, tokens for at least 96 threads.
template <class E, class Fragment>
dim3 block_of(const Workload& w, int heads) {
  const int fragments = w.head_dim / E::kPerPack / Fragment::kPacks;
  const int rows = (w.q_heads + w.k_heads + heads - 1) / heads;
  const int tokens = std::max(1, (96 + fragments * rows - 1) / (fragments * rows));
  return {static_cast<unsigned>(fragments), static_cast<unsigned>(rows),
          static_cast<unsigned>(tokens)};
}

template <class E, class Fragment, int kHeads, CacheHint kLoad, CacheHint kStore>
void loads_first(const Problem& problem, cudaStream_t stream) {
  const dim3 block = block_of<E, Fragment>(problem.w, kHeads);
  const auto tiles = static_cast<unsigned>((problem.w.tokens + block.z - 1) / block.z);
  const auto shared = block.z * static_cast<unsigned>(problem.w.head_dim) * sizeof(float);
  ladder_kernels::loads_first<E, Fragment, kHeads, kLoad, kStore>
      <<<dim3(tiles, static_cast<unsigned>(problem.w.batch)), block, shared, stream>>>(
          ladder_params_of(problem));
}

inline unsigned num_sms() {
  static const int count = [] {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), "attribute");
    return value;
  }();
  return static_cast<unsigned>(count);
}

template <class E, class Fragment, int kHeads>
void persistent(const Problem& problem, cudaStream_t stream) {
  const auto kernel =
      ladder_kernels::persistent<E, Fragment, kHeads, CacheHint::kNone, CacheHint::kNone>;
  dim3 block = block_of<E, Fragment>(problem.w, kHeads);
  block.z = 1;
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel,
                                                      static_cast<int>(block.x * block.y), 0),
        "occupancy");
  kernel<<<num_sms() * static_cast<unsigned>(resident), block, 0, stream>>>(
      ladder_params_of(problem));
}

template <class E, class Fragment>
void bulk_copy(const Problem& problem, cudaStream_t stream) {
  constexpr int kStages = 4;
  const auto kernel = ladder_kernels::bulk_copy<E, Fragment>;
  const int row = static_cast<int>(problem.w.bytes() / problem.w.rows());
  const int stage_rows = std::clamp(12288 / row, 1, 4);
  const int fragments = problem.w.head_dim / E::kPerPack / Fragment::kPacks;
  const dim3 block(static_cast<unsigned>(fragments),
                   static_cast<unsigned>(128 / fragments / stage_rows),
                   static_cast<unsigned>(stage_rows));
  const int shared = kStages * stage_rows * row;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, 128,
                                                      static_cast<std::size_t>(shared)),
        "occupancy");
  const unsigned grid = num_sms() * static_cast<unsigned>(resident);
  ladder_kernels::TileSchedule schedule{stage_rows, static_cast<std::int64_t>(grid) * stage_rows, 0,
                                        stage_rows, kStages};
  schedule.count = static_cast<int>((problem.w.rows() + schedule.step - 1) / schedule.step);
  kernel<<<grid, block, static_cast<std::size_t>(shared), stream>>>(ladder_params_of(problem),
                                                                    schedule);
}

/// One pairing; kHeads heads per thread, so that each thread has 32 bytes in flight in either.
template <class E, Layout kLayout, class Fragment, int kHeads>
void run_as(KernelId kernel, const Problem& problem, cudaStream_t stream) {
  const dim3 tokens(static_cast<unsigned>(problem.w.tokens),
                    static_cast<unsigned>(problem.w.batch));
  switch (kernel) {
    case KernelId::kNaive:
      ladder_kernels::naive<E, kLayout>
          <<<static_cast<unsigned>(problem.w.elements() / 2 / 256), 256, 0, stream>>>(
              ladder_params_of(problem));
      return;
    case KernelId::kSharedAngles:
      ladder_kernels::shared_angles<E, kLayout>
          <<<tokens, 256, 0, stream>>>(ladder_params_of(problem));
      return;
    case KernelId::kVectorized:
      ladder_kernels::vectorized<E, Fragment>
          <<<tokens, 256, 0, stream>>>(ladder_params_of(problem));
      return;
    case KernelId::kLoadsFirstStreaming:
      return loads_first<E, Fragment, kHeads, CacheHint::kStream, CacheHint::kStream>(problem,
                                                                                      stream);
    case KernelId::kLoadsFirstStreamingLoads:
      return loads_first<E, Fragment, kHeads, CacheHint::kStream, CacheHint::kNone>(problem,
                                                                                    stream);
    case KernelId::kLoadsFirstStreamingStores:
      return loads_first<E, Fragment, kHeads, CacheHint::kNone, CacheHint::kStream>(problem,
                                                                                    stream);
    case KernelId::kLoadsFirst:
      return loads_first<E, Fragment, kHeads, CacheHint::kNone, CacheHint::kNone>(problem, stream);
    case KernelId::kShuffle:
      return loads_first<E, ladder_kernels::ShuffleFragment<E>, 4, CacheHint::kNone,
                         CacheHint::kNone>(problem, stream);
    case KernelId::kPersistent:
      return persistent<E, Fragment, kHeads>(problem, stream);
    case KernelId::kBulkCopy:
      return bulk_copy<E, Fragment>(problem, stream);
    default:
      check(rotary::internal::cuda::rotate(
                params_of(problem, kernel == KernelId::kLibraryOverlapping), stream),
            "rotate");
  }
}

inline void run(KernelId kernel, const Problem& problem, cudaStream_t stream) {
  using ladder_kernels::BFloat16;
  using ladder_kernels::Float32;
  using ladder_kernels::InterleavedFragment;
  using ladder_kernels::TwoPackFragment;
  if (problem.w.size == 2 && problem.layout == Layout::kHalf) {
    run_as<BFloat16, Layout::kHalf, TwoPackFragment<BFloat16>, 1>(kernel, problem, stream);
  } else if (problem.w.size == 2) {
    run_as<BFloat16, Layout::kInterleaved, InterleavedFragment<BFloat16>, 2>(kernel, problem,
                                                                             stream);
  } else if (problem.layout == Layout::kHalf) {
    run_as<Float32, Layout::kHalf, TwoPackFragment<Float32>, 1>(kernel, problem, stream);
  } else {
    run_as<Float32, Layout::kInterleaved, InterleavedFragment<Float32>, 2>(kernel, problem, stream);
  }
  check(cudaGetLastError(), name_of(kernel));
}

/// An empty kernel with 64 bytes of parameters and the grid of a decoding step: the cost of a
/// launch.
struct EmptyParams {
  char bytes[64];
};
static __global__ void empty(const __grid_constant__ EmptyParams) {
  rotary::internal::cuda::launch_dependent_grids();
  rotary::internal::cuda::wait_on_dependent_grids();
}

inline void run_empty(const Workload& w, bool overlaps, cudaStream_t stream) {
  const bool few = w.tokens <= 64;
  const dim3 grid(static_cast<unsigned>(w.tokens), 1, few ? 4 : 2);
  check(rotary::internal::cuda::launch_kernel(empty, EmptyParams{}, grid, dim3(few ? 160 : 320), 0,
                                              overlaps, stream),
        "empty");
}

}  // namespace ladder
