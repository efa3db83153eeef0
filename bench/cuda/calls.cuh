// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every rung as a function of the same call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "accuracy.cuh"
#include "bulk.cuh"
#include "cuda/device/blocks.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/rotate.h"
#include "harness.cuh"
#include "rungs.cuh"

namespace ladder {

using harness::check;
using harness::Workload;
using rungs::Hint;
using rungs::Layout;

/// One rotation of q and k of a workload.
struct Turn {
  Workload w;
  Layout layout;
  const char* in;
  char* out;
  std::int64_t start = 0;
  const std::int64_t* ids = nullptr;  // [rows], device memory
  float sign = 1.0f;                  // -1: the adjoint
};

inline rungs::Call call_of(const Turn& t) {
  rungs::Call call{};
  call.in[0] = t.in;
  call.in[1] = t.in + t.w.q_bytes();
  call.out[0] = t.out;
  call.out[1] = t.out + t.w.q_bytes();
  call.heads[0] = t.w.q_heads;
  call.heads[1] = t.w.k_heads;
  call.pairs = t.w.head_dim / 2;
  call.tokens = t.w.tokens;
  call.rows = t.w.rows();
  call.ids = t.ids;
  call.start = t.start;
  call.sign = t.sign;
  for (int i = 0; i < call.pairs; ++i) {
    call.fractions[i] = rotary::internal::to_turns(accuracy::frequency_of(i, call.pairs)).fraction;
  }
  return call;
}

inline rotary::internal::cuda::SimpleParams params_of(const Turn& t, bool overlaps) {
  const rungs::Call call = call_of(t);
  rotary::internal::cuda::SimpleParams p{};
  p.num_operands = 2;
  for (int o = 0; o < 2; ++o) {
    auto& x = p.operands[o];
    x.in = call.in[o];
    x.out = call.out[o];
    x.in_element = x.out_element = t.w.size;
    x.in_head = x.out_head = static_cast<std::int64_t>(t.w.head_dim) * t.w.size;
    x.in_token = x.out_token = x.in_head * call.heads[o];
    x.in_batch = x.out_batch = x.in_token * t.w.tokens;
    p.first_head[o] = p.num_heads;
    p.num_heads += call.heads[o];
  }
  p.positions.start = t.start;
  if (t.ids != nullptr) {
    p.positions.step = 0;
    p.positions.ids = t.ids;
    p.positions.batch_stride = t.w.tokens;
    p.positions.token_stride = 1;
  }
  p.size.sin_float = t.sign;
  p.tokens = t.w.tokens;
  p.batch = static_cast<std::int32_t>(t.w.batch);
  p.head_dim = t.w.head_dim;
  p.pairs = p.pair_count = call.pairs;
  p.type = t.w.size == 4 ? rotary::DType::kFloat32 : rotary::DType::kBFloat16;
  p.out_type = p.type;
  p.read = p.write =
      t.layout == Layout::kHalf ? rotary::Pairing::kHalf : rotary::Pairing::kInterleaved;
  p.overlaps = overlaps;
  std::copy_n(call.fractions, call.pairs, p.fractions);
  return p;
}

enum class Rung {
  kNaive,
  kSharedAngles,
  kPacks,
  kEarlyStreaming,
  kEarlyStreamingLoads,
  kEarlyStreamingStores,
  kEarly,
  kExchanged,
  kPipelined,
  kBulk,
  kLibrary,
  kLibraryOverlapping,
};

inline const char* name_of(Rung rung) {
  constexpr const char* kNames[] = {"1 naive",
                                    "2 angles shared by a token's heads",
                                    "3 packs of 16 bytes, streaming",
                                    "4 loads before angles, streaming",
                                    "4a the same, only loads streaming",
                                    "4b the same, only stores streaming",
                                    "5 loads before angles, no hints",
                                    "6 halves exchanged between lanes",
                                    "7 grid that stays, next token loaded",
                                    "8 bulk copies through shared memory",
                                    "9 src/cuda",
                                    "9 src/cuda, launches overlap"};
  return kNames[static_cast<int>(rung)];
}

/// Units of a head, rows for `heads` of a thread, and tokens for at least 96 threads.
template <class E, class How>
dim3 block_of(const Workload& w, int heads) {
  const int units = w.head_dim / E::kPerPack / How::kPacks;
  const int rows = (w.q_heads + w.k_heads + heads - 1) / heads;
  const int tokens = std::max(1, (96 + units * rows - 1) / (units * rows));
  return {static_cast<unsigned>(units), static_cast<unsigned>(rows), static_cast<unsigned>(tokens)};
}

template <class E, class How, int kHeads, Hint kLoad, Hint kStore>
void early(const Turn& t, cudaStream_t stream) {
  const dim3 block = block_of<E, How>(t.w, kHeads);
  const auto tiles = static_cast<unsigned>((t.w.tokens + block.z - 1) / block.z);
  const auto shared = block.z * static_cast<unsigned>(t.w.head_dim) * sizeof(float);
  rungs::early<E, How, kHeads, kLoad, kStore>
      <<<dim3(tiles, static_cast<unsigned>(t.w.batch)), block, shared, stream>>>(call_of(t));
}

inline unsigned multiprocessors() {
  static const int count = [] {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), "attribute");
    return value;
  }();
  return static_cast<unsigned>(count);
}

