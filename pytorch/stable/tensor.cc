// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/stable/tensor.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "pytorch/shared/call_positions.h"
#include "pytorch/stable/arguments.h"

namespace rotary::torch::stable {
namespace {

/// PyTorch's numbers of types, which its versions may change.
struct ScalarTypes {
  std::array<std::pair<std::int32_t, DType>, 6> known = {{
      {aoti_torch_dtype_float32(), DType::kFloat32},
      {aoti_torch_dtype_bfloat16(), DType::kBFloat16},
      {aoti_torch_dtype_float16(), DType::kFloat16},
      {aoti_torch_dtype_float64(), DType::kFloat64},
      {aoti_torch_dtype_int64(), DType::kInt64},
      {aoti_torch_dtype_int32(), DType::kInt32},
  }};
  std::int32_t cpu = aoti_torch_device_type_cpu();
  std::int32_t cuda = aoti_torch_device_type_cuda();
};

CurrentStream current_stream = nullptr;  // set once, before any call

const ScalarTypes& numbers() {
  static const ScalarTypes all;
  return all;
}

DType dtype_of(std::string_view function, std::int32_t scalar_type) {
  for (const auto& [number, dtype] : numbers().known) {
    if (number == scalar_type) return dtype;
  }
  throw std::invalid_argument('[' + std::string(function) + "] tensors of PyTorch's type " +
                              std::to_string(scalar_type) + " are not supported");
}

Tensor empty_strided(const Description& like, std::int64_t dim, const std::int64_t* sizes,
                     const std::int64_t* strides, std::int32_t scalar_type) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_empty_strided(dim, sizes, strides, scalar_type, like.device_type,
                                 like.device_index, &made),
        "empty_strided");
  return Tensor(made);
}

}  // namespace

void check(AOTITorchError error, const char* call) {
  if (error != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error(std::string("rotary: PyTorch's ") + call + " failed");
  }
}

Description::Description(std::string_view function, const Tensor& x) {
  std::int64_t* read_sizes = nullptr;
  std::int64_t* read_strides = nullptr;
  check(aoti_torch_get_dim(x.get(), &dim), "get_dim");
  check(aoti_torch_get_sizes(x.get(), &read_sizes), "get_sizes");
  check(aoti_torch_get_strides(x.get(), &read_strides), "get_strides");
  check(aoti_torch_get_dtype(x.get(), &scalar_type), "get_dtype");
  check(aoti_torch_get_device_type(x.get(), &device_type), "get_device_type");
  check(aoti_torch_get_device_index(x.get(), &device_index), "get_device_index");
  sizes = read_sizes;
  strides = read_strides;
  dtype = dtype_of(function, scalar_type);
  if (device_type == numbers().cuda) device = {.type = DeviceType::kCuda, .index = device_index};
}

std::int32_t scalar_type_of(DType dtype) {
  for (const auto& [number, known] : numbers().known) {
    if (known == dtype) return number;
  }
  throw std::logic_error("rotary: a type that PyTorch does not have");
}

std::int32_t device_type_of(DeviceType type) {
  return type == DeviceType::kCuda ? numbers().cuda : numbers().cpu;
}

ConstTensorView plain_view(std::string_view function, const Tensor& x) {
  return plain_view(function, Description(function, x), const_data(x));
}

ConstTensorView plain_view(std::string_view function, const Description& described,
                           const void* data) {
  if (described.dim > kMaxRank) {
    throw std::invalid_argument('[' + std::string(function) + "] at most " +
                                std::to_string(kMaxRank) + " dimensions, got " +
                                std::to_string(described.dim));
  }
  ConstTensorView view{.data = data,
                       .dtype = described.dtype,
                       .rank = static_cast<int>(described.dim),
                       .device = described.device};
  for (std::size_t i = 0; i < static_cast<std::size_t>(described.dim); ++i) {
    view.shape[i] = described.sizes[i];
    view.strides[i] = described.strides[i];
  }
  return view;
}

bool leading_are_one(const Description& x) {
  std::int64_t stride = 0;  // of the next dimension outwards, once one of more than 1 is seen
  for (std::int64_t i = x.dim - 3; i-- > 0;) {
    if (x.sizes[i] == 1) continue;
    if (stride != 0 && x.strides[i] != stride) return false;
    stride = x.strides[i] * x.sizes[i];
  }
  return true;
}

