// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/device_graph.h"

#include <c10/util/Exception.h>

namespace rotary::roformer {

bool DeviceGraph::try_record(at::Device device, const char* what,
                             const std::function<void()>& work) {
  try {
    record(device, work);
    return true;
  } catch (const c10::Error& error) {
    TORCH_WARN("no CUDA graph of ", what,
               ", whose kernels are launched one by one: ", error.what_without_backtrace());
    return false;
  }
}

}  // namespace rotary::roformer

#ifdef ROTARY_TORCH_CUDA

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <mutex>
#include <vector>

// Not at::cuda::CUDAGraph: it registers each graph with PyTorch's generator of random numbers,
// which threads that record and launch graphs at the same time would share.

namespace rotary::roformer {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // forgets it
  C10_THROW_ERROR(Error, std::string("[DeviceGraph] ") + call + ": " + cudaGetErrorString(error));
}

/// Of this thread's graphs. PyTorch frees a pool when no graph uses it, and cannot use it again:
/// each recording counts as a use until the thread ends.
class GraphMemory {
 public:
  GraphMemory() = default;
  ~GraphMemory() {
    for (const c10::DeviceIndex device : uses_) {
      try {
        allocator::releasePool(device, pool_);
      } catch (const std::exception&) {  // the program ends with the pool
      }
    }
  }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void begin(const c10::cuda::CUDAStream& stream) {
    allocator::beginAllocateToPool(
        stream.device_index(), pool_,
        [handle = stream.stream()](cudaStream_t other) { return other == handle; });
    uses_.push_back(stream.device_index());
  }
  void end(const c10::cuda::CUDAStream& stream) {
    allocator::endAllocateToPool(stream.device_index(), pool_);
  }

 private:
  c10::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  std::vector<c10::DeviceIndex> uses_;
};

GraphMemory& graph_memory() {
  thread_local GraphMemory memory;
  return memory;
}

/// Tells PyTorch's allocator that a recording has begun or ended, from the version on that asks.
template <typename Allocator>
void mark(Allocator* of, c10::DeviceIndex device, bool begins) {
  if constexpr (requires { of->markCaptureBegin(device); }) {
    begins ? of->markCaptureBegin(device) : of->markCaptureEnd(device);
  }
}

/// What `work` launches on the stream.
cudaGraph_t capture(const c10::cuda::CUDAStream& stream, const std::function<void()>& work) {
  // Thread-local: what other threads call meanwhile is no part of it, and is not forbidden.
  check(cudaStreamBeginCapture(stream.stream(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  mark(allocator::get(), stream.device_index(), true);
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.stream(), &graph);
  mark(allocator::get(), stream.device_index(), false);
  if (!failure) {
    check(ended, "cudaStreamEndCapture");
    return graph;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // of the recording that has failed
  std::rethrow_exception(failure);
}

}  // namespace

bool DeviceGraph::is_possible(at::Device device) {
  if (!device.is_cuda()) return false;
  return c10::cuda::getCurrentCUDAStream(device.index()) !=
         c10::cuda::getDefaultCUDAStream(device.index());
}

DeviceGraph::~DeviceGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

void DeviceGraph::record(at::Device device, const std::function<void()>& work) {
  TORCH_CHECK(executable_ == nullptr, "[DeviceGraph] it has been recorded");
  const c10::cuda::CUDAGuard guard(device);
  // One at a time: it takes milliseconds, and the driver does little else meanwhile.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
  GraphMemory& memory = graph_memory();
  // Before the recording begins, so that the allocator knows what autograd's threads free in it.
  memory.begin(stream);
  cudaGraph_t graph = nullptr;
  try {
    graph = capture(stream, work);
  } catch (...) {
    memory.end(stream);
    throw;
  }
  memory.end(stream);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  executable_ = executable;
  device_ = device;
}

void DeviceGraph::launch() const {
  TORCH_CHECK(executable_ != nullptr, "[DeviceGraph] nothing has been recorded");
  const c10::cuda::CUDAGuard guard(device_);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_),
                        c10::cuda::getCurrentCUDAStream(device_.index()).stream()),
        "cudaGraphLaunch");
}

}  // namespace rotary::roformer

#else

namespace rotary::roformer {

bool DeviceGraph::is_possible(at::Device /*device*/) { return false; }
DeviceGraph::~DeviceGraph() = default;
void DeviceGraph::record(at::Device /*device*/, const std::function<void()>& /*work*/) {
  TORCH_CHECK(false, "[DeviceGraph] this build has no CUDA");
}
void DeviceGraph::launch() const { TORCH_CHECK(false, "[DeviceGraph] this build has no CUDA"); }

}  // namespace rotary::roformer

#endif
