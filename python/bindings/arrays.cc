// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bindings/arrays.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace rotary::python {
namespace {

std::string text(std::string_view function, const std::string& rest) {
  return "[" + std::string(function) + "] " + rest;
}

/// "int8", "complex64", ..., as the array says it.
std::string name_of(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const std::string bits = std::to_string(dtype.bits);
  switch (static_cast<Code>(dtype.code)) {
    case Code::Int:
      return "int" + bits;
    case Code::UInt:
      return "uint" + bits;
    case Code::Float:
      return "float" + bits;
    case Code::Complex:
      return "complex" + bits;
    case Code::Bool:
      return "bool";
    default:
      return "DLPack type " + std::to_string(dtype.code) + " of " + bits + " bits";
  }
}

DType dtype_of(std::string_view function, nb::dlpack::dtype dtype) {
  struct Known {
    nb::dlpack::dtype_code code;
    int bits;
    DType dtype;
  };
  using Code = nb::dlpack::dtype_code;
  static constexpr std::array<Known, 9> kKnown{{{Code::Float, 16, DType::kFloat16},
                                                {Code::Bfloat, 16, DType::kBFloat16},
                                                {Code::Float, 32, DType::kFloat32},
                                                {Code::Float, 64, DType::kFloat64},
                                                {Code::Int, 32, DType::kInt32},
                                                {Code::Int, 64, DType::kInt64},
                                                {Code::Float8_E4M3FN, 8, DType::kFloat8E4M3},
                                                {Code::Float8_E5M2, 8, DType::kFloat8E5M2},
                                                {Code::Int, 8, DType::kInt8}}};
  for (const Known& known : kKnown) {
    if (dtype.code == static_cast<std::uint8_t>(known.code) && dtype.bits == known.bits &&
        dtype.lanes == 1) {
      return known.dtype;
    }
  }
  throw std::invalid_argument(
      text(function,
           "tensors must be float32, float64, bfloat16 or float16, positions int32, "
           "int64, float32 or float64, got " +
               name_of(dtype)));
}

Device device_of(std::string_view function, int type, int index) {
  constexpr int kCpu = 1;
  constexpr int kCuda = 2;
  constexpr int kCudaHost = 3;
  constexpr int kCudaManaged = 13;
  if (type == kCpu || type == kCudaHost) return {};
  if (type == kCuda || type == kCudaManaged) return {DeviceType::kCuda, index};
  throw std::invalid_argument(text(
      function, "arrays must be on the CPU or on CUDA, got DLPack device " + std::to_string(type)));
}

/// `dtype`: of the elements, where the array does not know it itself.
template <typename View, typename AnyArray>
View view_of(std::string_view function, const AnyArray& array, std::optional<DType> dtype) {
  if (array.ndim() > static_cast<std::size_t>(kMaxRank)) {
    throw std::invalid_argument(text(function, "arrays must have at most " +
                                                   std::to_string(kMaxRank) + " dimensions, got " +
                                                   std::to_string(array.ndim())));
  }
  View view;
  view.data = array.data();
  view.dtype = dtype ? *dtype : dtype_of(function, array.dtype());
  view.device = device_of(function, array.device_type(), array.device_id());
  view.rank = static_cast<int>(array.ndim());
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    view.shape[i] = static_cast<std::int64_t>(array.shape(i));
    view.strides[i] = array.stride(i);
  }
  return view;
}

DType named_dtype(std::string_view name) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    if (name == rotary::name_of(dtype)) return dtype;
  }
  throw std::invalid_argument("[rotary] no type is called " + std::string(name));
}

template <typename View, typename AnyArray>
View imported(std::string_view function, nb::handle object, std::vector<AnyArray>& memory) {
  std::optional<DType> dtype;
  nb::object source = nb::borrow(object);
  if (nb::isinstance<nb::tuple>(object)) {
    source = object[0];
    dtype = named_dtype(nb::cast<std::string>(object[1]));
  }
  AnyArray array;
  if (!nb::try_cast<AnyArray>(source, array, false)) {
    const std::string type = nb::type_name(source.type()).c_str();
    throw nb::type_error(text(function, "memory cannot be shared with this " + type +
                                            (AnyArray::ReadOnly ? "" : ", or it is read-only"))
                             .c_str());
  }
  memory.push_back(array);
  return view_of<View>(function, array, dtype);
}

}  // namespace

TensorView writable(std::string_view function, nb::handle object, Memory& memory) {
  return imported<TensorView>(function, object, memory.written);
}

ConstTensorView readable(std::string_view function, nb::handle object, Memory& memory) {
  return imported<ConstTensorView>(function, object, memory.read);
}

std::vector<Operand> operands_of(std::string_view function, const nb::tuple& ins, nb::handle outs,
                                 Memory& memory) {
  std::vector<Operand> operands;
  operands.reserve(ins.size());
  if (!outs.is_none() && nb::len(outs) != ins.size()) {
    throw std::invalid_argument(text(function, "there must be one out a tensor, got " +
                                                   std::to_string(nb::len(outs)) + " for " +
                                                   std::to_string(ins.size())));
  }
  for (std::size_t i = 0; i < ins.size(); ++i) {
    if (outs.is_none()) {
      operands.emplace_back(writable(function, ins[i], memory));
    } else {
      const ConstTensorView in = readable(function, ins[i], memory);
      operands.emplace_back(in, writable(function, outs[i], memory));
    }
  }
  return operands;
}

}  // namespace rotary::python
