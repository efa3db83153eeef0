// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Measurements through the public API that the ladder has no kernels for: 8-bit output, gradients,
// and the host cost of a call.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "harness.cuh"
#include "rotary/frequencies.h"
#include "rotary/rope.h"

namespace ladder {

using harness::Clock;
using harness::Memory;
using harness::Workload;
using rotary::DType;

/// q and k of a workload in device memory.
struct QueryKey {
  rotary::TensorView q;
  rotary::TensorView k;
};

inline QueryKey views_of(const Workload& w, void* data, DType type) {
  const rotary::Device gpu{rotary::DeviceType::kCuda, 0};
  const auto size = static_cast<std::int64_t>(rotary::size_of(type));
  auto* const bytes = static_cast<char*>(data);
  const std::int64_t q_bytes = w.rows() * w.q_heads * w.head_dim * size;
  return {
      rotary::TensorView::contiguous(bytes, type, {w.batch, w.tokens, w.q_heads, w.head_dim}, gpu),
      rotary::TensorView::contiguous(bytes + q_bytes, type,
                                     {w.batch, w.tokens, w.k_heads, w.head_dim}, gpu)};
}

inline rotary::Rope rope_of(const Workload& w, rotary::Pairing pairing) {
  return {rotary::make_frequencies({.rotary_dim = w.head_dim, .theta = 1e4}),
          {.head_dim = w.head_dim, .pairing = pairing}};
}

class RopeBench {
 public:
  RopeBench(const Memory& memory, Clock& clock, double rate)
      : memory_(memory), clock_(clock), rate_(rate) {}

  void print(const std::vector<Workload>& workloads) {
    std::printf("\nThrough Rope, fraction of the copy rate (bytes read and written)\n");
    for (const auto pairing : {rotary::Pairing::kHalf, rotary::Pairing::kInterleaved}) {
      line("8-bit results, ", pairing, workloads,
           [this](const Workload& w, const auto& rope) { return float8(w, rope); });
      line("gradients of parameters, ", pairing, workloads,
           [this](const Workload& w, const auto& rope) { return gradient(w, rope); });
    }
    std::printf("host, us a call of q and k, 1 token: %.2f; 131072 tokens, queued: %.2f\n",
                host_cost({"C", 1, 1, 32, 8, 128, 2}, 4000), host_cost(workloads[0], 200));
  }

 private:
  template <typename Measure>
  void line(const char* what, rotary::Pairing pairing, const std::vector<Workload>& workloads,
            const Measure& measure) {
    std::printf("%-25s%-12s", what, pairing == rotary::Pairing::kHalf ? "half" : "interleaved");
    for (const Workload& w : workloads) {
      memory_.fill_input(w);
      std::printf("   %s %.3f", w.name.c_str(), measure(w, rope_of(w, pairing)));
    }
    std::printf("\n");
  }

  static DType type_of(const Workload& w) {
    return w.size == 4 ? DType::kFloat32 : DType::kBFloat16;
  }
  void* set_address(const Workload& w, char* base, int set) const {
    return base + set % memory_.sets(w) * w.bytes();
  }
  static int calls_for(const Workload& w) {
    return std::max(3, static_cast<int>(8.4e9 / static_cast<double>(w.bytes())));
  }

  double float8(const Workload& w, const rotary::Rope& rope) {
    const double us = clock_.in_graph(calls_for(w), 9, [&](int i) {
      const QueryKey in = views_of(w, set_address(w, memory_.in, i), type_of(w));
      const QueryKey out = views_of(w, set_address(w, memory_.out, i), DType::kFloat8E4M3);
      rope.rotate({{in.q, out.q}, {in.k, out.k}}, rotary::Positions::range(0), {clock_.stream});
    });
    return static_cast<double>(w.bytes() + w.elements()) / us / rate_;
  }

  double gradient(const Workload& w, const rotary::Rope& rope) {
    const std::size_t bytes = rope.gradient_workspace(w.batch, w.tokens);
    std::byte* workspace = nullptr;
    double* results = nullptr;  // [pairs + 1]
    harness::check(cudaMalloc(reinterpret_cast<void**>(&workspace), bytes), "workspace");
    harness::check(cudaMalloc(reinterpret_cast<void**>(&results), 8 * 1024), "results");
    const auto pairs = static_cast<std::size_t>(w.head_dim) / 2;
    const rotary::ParameterGradients wanted{
        .frequencies = {results, pairs}, .scale = results + pairs, .workspace = {workspace, bytes}};
    const double us = clock_.in_graph(calls_for(w), 9, [&](int i) {
      const QueryKey in = views_of(w, set_address(w, memory_.in, i), type_of(w));
      const QueryKey grad = views_of(w, set_address(w, memory_.out, i), type_of(w));
      rope.gradient({{.in = in.q, .grad_out = grad.q}, {.in = in.k, .grad_out = grad.k}},
                    rotary::Positions::range(0), wanted, {clock_.stream});
    });
    harness::check(cudaFree(workspace), "cudaFree");
    harness::check(cudaFree(results), "cudaFree");
    return 2.0 * static_cast<double>(w.bytes()) / us / rate_;
  }

  /// us until a call returns, with the GPU busy.
  double host_cost(const Workload& w, int calls) {
    const rotary::Rope rope = rope_of(w, rotary::Pairing::kHalf);
    const QueryKey in = views_of(w, memory_.in, type_of(w));
    const QueryKey out = views_of(w, memory_.out, type_of(w));
    const auto call = [&] {
      rope.rotate({{in.q, out.q}, {in.k, out.k}}, rotary::Positions::range(0), {clock_.stream});
    };
    call();
    harness::check(cudaStreamSynchronize(clock_.stream), "synchronize");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    harness::check(cudaStreamSynchronize(clock_.stream), "synchronize");
    return spent.count() / calls;
  }

  const Memory& memory_;
  Clock& clock_;
  double rate_;
};

}  // namespace ladder
