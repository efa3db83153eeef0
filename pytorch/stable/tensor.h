// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's tensors through the C interface of its stable ABI. Of PyTorch's headers only that of
// the C functions is included: its C++ wrappers count references of every handle, and copy every
// string (those of 2.13 leak the copy).
#pragma once

#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary/cuda.h"
#include "rotary/tensor.h"

namespace rotary::torch::stable {

/// Throws std::runtime_error where a call failed. PyTorch has printed why.
void check(AOTITorchError error, const char* call);

/// An owning handle.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorHandle handle) noexcept : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  AtenTensorHandle get() const noexcept { return handle_; }
  AtenTensorHandle release() noexcept { return std::exchange(handle_, nullptr); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  AtenTensorHandle handle_ = nullptr;
};

/// What a tensor is, read once. Sizes and strides belong to the tensor.
struct Description {
  Description() = default;
  /// Throws std::invalid_argument for types that the library does not have.
  Description(std::string_view function, const Tensor& x);

  std::int64_t dim = 0;
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;
  std::int32_t scalar_type = 0;  // PyTorch's
  std::int32_t device_type = 0;  // PyTorch's
  std::int32_t device_index = 0;
  DType dtype = DType::kFloat32;
  Device device{};
};

/// PyTorch's number of a type.
std::int32_t scalar_type_of(DType dtype);
std::int32_t device_type_of(DeviceType type);

/// Any tensor of up to four dimensions, as it is.
ConstTensorView plain_view(std::string_view function, const Tensor& x);
ConstTensorView plain_view(std::string_view function, const Description& x, const void* data);

/// Whether strides allow to view the dimensions before the last three as one.
bool leading_are_one(const Description& x);

/// As [batch, tokens, heads, head_dim], or without batch. Throws std::invalid_argument for
/// dimensions that cannot be viewed so.
TensorView heads_view(std::string_view function, const Description& x, void* data,
                      std::int64_t token_dim);

void* mutable_data(const Tensor& x);
/// As a void*: PyTorch's lazily cloned tensors stay as they are, and nobody writes through it.
void* const_data(const Tensor& x);

/// Strides of memory without gaps with the dimensions in the order of those of `x`; at most four.
Dims dense_strides(const Description& x);

/// A new tensor of the type and on the device of `like`, with its strides where these are dense,
/// or dense ones in the same order; contiguous for more than four dimensions.
Tensor empty_like(const Description& like);

/// A new tensor that is as described.
Tensor empty_strided(const Description& described);

/// A new contiguous tensor on the device of `like`.
Tensor empty(const Description& like, const std::vector<std::int64_t>& sizes,
             std::int32_t scalar_type);

Tensor contiguous_copy(const Tensor& x, const Description& described);
Tensor negated(const Tensor& x);

/// Makes the device of a tensor the current one in its scope; nothing on the CPU.
class DeviceGuard {
 public:
  explicit DeviceGuard(const Description& x);
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard();

 private:
  DeviceGuardHandle guard_ = nullptr;
};

/// PyTorch's function for the current stream of a device.
using CurrentStream = AOTITorchError (*)(std::int32_t device_index, void** stream);
/// Without one, or with null, tensors on CUDA are refused.
void use_current_stream(CurrentStream function) noexcept;

/// PyTorch's current stream of the tensor's device.
Stream stream_of(const Description& x);

}  // namespace rotary::torch::stable
