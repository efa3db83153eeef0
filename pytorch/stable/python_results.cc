// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/stable/python_results.h"

namespace rotary::torch::stable {
namespace {

PyObject* wrap(Tensor& x) {
  const Python& used = python();
  if (used.cpp.wrap != nullptr) return checked(used.cpp.wrap(x.get()));  // leaves it empty
  const Reference handle(checked(PyCapsule_New(x.get(), nullptr, nullptr)));
  PyObject* const made =
      checked(PyObject_CallFunctionObjArgs(used.from_handle, handle.get(), nullptr));
  if (used.handles_are_taken) x.release();
  return made;
}

}  // namespace

Results::Results(const char* name, const std::vector<Input>& inputs, std::int64_t token_dim) {
  tensors.reserve(inputs.size());
  operands.reserve(inputs.size());
  for (const Input& x : inputs) {
    const TensorView in = heads_view(name, x.described, x.data, token_dim);
    operands.emplace_back(in, new_result(name, x.described, token_dim));
  }
}

TensorView Results::new_result(const char* name, const Description& like, std::int64_t token_dim) {
  Description made = like;
  Dims strides{};
  if (like.dim <= kMaxRank) {  // PyTorch need not be asked what it has made, by 6 calls
    strides = dense_strides(like);
    made.strides = strides.data();
    tensors.push_back(empty_strided(made));
  } else {
    tensors.push_back(empty_like(like));
    made = Description(name, tensors.back());
  }
  return heads_view(name, made, mutable_data(tensors.back()), token_dim);
}

std::vector<Operand> in_place(const char* name, const std::vector<Input>& tensors,
                              std::int64_t token_dim) {
  std::vector<Operand> operands;
  operands.reserve(tensors.size());
  for (const Input& x : tensors) {
    operands.emplace_back(heads_view(name, x.described, x.data, token_dim));
  }
  return operands;
}

PyObject* wrap(std::vector<Tensor>&& tensors) {
  if (tensors.size() == 1) return wrap(tensors[0]);
  Reference tuple(checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size()))));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  }
  return tuple.release();
}

PyObject* written(PyObject* tuple) {
  const Reference done(
      checked(PyObject_CallFunctionObjArgs(python().increment_version, tuple, nullptr)));
  return new_reference(PyTuple_Size(tuple) == 1 ? PyTuple_GetItem(tuple, 0) : tuple);
}

}  // namespace rotary::torch::stable
