// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How long rotating a tensor takes, next to copying the same bytes in the same run. A rotation in
// place reads and writes each byte once, as a copy does, so the copy's GB/s is what to aim at.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/tensor.h"

namespace {

constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kHeadDim = 128;

/// [tokens, kHeads, kHeadDim], all different, none of them subnormal.
std::vector<float> make_tensor(std::int64_t tokens) {
  std::vector<float> x(static_cast<std::size_t>(tokens * kHeads * kHeadDim));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0F + static_cast<float>(i % 1021) / 1024.0F;
  return x;
}

/// Counts every byte twice: read once, written once.
void count_bytes(benchmark::State& state, std::size_t elements) {
  const auto bytes = static_cast<std::int64_t>(elements * sizeof(float));
  state.SetBytesProcessed(state.iterations() * 2 * bytes);
}

void copy(benchmark::State& state) {
  const std::vector<float> in = make_tensor(state.range(0));
  std::vector<float> out(in.size());
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), in.size() * sizeof(float));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state, in.size());
}

void rotate(benchmark::State& state, rotary::Pairing pairing) {
  const std::int64_t tokens = state.range(0);
  std::vector<float> x = make_tensor(tokens);
  const auto view =
      rotary::TensorView::contiguous(x.data(), rotary::DType::kFloat32, {tokens, kHeads, kHeadDim});
  const rotary::Rope rope(rotary::make_frequencies({.rotary_dim = kHeadDim, .theta = 5e5}),
                          {.head_dim = kHeadDim, .pairing = pairing});
  for (auto _ : state) {
    rope.rotate(view, rotary::Positions::range());
    benchmark::ClobberMemory();
  }
  count_bytes(state, x.size());
}

void rotate_half(benchmark::State& state) { rotate(state, rotary::Pairing::kHalf); }
void rotate_interleaved(benchmark::State& state) { rotate(state, rotary::Pairing::kInterleaved); }

// Tokens: a short prompt (1 MiB, which most second-level caches hold) and a long one (16 MiB).
BENCHMARK(copy)->Arg(64)->Arg(1024);
BENCHMARK(rotate_half)->Arg(64)->Arg(1024);
BENCHMARK(rotate_interleaved)->Arg(64)->Arg(1024);

}  // namespace

BENCHMARK_MAIN();
