// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/stable/python_arguments.h"

#include <algorithm>

namespace rotary::torch::stable {
namespace {

std::optional<DType> dtype_of(const DLDataType& type) {
  if (type.lanes != 1) return std::nullopt;
  const bool floating = type.code == kDLFloat;
  if (floating && type.bits == 32) return DType::kFloat32;
  if (type.code == kDLBfloat && type.bits == 16) return DType::kBFloat16;
  if (floating && type.bits == 16) return DType::kFloat16;
  if (floating && type.bits == 64) return DType::kFloat64;
  if (type.code == kDLInt && type.bits == 64) return DType::kInt64;
  if (type.code == kDLInt && type.bits == 32) return DType::kInt32;
  return std::nullopt;
}

}  // namespace

Python& python() {
  static Python all;
  return all;
}

bool dispatcher_is_needed() {
  PyObject* const level = PyDict_GetItemWithError(python().forward_ad, python().current_level);
  if (level == nullptr || PyLong_AsLong(level) >= 0) return true;
  const CppFunctions& cpp = python().cpp;
  if (cpp.key_is_included != nullptr) {
    const auto is_included = [&cpp](std::uint16_t key) { return cpp.key_is_included(key); };
    return cpp.dispatch_modes() != 0 || cpp.function_modes() != 0 || cpp.has_callbacks() ||
           std::any_of(cpp.keys.begin(), cpp.keys.end(), is_included);
  }
  PyObject* const functions = python().needs_dispatcher;
  const Py_ssize_t count = PyTuple_Size(functions);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Reference found(checked(PyObject_CallObject(PyTuple_GetItem(functions, i), nullptr)));
    if (is_true(found.get())) return true;
  }
  return false;
}

bool GilReleased::is_short(const std::vector<Input>& tensors) {
  constexpr std::int64_t kMaxElements = 16384;
  std::int64_t elements = 0;
  for (const Input& x : tensors) {
    if (x.described.device.type != DeviceType::kCpu) return false;  // a launch may wait for the GPU
    std::int64_t own = 1;
    for (std::int64_t i = 0; i < x.described.dim; ++i) own *= x.described.sizes[i];
    elements += own;
  }
  return elements <= kMaxElements;
}

bool describe(PyObject* tensor, Input& to) {
  DLTensor found{};
  if (python().exchange->dltensor_from_py_object_no_sync(tensor, &found) != 0) {
    PyErr_Clear();
    return false;
  }
  const auto dtype = dtype_of(found.dtype);
  const bool on_cuda = found.device.device_type == kDLCUDA;
  if (!dtype || (found.device.device_type != kDLCPU && !on_cuda)) return false;
  const DeviceType device = on_cuda ? DeviceType::kCuda : DeviceType::kCpu;
  to.data = static_cast<std::byte*>(found.data) + found.byte_offset;
  Description& x = to.described;
  x.dim = found.ndim;
  x.sizes = found.shape;
  x.strides = found.strides;
  x.scalar_type = scalar_type_of(*dtype);
  x.device_type = device_type_of(device);
  x.device_index = found.device.device_id;
  x.dtype = *dtype;
  if (on_cuda) x.device = {.type = device, .index = found.device.device_id};
  return found.strides != nullptr;
}

}  // namespace rotary::torch::stable