template <class E, class How, int kHeads>
void pipelined(const Turn& t, cudaStream_t stream) {
  const auto kernel = rungs::pipelined<E, How, kHeads, Hint::kNone, Hint::kNone>;
  dim3 block = block_of<E, How>(t.w, kHeads);
  block.z = 1;
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel,
                                                      static_cast<int>(block.x * block.y), 0),
        "occupancy");
  kernel<<<multiprocessors() * static_cast<unsigned>(resident), block, 0, stream>>>(call_of(t));
}

template <class E, class How>
void bulk(const Turn& t, cudaStream_t stream) {
  constexpr int kStages = 4;
  const auto kernel = rungs::bulk<E, How>;
  const int row = static_cast<int>(t.w.bytes() / t.w.rows());
  const int group = std::clamp(12288 / row, 1, 4);
  const int units = t.w.head_dim / E::kPerPack / How::kPacks;
  const dim3 block(static_cast<unsigned>(units), static_cast<unsigned>(128 / units / group),
                   static_cast<unsigned>(group));
  const int shared = kStages * group * row;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, 128,
                                                      static_cast<std::size_t>(shared)),
        "occupancy");
  const unsigned grid = multiprocessors() * static_cast<unsigned>(resident);
  rungs::Split split{group, static_cast<std::int64_t>(grid) * group, 0, group, kStages};
  split.count = static_cast<int>((t.w.rows() + split.step - 1) / split.step);
  kernel<<<grid, block, static_cast<std::size_t>(shared), stream>>>(call_of(t), split);
}

/// Pairing by pairing; kHeads of a thread so that either has 32 bytes of a head in flight.
template <class E, Layout kLayout, class How, int kHeads>
void run_as(Rung rung, const Turn& t, cudaStream_t stream) {
  const dim3 tokens(static_cast<unsigned>(t.w.tokens), static_cast<unsigned>(t.w.batch));
  switch (rung) {
    case Rung::kNaive:
      rungs::naive<E, kLayout>
          <<<static_cast<unsigned>(t.w.elements() / 2 / 256), 256, 0, stream>>>(call_of(t));
      return;
    case Rung::kSharedAngles:
      rungs::shared_angles<E, kLayout><<<tokens, 256, 0, stream>>>(call_of(t));
      return;
    case Rung::kPacks:
      rungs::packs<E, How><<<tokens, 256, 0, stream>>>(call_of(t));
      return;
    case Rung::kEarlyStreaming:
      return early<E, How, kHeads, Hint::kStream, Hint::kStream>(t, stream);
    case Rung::kEarlyStreamingLoads:
      return early<E, How, kHeads, Hint::kStream, Hint::kNone>(t, stream);
    case Rung::kEarlyStreamingStores:
      return early<E, How, kHeads, Hint::kNone, Hint::kStream>(t, stream);
    case Rung::kEarly:
      return early<E, How, kHeads, Hint::kNone, Hint::kNone>(t, stream);
    case Rung::kExchanged:
      return early<E, rungs::Exchanged<E>, 4, Hint::kNone, Hint::kNone>(t, stream);
    case Rung::kPipelined:
      return pipelined<E, How, kHeads>(t, stream);
    case Rung::kBulk:
      return bulk<E, How>(t, stream);
    default:
      check(rotary::internal::cuda::rotate(params_of(t, rung == Rung::kLibraryOverlapping), stream),
            "rotate");
  }
}

inline void run(Rung rung, const Turn& t, cudaStream_t stream) {
  using rungs::BFloat16;
  using rungs::Float32;
  using rungs::Neighbours;
  using rungs::TwoPacks;
  if (t.w.size == 2 && t.layout == Layout::kHalf) {
    run_as<BFloat16, Layout::kHalf, TwoPacks<BFloat16>, 1>(rung, t, stream);
  } else if (t.w.size == 2) {
    run_as<BFloat16, Layout::kNeighbours, Neighbours<BFloat16>, 2>(rung, t, stream);
  } else if (t.layout == Layout::kHalf) {
    run_as<Float32, Layout::kHalf, TwoPacks<Float32>, 1>(rung, t, stream);
  } else {
    run_as<Float32, Layout::kNeighbours, Neighbours<Float32>, 2>(rung, t, stream);
  }
  check(cudaGetLastError(), name_of(rung));
}

/// Nothing but the launch: what 64 bytes of parameters and the blocks of a decoding step cost.
struct Nothing {
  char bytes[64];
};
static __global__ void empty(const __grid_constant__ Nothing) {
  rotary::internal::cuda::let_next_launch_begin();
  rotary::internal::cuda::wait_for_previous_launch();
}

inline void run_empty(const Workload& w, bool overlaps, cudaStream_t stream) {
  const bool few = w.tokens <= 64;
  const dim3 grid(static_cast<unsigned>(w.tokens), 1, few ? 4 : 2);
  check(rotary::internal::cuda::launch_kernel(empty, Nothing{}, grid, dim3(few ? 160 : 320), 0,
                                              overlaps, stream),
        "empty");
}

}  // namespace ladder
