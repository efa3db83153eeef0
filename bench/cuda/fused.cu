// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The fused kernels (docs/fused.md) against a copy of the same bytes, in bfloat16: norm and
// rotation, their gradient, and the store into a paged cache, at the shapes of training and of
// prefill, and for decoding steps.
//   fused [shapes, such as AB] [repeats]
//
// As in ladder.cu, times are per call in a graph of overlapping calls that cycle through gigabytes
// of tensors: median of replays, gaps between launches included. The copies are measured likewise,
// right after the calls.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "harness.cuh"
#include "rotary/frequencies.h"
#include "rotary/norm.h"
#include "rotary/rope.h"

namespace {

using harness::check;
using harness::Clock;
using rotary::DType;
using rotary::Pairing;
using rotary::TensorView;

constexpr rotary::Device kGpu{rotary::DeviceType::kCuda, 0};
constexpr std::int64_t kPage = 16;
constexpr std::int64_t kElementBytes = 2;

struct Shape {
  char name;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;

  std::int64_t q_bytes() const { return tokens * heads * head_dim * kElementBytes; }
  std::int64_t k_bytes() const { return tokens * kv_heads * head_dim * kElementBytes; }
};

constexpr Shape kShapes[] = {{'A', 131072, 32, 8, 128},
                             {'B', 32768, 32, 8, 128},
                             {'C', 16384, 16, 16, 64},
                             {'D', 8192, 40, 8, 128}};
constexpr std::int64_t kDecodeTokens[] = {1, 8, 64, 256};

template <typename T>
T* allocate(std::int64_t count) {
  T* memory = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&memory), static_cast<std::size_t>(count) * sizeof(T)),
        "cudaMalloc");
  return memory;
}

template <typename T>
T* on_device(const std::vector<T>& values) {
  T* const memory = allocate<T>(static_cast<std::int64_t>(values.size()));
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copy");
  return memory;
}

/// Tensors of a shape in each of the pools, in as many sets as fit.
class FusedBench {
 public:
  explicit FusedBench(int repeats) : repeats_(repeats) {
    for (char*& pool : pools_) {
      pool = allocate<char>(kPoolBytes);
      harness::fill<ladder_kernels::BFloat16>
          <<<1024, 256>>>(reinterpret_cast<std::uint16_t*>(pool), kPoolBytes / 2, 7);
    }
    check(cudaDeviceSynchronize(), "fill");
    weights_ = allocate<std::uint16_t>(512);
    harness::fill<ladder_kernels::BFloat16><<<1, 256>>>(weights_, 512, 3);
    sums_ = allocate<double>(1024);
    std::vector<std::int64_t> ids(kMaxTokens);
    std::iota(ids.begin(), ids.end(), 0);
    ids_ = on_device(ids);
    slots_ = allocate<std::int64_t>(kMaxTokens);
  }

  void measure(const Shape& s, Pairing pairing) {
    prepare(s, pairing, s.tokens / kPage, kPage);
    std::printf("%c %s\n", s.name, pairing == Pairing::kHalf ? "half" : "interleaved");
    const std::int64_t qk = s.q_bytes() + s.k_bytes();
    line("rotate", 2 * qk, [this](int i) { rotate(i); });
    line("norm and rotation", 2 * qk, [this](int i) { norm_rotate(i); });
    line("its gradient", 3 * qk, [this](int i) { gradient(i); });
    line("append", 2 * (qk + s.k_bytes()), [this](int i) { append(i, rotary::NormKind::kNone); });
    line("norm and append", 2 * (qk + s.k_bytes()),
         [this](int i) { append(i, rotary::NormKind::kRms); });
    line("rotate to 8 bits", qk + qk / 2, [this](int i) { rotate_float8(i); });
  }

  void measure_steps() {
    std::printf("Decoding steps, half, us a call in a graph of 64\n%-20s", "tokens");
    for (const std::int64_t tokens : kDecodeTokens)
      std::printf("%8lld", static_cast<long long>(tokens));
    std::printf("\n");
    step_line("rotate", [this](int i) { rotate(i); });
    step_line("norm and rotation", [this](int i) { norm_rotate(i); });
    step_line("append", [this](int i) { append(i, rotary::NormKind::kNone); });
    step_line("norm and append", [this](int i) { append(i, rotary::NormKind::kRms); });
  }

