// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls only queue kernels: every kind of call can be captured in the strictest mode, and the
// replayed graph gives the same results, at the positions that are in memory at replay. Overlapping
// launches, streams and threads change no bit.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/every_call.h"

namespace rotary {
namespace {

/// A captured graph of calls on a stream.
class Graph {
 public:
  template <typename Calls>
  Graph(const DeviceStream& stream, const Calls& calls) {
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    try {
      calls();
    } catch (...) {
      cudaStreamEndCapture(stream.get(), &graph_);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream.get(), &graph_));
    check_cuda(cudaGraphInstantiate(&runs_, graph_, 0));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = delete;
  Graph& operator=(Graph&&) = delete;
  ~Graph() {
    cudaGraphExecDestroy(runs_);
    cudaGraphDestroy(graph_);
  }

  std::vector<cudaGraphNodeType> nodes() const {
    std::size_t count = 0;
    check_cuda(cudaGraphGetNodes(graph_, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    check_cuda(cudaGraphGetNodes(graph_, nodes.data(), &count));
    std::vector<cudaGraphNodeType> types(count);
    for (std::size_t i = 0; i < count; ++i) {
      check_cuda(cudaGraphNodeGetType(nodes[i], &types[i]));
    }
    return types;
  }
  void launch(const DeviceStream& stream) const {
    check_cuda(cudaGraphLaunch(runs_, stream.get()));
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runs_ = nullptr;
};

using Memory = std::vector<reference::Elements>;

/// The fixture's memory after a direct call on the default stream.
Memory run_directly(const CallFixture& fixture, const NamedCall& call) {
  fixture.reset();
  call.run(fixture, {});
  check_cuda(cudaDeviceSynchronize());
  return fixture.memory();
}

TEST(CudaGraph, EveryCallIsCapturedAndReplayed) {
  const DeviceStream stream;
  const std::vector<std::int64_t> others = {1, 2, 3, 4, -5, 600000, 7, 8, 9, 10, 11, 12};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const NamedCall& call : every_call()) {
      SCOPED_TRACE(call.name);
      const CallFixture fixture(dtype);
      const Memory wanted = run_directly(fixture, call);
      fixture.reset();
      check_cuda(cudaDeviceSynchronize());
      const Graph graph(stream, [&] { call.run(fixture, stream.handle()); });
      for (const cudaGraphNodeType type : graph.nodes()) {
        EXPECT_EQ(type, cudaGraphNodeTypeKernel);
      }
      EXPECT_EQ(fixture.memory() == wanted, false) << "ran during capture";
      graph.launch(stream);
      stream.wait();
      EXPECT_TRUE(fixture.memory() == wanted);
      // The same graph at other positions.
      check_cuda(
          cudaMemcpy(fixture.ids.data(), others.data(), others.size() * 8, cudaMemcpyHostToDevice));
      check_cuda(cudaMemcpy(fixture.first.data(), others.data(), 24, cudaMemcpyHostToDevice));
      const Memory moved = run_directly(fixture, call);
      fixture.reset();
      check_cuda(cudaDeviceSynchronize());
      graph.launch(stream);
      stream.wait();
      EXPECT_TRUE(fixture.memory() == moved);
    }
  }
}

TEST(CudaGraph, OneLaunchForQAndK) {
  const DeviceStream stream;
  const CallFixture fixture;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const NamedCall call = every_call()[i];
    const Graph graph(stream, [&] { call.run(fixture, stream.handle()); });
    EXPECT_EQ(graph.nodes().size(), 1u) << call.name;
  }
}

// Dependent calls with overlapping launches, queued and captured.
TEST(CudaGraph, OverlappingChains) {
  const DeviceStream stream;
  const auto calls = every_call();
  for (const bool captured : {false, true}) {
    const CallFixture fixture;
    const auto run_all = [&](bool overlap) {
      for (int round = 0; round < 3; ++round) {
        for (const NamedCall& call : calls) call.run(fixture, stream.handle(overlap));
      }
    };
    fixture.reset();
    check_cuda(cudaDeviceSynchronize());
    run_all(false);
    stream.wait();
    const Memory wanted = fixture.memory();
    fixture.reset();
    check_cuda(cudaDeviceSynchronize());
    if (captured) {
      const Graph graph(stream, [&] { run_all(true); });
      graph.launch(stream);
      stream.wait();
    } else {
      run_all(true);
      stream.wait();
    }
    const Memory got = fixture.memory();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == wanted[i]) << i;
  }
}

// Tensors large enough that the last blocks of one call run beside the first of the next: A to B to
// A, repeatedly.
TEST(CudaGraph, OverlapWaitsForItsInput) {
  const DeviceStream stream;
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
    const Rope rope(make_frequencies({.rotary_dim = 128, .theta = 1e4}),
                    {.head_dim = 128, .pairing = pairing});
    for (const std::int64_t tokens : {1, 7, 500, 4096}) {
      const PlacedTensor x(Layout::kContiguous, DType::kBFloat16, {1, tokens, 8, 128}, 1, 0);
      std::vector<reference::Elements> results;
      for (const bool overlap : {false, true}) {
        const DeviceTensor a(x);
        const DeviceTensor b(x);
        check_cuda(cudaDeviceSynchronize());
        const Stream on = stream.handle(overlap);
        for (int i = 0; i < 40; ++i) {
          rope.rotate(a.view(), b.view(), Positions::range(i), on);
          rope.shift(b.view(), Positions::at(-3), on);
          rope.adjoint(b.view(), a.view(), Positions::range(2 * i), on);
        }
        stream.wait();
        results.push_back(a.downloaded());
      }
      EXPECT_TRUE(results[0] == results[1]) << tokens;
      EXPECT_FALSE(results[0] == x.memory());
    }
  }
}

// Four threads, each with its own stream and tensors, share one Rope.
TEST(CudaGraph, StreamsAndThreads) {
  constexpr int kThreads = 4;
  const auto calls = every_call();
  const CallFixture first;
  std::vector<Memory> wanted;
  wanted.reserve(calls.size());
  for (const NamedCall& call : calls) wanted.push_back(run_directly(first, call));
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const DeviceStream stream;
      const CallFixture fixture;
      for (int round = 0; round < 3; ++round) {
        for (std::size_t c = 0; c < calls.size(); ++c) {
          fixture.reset();
          check_cuda(cudaStreamSynchronize(nullptr));
          calls[c].run(fixture, stream.handle(round == 1));
          stream.wait();
          if (!(fixture.memory() == wanted[c])) ++wrong[static_cast<std::size_t>(i)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

}  // namespace
}  // namespace rotary
