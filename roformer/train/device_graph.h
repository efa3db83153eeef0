// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Work on a GPU that is recorded once and launched as a whole: a CUDA graph.
//
//   DeviceGraph graph;
//   if (DeviceGraph::is_possible(device)) graph.record(device, [&] { y.copy_(model.forward(x)); });
//   graph.launch();   // computes y from what x holds now
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace rotary::roformer {

/// Used by one thread.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  /// Whether work can be recorded: in a build for CUDA, on a GPU whose current stream is not the
  /// default one, which has no recording.
  static bool is_possible(at::Device device);

  /// Records what `work` launches on the device's current stream, by autograd's threads, too;
  /// nothing of it runs. Once for a graph. Other threads may use the GPU meanwhile, on other
  /// streams. Work that ran twice before has loaded its kernels and filled its caches. Throws
  /// c10::Error if `work` does what a graph cannot hold, such as waiting for the GPU, copying from
  /// pageable memory or drawing random numbers, or what `work` throws; the stream is then as it
  /// was.
  ///
  /// The memory of tensors that `work` creates is reserved for graphs of this thread: they may
  /// share it, as they run one after the other. What a graph leaves must lie in tensors from
  /// before.
  void record(at::Device device, const std::function<void()>& work);
  /// The same; false, after a warning that names `what`, where record() throws c10::Error.
  bool try_record(at::Device device, const char* what, const std::function<void()>& work);
  /// Launches what was recorded, on the current stream of its device. Once record() has returned.
  void launch() const;

 private:
  /// cudaGraphExec_t
  void* executable_ = nullptr;
  /// Where it was recorded.
  at::Device device_ = at::kCPU;
};

}  // namespace rotary::roformer