TensorView heads_view(std::string_view function, const Description& x, void* data,
                      std::int64_t token_dim) {
  check_rank(function, x.dim, token_dim);
  if (!leading_are_one(x)) {
    throw std::invalid_argument('[' + std::string(function) +
                                "] the leading dimensions cannot be viewed as one");
  }
  TensorView view{.data = data,
                  .dtype = x.dtype,
                  .rank = static_cast<int>(std::min<std::int64_t>(x.dim, kMaxRank)),
                  .device = x.device};
  const auto rank = static_cast<std::size_t>(view.rank);
  const std::size_t leading = static_cast<std::size_t>(x.dim) - rank;  // dimensions to flatten
  for (std::size_t i = 0; i < rank; ++i) {
    view.shape[i] = x.sizes[leading + i];
    view.strides[i] = x.strides[leading + i];
  }
  for (std::size_t i = leading; i-- > 0;) {
    if (view.shape[0] == 1) view.strides[0] = x.strides[i];
    view.shape[0] *= x.sizes[i];
  }
  put_tokens_before_heads(view, token_dim);
  return view;
}

void* mutable_data(const Tensor& x) {
  void* data = nullptr;
  check(torch_get_mutable_data_ptr(x.get(), &data), "mutable_data_ptr");
  return data;
}

void* const_data(const Tensor& x) {
  const void* data = nullptr;
  check(torch_get_const_data_ptr(x.get(), &data), "const_data_ptr");
  return const_cast<void*>(data);
}

Dims dense_strides(const Description& x) {
  std::array<std::size_t, kMaxRank> order{};
  const auto rank = static_cast<std::size_t>(x.dim);
  for (std::size_t i = 0; i < rank; ++i) {  // insertion sort, by falling strides
    std::size_t at = i;
    for (; at > 0 && x.strides[order[at - 1]] < x.strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  Dims strides{};
  std::int64_t next = 1;
  for (std::size_t i = rank; i-- > 0;) {
    strides[order[i]] = next;
    next *= std::max<std::int64_t>(x.sizes[order[i]], 1);
  }
  return strides;
}

Tensor empty_strided(const Description& described) {
  return empty_strided(described, described.dim, described.sizes, described.strides,
                       described.scalar_type);
}

Tensor empty_like(const Description& like) {
  if (like.dim > kMaxRank) {
    return empty(like, {like.sizes, like.sizes + like.dim}, like.scalar_type);
  }
  return empty_strided(like, like.dim, like.sizes, dense_strides(like).data(), like.scalar_type);
}

Tensor empty(const Description& like, const std::vector<std::int64_t>& sizes,
             std::int32_t scalar_type) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return empty_strided(like, static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(),
                       scalar_type);
}

Tensor contiguous_copy(const Tensor& x, const Description& described) {
  Tensor copy =
      empty(described, {described.sizes, described.sizes + described.dim}, described.scalar_type);
  check(aoti_torch_copy_(copy.get(), x.get(), /*non_blocking=*/0), "copy_");
  return copy;
}

Tensor negated(const Tensor& x) {
  AtenTensorHandle argument = nullptr;
  check(aoti_torch_new_tensor_handle(x.get(), &argument), "new_tensor_handle");
  StableIValue stack = boxed(argument);
  check(torch_call_dispatcher("aten::neg", "", &stack, TORCH_ABI_VERSION), "neg");
  return Tensor(unboxed<AtenTensorHandle>(stack));
}

DeviceGuard::DeviceGuard(const Description& x) {
  if (x.device.type == DeviceType::kCpu) return;
  std::int32_t current = -1;
  check(aoti_torch_get_current_device_index(&current), "get_current_device_index");
  if (current == x.device_index) return;
  check(aoti_torch_create_device_guard(x.device_index, &guard_), "create_device_guard");
}

DeviceGuard::~DeviceGuard() {
  if (guard_ != nullptr) aoti_torch_delete_device_guard(guard_);
}

void use_current_stream(CurrentStream function) noexcept { current_stream = function; }

Stream stream_of(const Description& x) {
  if (x.device.type == DeviceType::kCpu) return {};
  if (current_stream == nullptr || !has_cuda()) {
    throw std::runtime_error("rotary's PyTorch operators were built without CUDA");
  }
  void* stream = nullptr;
  check(current_stream(x.device_index, &stream), "get_current_cuda_stream");
  // Kernels wait for earlier work of the stream themselves: programmatic launch is always safe.
  return {.handle = stream, .overlap = true};
}

}  // namespace rotary::torch::stable