 private:
  static constexpr std::int64_t kPoolBytes = std::int64_t{6} << 30;
  static constexpr std::int64_t kMaxTokens = 131072;

  /// `page_tokens` of the tokens go to each page.
  void prepare(const Shape& s, Pairing pairing, std::int64_t pages, std::int64_t page_tokens) {
    shape_ = s;
    rope_ = rotary::Rope(rotary::make_frequencies({.rotary_dim = s.head_dim, .theta = 5e5}),
                         {.head_dim = s.head_dim, .pairing = pairing});
    pages_ = pages;
    std::vector<std::int64_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    std::vector<std::int64_t> slots(static_cast<std::size_t>(s.tokens));
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      slots[static_cast<std::size_t>(t)] =
          order[static_cast<std::size_t>(t / page_tokens)] * kPage + t % page_tokens;
    }
    check(cudaMemcpy(slots_, slots.data(), slots.size() * sizeof(slots[0]), cudaMemcpyHostToDevice),
          "slots");
    cudaFree(workspace_);
    workspace_ = nullptr;
  }

  rotary::Stream stream() const { return {.handle = clock_.stream, .overlap = true}; }
  std::int64_t set_bytes() const { return shape_.q_bytes() + 2 * shape_.k_bytes(); }
  std::int64_t sets() const { return std::min<std::int64_t>(kPoolBytes / set_bytes(), 64); }
  char* set(int pool, int i) const { return pools_[pool] + i % sets() * set_bytes(); }
  TensorView view(char* memory, std::int64_t heads, DType type = DType::kBFloat16) const {
    return TensorView::contiguous(memory, type, {shape_.tokens, heads, shape_.head_dim}, kGpu);
  }
  TensorView q(int pool, int i) const { return view(set(pool, i), shape_.heads); }
  TensorView k(int pool, int i) const {
    return view(set(pool, i) + shape_.q_bytes(), shape_.kv_heads);
  }
  TensorView v(int pool, int i) const {
    return view(set(pool, i) + shape_.q_bytes() + shape_.k_bytes(), shape_.kv_heads);
  }
  /// Of keys (0) or values (1), in the pool of results.
  TensorView cache(int i, int which) const {
    const std::int64_t bytes = pages_ * kPage * shape_.kv_heads * shape_.head_dim * kElementBytes;
    char* const memory = is_step() ? pools_[2] : set(1, i) + shape_.q_bytes();
    return TensorView::contiguous(memory + which * bytes, DType::kBFloat16,
                                  {pages_, kPage, shape_.kv_heads, shape_.head_dim}, kGpu);
  }
  /// A step stores each of its tokens in a page of its own, of a cache as large as A's.
  bool is_step() const { return shape_.name == 'S'; }
  rotary::ConstTensorView weight(int k) const {
    return TensorView::contiguous(weights_ + k * 256, DType::kBFloat16, {shape_.head_dim}, kGpu);
  }
  rotary::Positions positions() const {
    return rotary::Positions::ids(
        TensorView::contiguous(ids_, DType::kInt64, {shape_.tokens}, kGpu));
  }

  void rotate(int i) const {
    rope_.rotate({{q(0, i), q(1, i)}, {k(0, i), k(1, i)}}, positions(), stream());
  }
  void rotate_float8(int i) const {
    char* const to = set(1, i);
    rope_.rotate({{q(0, i), view(to, shape_.heads, DType::kFloat8E4M3)},
                  {k(0, i), view(to + shape_.q_bytes() / 2, shape_.kv_heads, DType::kFloat8E4M3)}},
                 positions(), stream());
  }
  static constexpr rotary::HeadNorm kNorm{.eps = 1e-6, .sum_lanes = 32};
  void norm_rotate(int i) const {
    rope_.norm_rotate({{{q(0, i), q(1, i)}, weight(0)}, {{k(0, i), k(1, i)}, weight(1)}}, kNorm,
                      positions(), stream());
  }
  void gradient(int i) {
    const auto size = static_cast<std::size_t>(shape_.head_dim);
    const std::vector<rotary::NormGradientOperand> operands{{.in = q(0, i),
                                                             .grad_out = q(2, i),
                                                             .grad_in = q(1, i),
                                                             .weight = weight(0),
                                                             .grad_weight = {sums_, size}},
                                                            {.in = k(0, i),
                                                             .grad_out = k(2, i),
                                                             .grad_in = k(1, i),
                                                             .weight = weight(1),
                                                             .grad_weight = {sums_ + 512, size}}};
    const std::size_t bytes = rope_.norm_gradient_workspace(operands, kNorm);
    if (workspace_ == nullptr) workspace_ = allocate<std::byte>(static_cast<std::int64_t>(bytes));
    rope_.norm_gradient(operands, kNorm, positions(), {workspace_, bytes}, stream());
  }
  void append(int i, rotary::NormKind norm) const {
    rotary::KvAppend call;
    call.q = rotary::Operand(q(0, i), q(1, i));
    call.k = k(0, i);
    call.v = v(0, i);
    call.keys.data = cache(i, 0);
    call.values.data = cache(i, 1);
    call.slots =
        rotary::Slots::flat(TensorView::contiguous(slots_, DType::kInt64, {shape_.tokens}, kGpu));
    call.norm = kNorm;
    call.norm.kind = norm;
    if (norm != rotary::NormKind::kNone) {
      call.q_weight = weight(0);
      call.k_weight = weight(1);
    }
    rope_.append(call, positions(), stream());
  }

  void copy(std::int64_t bytes, int i) const {
    // In parts: single copies of half a gigabyte and more are slower inside a graph.
    constexpr std::int64_t kPartBytes = std::int64_t{256} << 20;
    const std::int64_t count = std::min<std::int64_t>(kPoolBytes / bytes, 64);
    const std::int64_t at = i % count * bytes;
    for (std::int64_t b = 0; b < bytes; b += kPartBytes) {
      check(cudaMemcpyAsync(pools_[1] + at + b, pools_[0] + at + b,
                            static_cast<std::size_t>(std::min(kPartBytes, bytes - b)),
                            cudaMemcpyDeviceToDevice, clock_.stream),
            "copy");
    }
  }

  void line(const char* what, std::int64_t bytes, const std::function<void(int)>& call) {
    const int calls = std::max(4, static_cast<int>(16e9 / static_cast<double>(bytes)));
    call(0);  // allocates what it needs
    const double us = clock_.in_graph(calls, repeats_, call);
    const double copied = clock_.in_graph(calls, repeats_, [&](int i) { copy(bytes / 2, i); });
    const double queued = clock_.queued(40, call);
    const double queued_copy = clock_.queued(40, [&](int i) { copy(bytes / 2, i); });
    std::printf("  %-20s %9.2f us (%.3f of the copy's %.2f)   one by one %9.2f (%.3f)\n", what, us,
                copied / us, copied, queued, queued_copy / queued);
    std::fflush(stdout);
  }

  void step_line(const char* what, const std::function<void(int)>& call) {
    std::printf("%-20s", what);
    for (const std::int64_t tokens : kDecodeTokens) {
      prepare({'S', tokens, 32, 8, 128}, Pairing::kHalf, kMaxTokens / kPage, 1);
      std::printf("%8.3f", clock_.in_graph(64, 61, [&](int) { call(0); }));
    }
    std::printf("\n");
  }

  int repeats_;
  Clock clock_;
  Shape shape_{};
  rotary::Rope rope_{rotary::make_frequencies({.rotary_dim = 128, .theta = 5e5}),
                     {.head_dim = 128, .pairing = Pairing::kHalf}};
  char* pools_[3] = {};  // inputs, results, gradients
  std::uint16_t* weights_ = nullptr;
  double* sums_ = nullptr;
  std::int64_t* ids_ = nullptr;
  std::int64_t* slots_ = nullptr;
  std::int64_t pages_ = 0;
  std::byte* workspace_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string shapes = argc > 1 ? argv[1] : "ABCD";
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
  FusedBench bench(argc > 2 ? std::atoi(argv[2]) : 9);
  for (const Shape& s : kShapes) {
    if (shapes.find(s.name) == std::string::npos) continue;
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) bench.measure(s, pairing);
  }
  bench.measure_steps();
  return 0;
}
