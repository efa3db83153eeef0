// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators as functions of Python, on the shortest way to the dispatcher. torch.ops goes
// through a stack of boxed values, which costs the host about as much again as the call itself.
//
//   turn(tensors, rope, positions, cu_seqlens, first, token_dim) -> tensor, or a tuple of several
//   table(tensors, cos, sin, rope, token_dim)                    -> likewise
//
// They answer NotImplemented where torch.ops has more to do: for subclasses of Tensor and modes
// that see functions, while torch.jit traces, for symbolic numbers, and for arguments of other
// types, which torch.ops then refuses in its own words.

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/TracerMode.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string_view>
#include <utility>

#include "rotation/turn.h"

// Not within rotary: PyTorch's macros mean the outermost `torch`.
namespace {

using rotary::torch::call;
using rotary::torch::call_in_place;
using rotary::torch::call_table;
using rotary::torch::Turn;
using rotary::torch::Where;

/// One argument after the other; `ok` ends as false where one is of another type.
class Arguments {
 public:
  Arguments(PyObject* const* from, Py_ssize_t count, Py_ssize_t wanted) : next_(from) {
    ok = count == wanted && !at::impl::torch_function_mode_enabled() &&
         !at::tracer::impl::is_dispatch_enabled();
  }

  PyObject* tuple() {
    PyObject* const x = take();
    ok = ok && PyTuple_CheckExact(x) != 0;
    return x;
  }
  /// As long as the argument lives.
  std::string_view text() {
    PyObject* const x = take();
    Py_ssize_t size = 0;
    const char* data = ok && PyUnicode_Check(x) != 0 ? PyUnicode_AsUTF8AndSize(x, &size) : nullptr;
    ok = ok && data != nullptr;
    return ok ? std::string_view(data, static_cast<std::size_t>(size)) : std::string_view();
  }
  std::optional<at::Tensor> maybe_tensor() {
    PyObject* const x = take();
    if (x == Py_None) return std::nullopt;
    return tensor(x);
  }
  at::Tensor tensor() { return tensor(take()); }
  at::Tensor tensor(PyObject* x) {
    ok = ok && THPVariable_CheckExact(x);
    return ok ? THPVariable_Unpack(x) : at::Tensor();
  }
  std::int64_t number() {
    PyObject* const x = take();
    ok = ok && PyLong_CheckExact(x) != 0;
    if (!ok) return 0;
    int overflow = 0;
    const std::int64_t value = PyLong_AsLongLongAndOverflow(x, &overflow);
    ok = overflow == 0;
    return value;
  }

  bool ok = true;

 private:
  /// Nothing is looked at beyond the first that is wrong.
  PyObject* take() { return ok ? *next_++ : Py_None; }

  PyObject* const* next_;
};

class List {
 public:
  List(Arguments& from, PyObject* tuple) {
    if (!from.ok) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      tensors_.push_back(from.tensor(PyTuple_GET_ITEM(tuple, i)));
    }
    from.ok = from.ok && !tensors_.empty();
  }
  operator at::TensorList() const { return {tensors_.data(), tensors_.size()}; }

 private:
  c10::SmallVector<at::Tensor, 4> tensors_;
};

PyObject* new_reference(PyObject* x) {
  Py_INCREF(x);
  return x;
}

/// Without the lock of the interpreter.
template <typename Work>
auto unlocked(const Work& work) {
  const pybind11::gil_scoped_release release;
  return work();
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

template <Turn kTurn, bool kInPlace>
PyObject* turn(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(arguments, count, 6);
  PyObject* const tuple = from.tuple();
  const List tensors(from, tuple);
  const std::string_view rope = from.text();
  Where where{.positions = from.maybe_tensor(), .cu_seqlens = from.maybe_tensor()};
  where.first = from.number();
  where.token_dim = from.number();
  if (!from.ok) return new_reference(Py_NotImplemented);
  if constexpr (kInPlace) {
    unlocked([&] { call_in_place(kTurn, tensors, rope, where); });
    return new_reference(PyTuple_GET_SIZE(tuple) == 1 ? PyTuple_GET_ITEM(tuple, 0) : tuple);
  } else {
    return wrap(unlocked([&] { return call(kTurn, tensors, rope, where); }));
  }
  END_HANDLE_TH_ERRORS
}

template <Turn kTurn>
PyObject* table(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(arguments, count, 5);
  PyObject* const tuple = from.tuple();
  const List tensors(from, tuple);
  const at::Tensor cos = from.tensor();
  const at::Tensor sin = from.tensor();
  const std::string_view rope = from.text();
  const std::int64_t token_dim = from.number();
  if (!from.ok) return new_reference(Py_NotImplemented);
  return wrap(unlocked([&] { return call_table(kTurn, tensors, cos, sin, rope, token_dim); }));
  END_HANDLE_TH_ERRORS
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Fast function) {
  // Python calls it as what it is, by the flag.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, nullptr};
}

PyModuleDef* definition() {
  static PyMethodDef methods[] = {method("rotate", turn<Turn::kRotate, false>),
                                  method("rotate_", turn<Turn::kRotate, true>),
                                  method("adjoint", turn<Turn::kAdjoint, false>),
                                  method("unrotate", turn<Turn::kUnrotate, false>),
                                  method("unrotate_", turn<Turn::kUnrotate, true>),
                                  method("shift", turn<Turn::kShift, false>),
                                  method("shift_", turn<Turn::kShift, true>),
                                  method("rotate_table", table<Turn::kRotate>),
                                  method("adjoint_table", table<Turn::kAdjoint>),
                                  {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef module = {PyModuleDef_HEAD_INIT,
                               "_calls",
                               "torch.ops.rotary by the shortest way.",
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
