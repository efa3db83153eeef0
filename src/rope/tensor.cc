// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/tensor.h"

#include "support/message.h"

namespace rotary {

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat8E4M3:
      return "float8_e4m3";
    case DType::kFloat8E5M2:
      return "float8_e5m2";
    case DType::kInt8:
      return "int8";
  }
  return "unknown";
}

template <typename Void>
BasicTensorView<Void> BasicTensorView<Void>::contiguous(Void* data, DType dtype,
                                                        std::initializer_list<std::int64_t> shape,
                                                        Device device) {
  if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
    internal::reject("[TensorView] rank must be at most ", kMaxRank, ", got ", shape.size());
  }
  BasicTensorView view{data, dtype, static_cast<int>(shape.size()), {}, {}, device};
  std::size_t i = 0;
  for (const std::int64_t size : shape) {
    if (size < 0) internal::reject("[TensorView] sizes must not be negative, got ", size);
    view.shape[i++] = size;
  }
  std::int64_t stride = 1;
  while (i-- > 0) {
    view.strides[i] = stride;
    if (__builtin_mul_overflow(stride, view.shape[i], &stride)) {
      internal::reject("[TensorView] sizes must fit into memory");
    }
  }
  return view;
}

template struct BasicTensorView<void>;
template struct BasicTensorView<const void>;

}  // namespace rotary
