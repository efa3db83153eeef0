// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// CUDA. A call runs on the device of its tensors; nothing else changes.
///
///   const rotary::Device gpu = {rotary::DeviceType::kCuda};
///   auto q = rotary::TensorView::contiguous(q_memory, rotary::DType::kBFloat16,
///                                           {tokens, 32, 128}, gpu);
///   auto ids = rotary::ConstTensorView::contiguous(ids_memory, rotary::DType::kInt64, {tokens},
///                                                  gpu);
///   rope.rotate({q, k}, rotary::Positions::ids(ids), {stream});   // a cudaStream_t
///
/// A call only launches kernels: no allocation, no synchronisation, no device query, no device
/// memory read by the host. So it can be captured into a graph; a replay reads the positions that
/// are in memory at that time. q and k share one launch.
///
/// The current device must be that of the tensors and the stream, as for any kernel. Positions are
/// a range or in device memory, where their values cannot be checked: integers wrap modulo 2^64,
/// and results for non-finite positions are unspecified.
#pragma once

namespace rotary {

/// The stream that calls on CUDA tensors launch on. Calls on CPU tensors ignore it.
struct Stream {
  /// A cudaStream_t; null is the default stream.
  void* handle = nullptr;
  /// Programmatic dependent launch: the call may start while the preceding kernel in the stream is
  /// finishing, which hides part of the launch latency. It reads nothing before that kernel has
  /// completed. Ignored below compute capability 9.0.
  bool overlap = false;
};

/// Whether this build includes the CUDA engine.
bool has_cuda() noexcept;

/// Number of usable GPUs: 0 without the engine, a driver or a GPU.
int cuda_device_count() noexcept;

}  // namespace rotary
