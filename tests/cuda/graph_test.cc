// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls only queue kernels: every kind of call can be captured while nothing that waits or
// allocates is allowed, and the graph does what calls do, at the positions that lie in memory then.
// Overlapping launches, streams and threads change no bit.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/every_call.h"

namespace rotary {
namespace {

/// What calls on a stream queue, as a graph.
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

/// What a call makes of the desk directly, on the default stream.
Memory directly(const Desk& desk, const NamedCall& call) {
  desk.reset();
  call.run(desk, {});
  check_cuda(cudaDeviceSynchronize());
  return desk.memory();
}

TEST(CudaGraph, EveryCallIsCapturedAndReplayed) {
  const DeviceStream stream;
  const std::vector<std::int64_t> others = {1, 2, 3, 4, -5, 600000, 7, 8, 9, 10, 11, 12};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const NamedCall& call : every_call()) {
      SCOPED_TRACE(call.name);
      const Desk desk(dtype);
      const Memory wanted = directly(desk, call);
      desk.reset();
      check_cuda(cudaDeviceSynchronize());
      const Graph graph(stream, [&] { call.run(desk, stream.handle()); });
      for (const cudaGraphNodeType type : graph.nodes()) {
        EXPECT_EQ(type, cudaGraphNodeTypeKernel);
      }
      EXPECT_EQ(desk.memory() == wanted, false) << "ran while it was captured";
      graph.launch(stream);
      stream.wait();
      EXPECT_TRUE(desk.memory() == wanted);
      // Other positions, the same graph.
      check_cuda(
          cudaMemcpy(desk.ids.data(), others.data(), others.size() * 8, cudaMemcpyHostToDevice));
      check_cuda(cudaMemcpy(desk.first.data(), others.data(), 24, cudaMemcpyHostToDevice));
      const Memory moved = directly(desk, call);
      desk.reset();
      check_cuda(cudaDeviceSynchronize());
      graph.launch(stream);
      stream.wait();
      EXPECT_TRUE(desk.memory() == moved);
    }
  }
}

TEST(CudaGraph, OneLaunchForQAndK) {
  const DeviceStream stream;
  const Desk desk;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const NamedCall call = every_call()[i];
    const Graph graph(stream, [&] { call.run(desk, stream.handle()); });
    EXPECT_EQ(graph.nodes().size(), 1u) << call.name;
  }
}

// A graph of calls that need each other's results, launches overlapping.
TEST(CudaGraph, ChainsThatOverlap) {
  const DeviceStream stream;
  const auto calls = every_call();
  for (const bool captured : {false, true}) {
    const Desk desk;
    const auto run_all = [&](bool overlap) {
      for (int round = 0; round < 3; ++round) {
        for (const NamedCall& call : calls) call.run(desk, stream.handle(overlap));
      }
    };
    desk.reset();
    check_cuda(cudaDeviceSynchronize());
    run_all(false);
    stream.wait();
    const Memory wanted = desk.memory();
    desk.reset();
    check_cuda(cudaDeviceSynchronize());
    if (captured) {
      const Graph graph(stream, [&] { run_all(true); });
      graph.launch(stream);
      stream.wait();
    } else {
      run_all(true);
      stream.wait();
    }
    const Memory got = desk.memory();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == wanted[i]) << i;
  }
}

// Tensors large enough that one call's last blocks run beside the next one's first: from A to B and
// back, again and again.
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

// Four threads with a stream and a desk each, one Rope among them all.
TEST(CudaGraph, StreamsAndThreads) {
  constexpr int kThreads = 4;
  const auto calls = every_call();
  const Desk first;
  std::vector<Memory> wanted;
  wanted.reserve(calls.size());
  for (const NamedCall& call : calls) wanted.push_back(directly(first, call));
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const DeviceStream stream;
      const Desk desk;
      for (int round = 0; round < 3; ++round) {
        for (std::size_t c = 0; c < calls.size(); ++c) {
          desk.reset();
          check_cuda(cudaStreamSynchronize(nullptr));
          calls[c].run(desk, stream.handle(round == 1));
          stream.wait();
          if (!(desk.memory() == wanted[c])) ++wrong[static_cast<std::size_t>(i)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

}  // namespace
}  // namespace rotary
