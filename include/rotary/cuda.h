// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The GPU. A call runs where its tensors are: nothing else changes.
///
///   const rotary::Device gpu = {rotary::DeviceType::kCuda};
///   auto q = rotary::TensorView::contiguous(q_memory, rotary::DType::kBFloat16,
///                                           {tokens, 32, 128}, gpu);
///   auto ids = rotary::ConstTensorView::contiguous(ids_memory, rotary::DType::kInt64, {tokens},
///                                                  gpu);
///   rope.rotate({q, k}, rotary::Positions::ids(ids), {stream});   // a cudaStream_t
///
/// A call only queues kernels: it allocates nothing, waits for nothing, asks the device nothing and
/// reads no device memory on the host. So it can be captured into a graph, and a graph that is
/// replayed sees the positions that lie in memory then. q and k take one launch together.
///
/// The device that is current must be the one of tensors and stream, as for any kernel. Positions
/// are a range or in device memory, where their values cannot be checked: whole numbers wrap around
/// 2^64, and what real numbers that are not finite turn pairs into means nothing.
#pragma once

namespace rotary {

/// Where the work of a call on CUDA tensors is queued. Calls on CPU tensors do not look at it.
struct Stream {
  /// A cudaStream_t; null is the default stream.
  void* handle = nullptr;
  /// Lets the call start while the kernel before it in the stream is ending (programmatic dependent
  /// launch), which hides a part of the launch; it reads nothing before that kernel has ended. From
  /// compute capability 9.0; elsewhere it changes nothing.
  bool overlap = false;
};

/// Whether this build holds the CUDA engine.
bool has_cuda() noexcept;

/// GPUs that can be used: 0 without the engine, a driver or a GPU.
int cuda_device_count() noexcept;

}  // namespace rotary
