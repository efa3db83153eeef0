// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Device memory for tests: copies of the host's tensors, views and positions.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/elements.h"
#include "rope/placed_tensor.h"
#include "rotary/positions.h"
#include "rotary/rope.h"

namespace rotary {

inline constexpr Device kGpu{DeviceType::kCuda, 0};

inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Bytes on the device, aligned to 256. Copies synchronise with the default stream and with
/// blocking streams.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) check_cuda(cudaMalloc(&data_, bytes));
  }
  DeviceMemory(const void* from, std::size_t bytes) : DeviceMemory(bytes) { upload(from, bytes); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() { cudaFree(data_); }

  std::byte* data(std::size_t at = 0) const { return static_cast<std::byte*>(data_) + at; }
  std::size_t size() const { return bytes_; }

  void upload(const void* from, std::size_t bytes, std::size_t at = 0) const {
    if (bytes > 0) check_cuda(cudaMemcpy(data(at), from, bytes, cudaMemcpyHostToDevice));
  }
  void download(void* to, std::size_t bytes, std::size_t at = 0) const {
    if (bytes > 0) check_cuda(cudaMemcpy(to, data(at), bytes, cudaMemcpyDeviceToHost));
  }
  void fill(int byte) const {
    if (bytes_ > 0) check_cuda(cudaMemset(data_, byte, bytes_));
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// An array on the device.
template <typename T>
class DeviceList {
 public:
  explicit DeviceList(const std::vector<T>& values)
      : count_(values.size()), memory_(values.data(), values.size() * sizeof(T)) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::span<T> span() const { return {data(), count_}; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    memory_.download(values.data(), count_ * sizeof(T));
    return values;
  }

 private:
  std::size_t count_;
  DeviceMemory memory_;
};

/// The memory of a tensor, canaries included, with the host's alignment modulo 16 bytes.
class DeviceTensor {
 public:
  explicit DeviceTensor(const PlacedTensor& host)
      : before_(host.snapshot()),
        memory_(host.memory().data(), host.memory().size_in_bytes()),
        view_(host.view()) {
    const auto* first = static_cast<const std::byte*>(host.memory().data());
    const auto offset = static_cast<const std::byte*>(host.view().data) - first;
    view_.data = memory_.data(static_cast<std::size_t>(offset));
    view_.device = kGpu;
  }

  const TensorView& view() const { return view_; }
  reference::Elements downloaded() const {
    reference::Elements result = before_;
    memory_.download(result.data(), result.size_in_bytes());
    return result;
  }
  void reset() const { memory_.upload(before_.data(), before_.size_in_bytes()); }
  bool untouched() const { return downloaded() == before_; }

 private:
  reference::Elements before_;
  DeviceMemory memory_;
  TensorView view_;
};

/// The bytes spanned by a host view, on the device: exactly from the first to the last.
class DeviceView {
 public:
  explicit DeviceView(const ConstTensorView& host)
      : low_(edge(host, -1)), memory_(bytes(host)), view_(host) {
    const auto size = static_cast<std::int64_t>(size_of(host.dtype));
    view_.device = kGpu;
    view_.data = memory_.data() - low_ * size;
    if (memory_.size() > 0) {
      memory_.upload(static_cast<const std::byte*>(host.data) + low_ * size, memory_.size());
    }
  }

  const ConstTensorView& view() const { return view_; }
  TensorView writable() const {
    return {const_cast<void*>(view_.data),
            view_.dtype,
            view_.rank,
            view_.shape,
            view_.strides,
            view_.device};
  }
  /// Copies back into the host's view; bytes between elements must be as uploaded.
  void download(const TensorView& host) const {
    const auto size = static_cast<std::int64_t>(size_of(host.dtype));
    memory_.download(static_cast<std::byte*>(host.data) + low_ * size, memory_.size());
  }

 private:
  /// The smallest (sign -1) or largest (sign 1) offset of an element.
  static std::int64_t edge(const ConstTensorView& view, std::int64_t sign) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
      const std::int64_t reach = (view.shape[i] - 1) * view.strides[i];
      if (reach * sign > 0) offset += reach;
    }
    return view.num_elements() == 0 ? 0 : offset;
  }
  static std::size_t bytes(const ConstTensorView& view) {
    if (view.num_elements() == 0) return 0;
    return static_cast<std::size_t>(edge(view, 1) - edge(view, -1) + 1) * size_of(view.dtype);
  }

  std::int64_t low_;
  DeviceMemory memory_;
  ConstTensorView view_;
};

/// Host positions with their arrays on the device. A range without arrays is unchanged.
class DevicePositions {
 public:
  explicit DevicePositions(const Positions& host) : positions_(moved(host)) {
    if (host.same_on_all_axes()) positions_ = positions_.on_all_axes();
  }
  const Positions& positions() const { return positions_; }
  operator const Positions&() const { return positions_; }  // NOLINT: implicit in calls

 private:
  Positions moved(const Positions& host) {
    const bool steps = host.step() == 1;
    switch (host.kind()) {
      case Positions::Kind::kRange:
        if (host.batch() < 0) return host;
        return steps ? Positions::range(on_device(host.first()))
                     : Positions::at(on_device(host.first()));
      case Positions::Kind::kPacked: {
        const ConstTensorView boundaries = on_device(host.boundaries());
        if (host.first().data == nullptr) return Positions::packed(boundaries);
        const ConstTensorView first = on_device(host.first());
        return steps ? Positions::packed(boundaries, first)
                     : Positions::packed_at(boundaries, first);
      }
      case Positions::Kind::kIds:
        break;
    }
    ConstTensorView ids = on_device(host.view());
    if (host.batch() < 0) {  // [axes, 1, tokens] fits any batch as [axes, tokens]
      ids.rank = 2;
      ids.shape = {ids.shape[0], ids.shape[2]};
      ids.strides = {ids.strides[0], ids.strides[2]};
    }
    return Positions::ids(ids);
  }
  ConstTensorView on_device(const ConstTensorView& host) {
    views_.push_back(std::make_unique<DeviceView>(host));
    return views_.back()->view();
  }

  std::vector<std::unique_ptr<DeviceView>> views_;
  Positions positions_;
};

/// A non-blocking stream.
class DeviceStream {
 public:
  DeviceStream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  DeviceStream(DeviceStream&&) = delete;
  DeviceStream& operator=(DeviceStream&&) = delete;
  ~DeviceStream() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }
  Stream handle(bool overlap = false) const { return {stream_, overlap}; }
  void wait() const { check_cuda(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace rotary
