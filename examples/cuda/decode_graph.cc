// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A decoding step captured into a CUDA graph: one new token for each of 16 sequences, q and k of 32
// layers rotated in place. Positions are in device memory and change between replays; the graph
// does not. Checks that replays give the bits of calls, and prints the time of a step for both.

#include <cuda_runtime_api.h>
#include <rotary/rope.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::int64_t kSequences = 16;
constexpr std::int64_t kLayers = 32;
constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kHeadDim = 128;
constexpr int kSteps = 50;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// bfloat16 [sequences, 1 token, heads, head_dim] for every layer.
class Heads {
 public:
  explicit Heads(std::int64_t heads)
      : heads_(heads), bytes_(static_cast<std::size_t>(kSequences * heads * kHeadDim) * 2) {
    check(cudaMalloc(&data_, bytes_ * kLayers));
    reset();
  }
  Heads(const Heads&) = delete;
  Heads& operator=(const Heads&) = delete;
  ~Heads() { cudaFree(data_); }

  void reset() const { check(cudaMemset(data_, 0x3e, bytes_ * kLayers)); }
  rotary::TensorView layer(std::int64_t number) const {
    return rotary::TensorView::contiguous(
        static_cast<std::byte*>(data_) + static_cast<std::size_t>(number) * bytes_,
        rotary::DType::kBFloat16, {kSequences, 1, heads_, kHeadDim}, {rotary::DeviceType::kCuda});
  }
  std::vector<std::byte> values() const {
    std::vector<std::byte> values(bytes_ * kLayers);
    check(cudaMemcpy(values.data(), data_, values.size(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  void* data_ = nullptr;
  std::int64_t heads_;
  std::size_t bytes_;
};

/// The state of decoding: tensors, positions in device memory, and the next positions on the host.
class Decoder {
 public:
  Decoder() : q_(kQueryHeads), k_(kKeyHeads) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaMalloc(reinterpret_cast<void**>(&positions_), kBytes));
    check(cudaMallocHost(reinterpret_cast<void**>(&next_), kBytes));
    capture();
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() {
    cudaGraphExecDestroy(graph_);
    cudaFreeHost(next_);
    cudaFree(positions_);
    cudaStreamDestroy(stream_);
  }

  /// The step as calls: copies new positions to the device, then one launch per layer, each with
  /// programmatic dependent launch.
  void call() const {
    check(cudaMemcpyAsync(positions_, next_, kBytes, cudaMemcpyHostToDevice, stream_));
    const auto at = rotary::Positions::at(rotary::ConstTensorView::contiguous(
        positions_, rotary::DType::kInt64, {kSequences}, {rotary::DeviceType::kCuda}));
    for (std::int64_t i = 0; i < kLayers; ++i) {
      rope_.rotate({q_.layer(i), k_.layer(i)}, at, {stream_, /*overlap=*/true});
    }
  }
  /// The same as one launch.
  void replay() const { check(cudaGraphLaunch(graph_, stream_)); }

  /// Runs all steps from the same start; microseconds per step.
  double decode(const std::function<void()>& step) const {
    q_.reset();
    k_.reset();
    for (std::int64_t s = 0; s < kSequences; ++s) next_[s] = 1000 * s;
    check(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) {
      step();
      check(cudaStreamSynchronize(stream_));  // a model would sample its next tokens here
      for (std::int64_t s = 0; s < kSequences; ++s) ++next_[s];
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return time.count() / kSteps;
  }

  std::vector<std::byte> values() const {
    std::vector<std::byte> values = q_.values();
    const std::vector<std::byte> keys = k_.values();
    values.insert(values.end(), keys.begin(), keys.end());
    return values;
  }

 private:
  static constexpr std::size_t kBytes = kSequences * sizeof(std::int64_t);

  /// Calls only launch kernels, so they can be captured into a graph.
  void capture() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    call();
    check(cudaStreamEndCapture(stream_, &graph));
    check(cudaGraphInstantiate(&graph_, graph, 0));
    check(cudaGraphDestroy(graph));
  }

  rotary::Rope rope_{rotary::make_frequencies({.rotary_dim = kHeadDim, .theta = 5e5}),
                     {.head_dim = kHeadDim, .pairing = rotary::Pairing::kHalf}};
  Heads q_;
  Heads k_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  std::int64_t* positions_ = nullptr;  // [sequences], device
  std::int64_t* next_ = nullptr;       // [sequences], host
};

int run() {
  if (rotary::cuda_device_count() == 0) {
    std::fprintf(stderr, "decode_graph: no GPU\n");
    return 1;
  }
  const Decoder decoder;
  decoder.decode([&] { decoder.call(); });  // the first launch of a kernel loads it
  const double calls = decoder.decode([&] { decoder.call(); });
  const std::vector<std::byte> wanted = decoder.values();
  decoder.decode([&] { decoder.replay(); });
  const double replays = decoder.decode([&] { decoder.replay(); });
  if (decoder.values() != wanted) {
    std::fprintf(stderr, "decode_graph: replays differ from calls\n");
    return 1;
  }
  std::printf("%d steps, %lld sequences, %lld layers of %lld + %lld heads of %lld\n", kSteps,
              static_cast<long long>(kSequences), static_cast<long long>(kLayers),
              static_cast<long long>(kQueryHeads), static_cast<long long>(kKeyHeads),
              static_cast<long long>(kHeadDim));
  std::printf("calls   %8.1f us a step\nreplays %8.1f us a step, the same bits\n", calls, replays);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_graph: %s\n", error.what());
    return 1;
  }
}
