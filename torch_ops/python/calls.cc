// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators as functions of Python, on the shortest way to the dispatcher. torch.ops goes
// through a stack of boxed values, which costs the host 2 to 4 us.
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

/// A tensor that an argument of the call keeps alive: one more reference would be counted by way of
/// the interpreter. Undefined, or none, until borrowed.
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

/// One argument after the other; `ok` ends as false where one is of another type, and none is
/// looked at after that.
class Arguments {
 public:
  Arguments(PyObject* const* from, Py_ssize_t count, Py_ssize_t wanted) : next_(from) {
    ok = count == wanted && !at::impl::torch_function_mode_enabled() &&
         !at::tracer::impl::is_dispatch_enabled();
  }

  /// A tuple of at least one; gives it back.
  PyObject* read(BorrowedList& to) {
    PyObject* const tuple = take();
    ok = ok && PyTuple_CheckExact(tuple) != 0 && PyTuple_GET_SIZE(tuple) > 0;
    const Py_ssize_t count = ok ? PyTuple_GET_SIZE(tuple) : 0;
    for (Py_ssize_t i = 0; i < count && ok; ++i) read(PyTuple_GET_ITEM(tuple, i), to);
    return tuple;
  }
  /// None is none, where that is allowed.
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

/// Other threads may run Python meanwhile.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

template <typename Work>
auto unlocked(const Work& work) {
  const Unlocked meanwhile;
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
    unlocked([&] {
      call_in_place(kTurn, tensors.get(), rope, positions.get(), cu_seqlens.get(), first,
                    token_dim);
    });
    return new_reference(PyTuple_GET_SIZE(tuple) == 1 ? PyTuple_GET_ITEM(tuple, 0) : tuple);
  } else {
    return wrap(unlocked([&] {
      return call(kTurn, tensors.get(), rope, positions.get(), cu_seqlens.get(), first, token_dim);
    }));
  }
  END_HANDLE_TH_ERRORS
}

template <Turn kTurn>
PyObject* table(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
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
  return wrap(unlocked(
      [&] { return call_table(kTurn, tensors.get(), *cos.get(), *sin.get(), rope, token_dim); }));
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
