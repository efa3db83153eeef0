// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators as Python functions that call the dispatcher directly. torch.ops boxes arguments
// and results, which costs the host 2 to 4 us per call, about as much as launching a rotation.
//
//   rotate(tensors, rope, positions, cu_seqlens, first, token_dim) -> tensor, or a tuple of several
//   rotate_table(tensors, cos, sin, rope, token_dim)               -> likewise
//   rotate_table_(tensors, cos, sin, rope, positions, token_dim)   -> the tensors
//
// They return NotImplemented, and the caller falls back to torch.ops, for Tensor subclasses, under
// torch function modes, while torch.jit traces, for symbolic integers, and for arguments of wrong
// types, which torch.ops reports.

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/TracerMode.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string_view>
#include <utility>

#include "pytorch/rotation_op.h"

// Not within rotary: PyTorch's macros mean the outermost `torch`.
namespace {

using rotary::torch::call;
using rotary::torch::call_cached_table;
using rotary::torch::call_in_place;
using rotary::torch::call_table;
using rotary::torch::RotationOp;

/// A tensor that an argument of the call keeps alive. Borrowed, because another reference would be
/// counted through the interpreter.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (tensor_.has_value()) Traits::destroyBorrow(*tensor_);
  }
  void borrow(const at::Tensor& x) { tensor_.emplace(Traits::createBorrow(x)); }
  const std::optional<at::Tensor>& get() const { return tensor_; }

 private:
  using Traits = c10::MaybeOwnedTraits<at::Tensor>;
  std::optional<at::Tensor> tensor_;
};

class BorrowedList {
 public:
  BorrowedList() = default;
  BorrowedList(const BorrowedList&) = delete;
  BorrowedList& operator=(const BorrowedList&) = delete;
  ~BorrowedList() {
    for (at::Tensor& x : tensors_) Traits::destroyBorrow(x);
  }
  void borrow(const at::Tensor& x) { tensors_.push_back(Traits::createBorrow(x)); }
  at::TensorList get() const { return {tensors_.data(), tensors_.size()}; }

 private:
  using Traits = c10::MaybeOwnedTraits<at::Tensor>;
  c10::SmallVector<at::Tensor, 4> tensors_;
};

/// Parser of positional arguments in order. `ok` becomes false at the first one of a wrong type;
/// later ones are not read.
class Arguments {
 public:
  Arguments(PyObject* const* from, Py_ssize_t count, Py_ssize_t wanted) : next_(from) {
    ok = count == wanted && !at::impl::torch_function_mode_enabled() &&
         !at::tracer::impl::is_dispatch_enabled();
  }

  /// A non-empty tuple of tensors, which is also returned.
  PyObject* read(BorrowedList& to) {
    PyObject* const tuple = take();
    ok = ok && PyTuple_CheckExact(tuple) != 0 && PyTuple_GET_SIZE(tuple) > 0;
    const Py_ssize_t count = ok ? PyTuple_GET_SIZE(tuple) : 0;
    for (Py_ssize_t i = 0; i < count && ok; ++i) read(PyTuple_GET_ITEM(tuple, i), to);
    return tuple;
  }
  void read(Borrowed& to, bool may_be_none) {
    PyObject* const x = take();
    if (x != Py_None || !may_be_none) read(x, to);
  }
  /// Valid as long as the argument is.
  void read(std::string_view& to) {
    PyObject* const x = take();
    ok = ok && PyUnicode_Check(x) != 0;
    if (!ok) return;
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(x, &size);
    ok = data != nullptr;
    if (!ok) return PyErr_Clear();
    to = {data, static_cast<std::size_t>(size)};
  }
  void read(std::int64_t& to) {
    PyObject* const x = take();
    ok = ok && PyLong_CheckExact(x) != 0;
    if (!ok) return;
    int overflow = 0;
    to = PyLong_AsLongLongAndOverflow(x, &overflow);
    ok = overflow == 0;
  }

  bool ok = true;

 private:
  PyObject* take() { return ok ? *next_++ : Py_None; }
  template <typename To>
  void read(PyObject* x, To& to) {
    ok = ok && THPVariable_CheckExact(x);
    if (ok) to.borrow(THPVariable_Unpack(x));
  }

  PyObject* const* next_;
};

PyObject* new_reference(PyObject* x) {
  Py_INCREF(x);
  return x;
}

/// Releases the GIL in its scope.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

template <typename Work>
auto without_gil(const Work& work) {
  const GilReleased guard;
  return work();
}

