// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Workloads, memory and timers of the ladder.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ladder_kernels.cuh"

namespace harness {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Workload {
  std::string name;
  std::int64_t batch;
  std::int64_t tokens;
  int q_heads;
  int k_heads;
  int head_dim;
  int size;  // bytes per element: 2 is bfloat16, 4 is float32

  std::int64_t rows() const { return batch * tokens; }
  std::int64_t elements() const { return rows() * (q_heads + k_heads) * head_dim; }
  std::int64_t bytes() const { return elements() * size; }  // q and k, read or written once
  std::int64_t q_bytes() const { return rows() * q_heads * head_dim * size; }
};

/// A prefill, B and D training, E RoFormer-base, F the same in float32.
inline std::vector<Workload> workloads() {
  return {{"A", 1, 131072, 32, 8, 128, 2},
          {"B", 8, 4096, 32, 8, 128, 2},
          {"D", 4, 8192, 32, 32, 128, 2},
          {"E", 64, 512, 12, 12, 64, 2},
          {"F", 64, 512, 12, 12, 64, 4}};
}

/// Values in (-4, 4) from a hashed counter.
template <class E>
__global__ void fill(typename E::Storage* to, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    std::uint64_t v = (static_cast<std::uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9u;
    v ^= v >> 32;
    to[i] = E::store(static_cast<float>(static_cast<std::int32_t>(v)) * 0x1p-29f);
  }
}

static __global__ void count_differences(const uint4* a, const uint4* b, std::int64_t count,
                                         unsigned long long* differences) {
  unsigned long long mine = 0;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const uint4 x = a[i];
    const uint4 y = b[i];
    mine += (x.x != y.x) + (x.y != y.y) + (x.z != y.z) + (x.w != y.w);
  }
  if (mine != 0) atomicAdd(differences, mine);
}

/// Pools that hold every workload several times. Calls cycle through these sets, so that none finds
/// its memory in L2.
class Memory {
 public:
  Memory(std::int64_t largest, int times) : bytes_(largest * times) {
    check(cudaMalloc(reinterpret_cast<void**>(&in), bytes_), "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void**>(&out), bytes_), "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void**>(&expected), largest), "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void**>(&counter_), sizeof(*counter_)), "cudaMalloc");
  }
  int sets(const Workload& w) const { return static_cast<int>(bytes_ / w.bytes()); }
  void fill_input(const Workload& w) const {
    if (w.size == 2) {
      fill<ladder_kernels::BFloat16>
          <<<1024, 256>>>(reinterpret_cast<std::uint16_t*>(in), bytes_ / 2, 7);
    } else {
      fill<ladder_kernels::Float32><<<1024, 256>>>(reinterpret_cast<float*>(in), bytes_ / 4, 7);
    }
    check(cudaDeviceSynchronize(), "fill");
  }
  std::uint64_t differences(const void* a, const void* b, std::int64_t bytes) const {
    std::uint64_t host = 0;
    check(cudaMemset(counter_, 0, sizeof(*counter_)), "cudaMemset");
    count_differences<<<1024, 256>>>(static_cast<const uint4*>(a), static_cast<const uint4*>(b),
                                     bytes / 16, counter_);
    check(cudaMemcpy(&host, counter_, sizeof(host), cudaMemcpyDeviceToHost), "differences");
    return host;
  }
  char* in = nullptr;
  char* out = nullptr;
  char* expected = nullptr;  // one set

 private:
  std::int64_t bytes_;
  unsigned long long* counter_ = nullptr;
};

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

class Clock {
 public:
  Clock() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  /// us per call in a graph of `calls` calls, median of `repeats` replays.
  double in_graph(int calls, int repeats, const std::function<void(int)>& call) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < calls; ++i) call(i);
    check(cudaStreamEndCapture(stream, &graph), "end of capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    std::vector<double> times;
    for (int r = 0; r <= repeats; ++r) {
      check(cudaEventRecord(begin_, stream), "record");
      check(cudaGraphLaunch(exec, stream), "launch");
      const double us = elapsed();
      if (r > 0) times.push_back(us / calls);
    }
    check(cudaGraphExecDestroy(exec), "destroy");
    check(cudaGraphDestroy(graph), "destroy");
    return median(times);
  }
  /// us per call without a graph, each between two events, all queued: median.
  double queued(int calls, const std::function<void(int)>& call) {
    std::vector<cudaEvent_t> events(static_cast<std::size_t>(calls) + 1);
    for (cudaEvent_t& event : events) check(cudaEventCreate(&event), "event");
    check(cudaEventRecord(events[0], stream), "record");
    for (int i = 0; i < calls; ++i) {
      call(i);
      check(cudaEventRecord(events[static_cast<std::size_t>(i) + 1], stream), "record");
    }
    check(cudaStreamSynchronize(stream), "synchronize");
    std::vector<double> times;
    for (std::size_t i = 1; i < events.size(); ++i) {
      float milliseconds = 0.0f;
      check(cudaEventElapsedTime(&milliseconds, events[i - 1], events[i]), "elapsed");
      if (i > 4) times.push_back(1e3 * milliseconds);
    }
    for (cudaEvent_t event : events) check(cudaEventDestroy(event), "destroy");
    return median(times);
  }
  cudaStream_t stream = nullptr;

 private:
  double elapsed() {
    float milliseconds = 0.0f;
    check(cudaEventRecord(end_, stream), "record");
    check(cudaEventSynchronize(end_), "synchronize");
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "elapsed");
    return 1e3 * milliseconds;
  }
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace harness