/// The tensors of a call in place, as its result.
PyObject* written(PyObject* tuple) {
  return new_reference(PyTuple_GET_SIZE(tuple) == 1 ? PyTuple_GET_ITEM(tuple, 0) : tuple);
}

PyObject* wrap(std::vector<at::Tensor>&& results) {
  if (results.size() == 1) return THPVariable_Wrap(std::move(results[0]));
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(results.size()));
  if (tuple == nullptr) throw python_error();
  for (std::size_t i = 0; i < results.size(); ++i) {
    PyObject* const item = THPVariable_Wrap(std::move(results[i]));
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

template <RotationOp kOp, bool kInPlace>
PyObject* rotation(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(arguments, count, 6);
  BorrowedList tensors;
  std::string_view rope;
  Borrowed positions;
  Borrowed cu_seqlens;
  std::int64_t first = 0;
  std::int64_t token_dim = 0;
  PyObject* const tuple = from.read(tensors);
  from.read(rope);
  from.read(positions, /*may_be_none=*/true);
  from.read(cu_seqlens, /*may_be_none=*/true);
  from.read(first);
  from.read(token_dim);
  if (!from.ok) return new_reference(Py_NotImplemented);
  if constexpr (kInPlace) {
    without_gil([&] {
      call_in_place(kOp, tensors.get(), rope,
                    {positions.get(), cu_seqlens.get(), first, token_dim});
    });
    return written(tuple);
  } else {
    return wrap(without_gil([&] {
      return call(kOp, tensors.get(), rope, {positions.get(), cu_seqlens.get(), first, token_dim});
    }));
  }
  END_HANDLE_TH_ERRORS
}

template <RotationOp kOp>
PyObject* table_rotation(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(arguments, count, 5);
  BorrowedList tensors;
  Borrowed cos;
  Borrowed sin;
  std::string_view rope;
  std::int64_t token_dim = 0;
  from.read(tensors);
  from.read(cos, /*may_be_none=*/false);
  from.read(sin, /*may_be_none=*/false);
  from.read(rope);
  from.read(token_dim);
  if (!from.ok) return new_reference(Py_NotImplemented);
  return wrap(without_gil(
      [&] { return call_table(kOp, tensors.get(), *cos.get(), *sin.get(), rope, token_dim); }));
  END_HANDLE_TH_ERRORS
}

template <RotationOp kOp>
PyObject* cached_table_rotation(PyObject* /*module*/, PyObject* const* arguments,
                                Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(arguments, count, 6);
  BorrowedList tensors;
  Borrowed cos;
  Borrowed sin;
  std::string_view rope;
  Borrowed positions;
  std::int64_t token_dim = 0;
  PyObject* const tuple = from.read(tensors);
  from.read(cos, /*may_be_none=*/false);
  from.read(sin, /*may_be_none=*/false);
  from.read(rope);
  from.read(positions, /*may_be_none=*/true);
  from.read(token_dim);
  if (!from.ok) return new_reference(Py_NotImplemented);
  without_gil([&] {
    call_cached_table(kOp, tensors.get(), *cos.get(), *sin.get(), rope, positions.get(), token_dim);
  });
  return written(tuple);
  END_HANDLE_TH_ERRORS
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, FastCall function) {
  // METH_FASTCALL tells Python the real signature.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, nullptr};
}

PyModuleDef* definition() {
  static PyMethodDef methods[] = {
      method("rotate", rotation<RotationOp::kRotate, false>),
      method("rotate_", rotation<RotationOp::kRotate, true>),
      method("adjoint", rotation<RotationOp::kAdjoint, false>),
      method("unrotate", rotation<RotationOp::kUnrotate, false>),
      method("unrotate_", rotation<RotationOp::kUnrotate, true>),
      method("shift", rotation<RotationOp::kShift, false>),
      method("shift_", rotation<RotationOp::kShift, true>),
      method("rotate_table", table_rotation<RotationOp::kRotate>),
      method("adjoint_table", table_rotation<RotationOp::kAdjoint>),
      method("rotate_table_", cached_table_rotation<RotationOp::kRotate>),
      method("adjoint_table_", cached_table_rotation<RotationOp::kAdjoint>),
      {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef module = {PyModuleDef_HEAD_INIT,
                               "_calls",
                               "torch.ops.rotary without boxing.",
                               -1,
                               methods,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  return &module;
}

}  // namespace

PyMODINIT_FUNC PyInit__calls() { return PyModule_Create(definition()); }
