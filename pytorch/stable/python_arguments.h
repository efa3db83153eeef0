// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Arguments of the functions of python_calls.cc, and what these use of PyTorch's Python.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030a0000
#endif
#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "pytorch/stable/tensor.h"

// PyTorch's copy of DLPack's header refuses to be included by code for the stable ABI. It is a
// standard's, and its version is checked when PyTorch's functions are taken.
#undef TORCH_TARGET_VERSION
#include <ATen/dlpack.h>

namespace rotary::torch::stable {

// ---- What is used of PyTorch's Python -----------------------------------------------------------

/// C++ functions of PyTorch's libraries, which the stable ABI does not have. By their names there,
/// which state their parameters: null in a PyTorch that has others, where Python's are called.
struct CppFunctions {
  PyObject* (*wrap)(AtenTensorHandle moved) = nullptr;  // THPVariable_Wrap(at::TensorBase&&)
  std::int64_t (*dispatch_modes)() = nullptr;  // c10::impl::TorchDispatchModeTLS::stack_len()
  std::int64_t (*function_modes)() = nullptr;  // at::impl::PythonTorchFunctionTLS::stack_len()
  bool (*has_callbacks)() = nullptr;           // at::hasCallbacks(), the profiler's
  bool (*key_is_included)(std::uint16_t) = nullptr;  // c10::impl::tls_is_dispatch_key_included()
  std::array<std::uint16_t, 3> keys{};  // of the tracer and of transforms of torch.func
};

struct Python {
  PyObject* tensor = nullptr;     // types
  PyObject* parameter = nullptr;  //
  const DLPackExchangeAPI* exchange = nullptr;
  PyObject* from_handle = nullptr;        // capsule of an AtenTensorHandle -> tensor
  bool handles_are_taken = false;         // whether it takes the handle's reference
  PyObject* increment_version = nullptr;  // of tensors that were written to
  PyObject* needs_dispatcher = nullptr;   // functions, true if the dispatcher has to see a call
  PyObject* forward_ad = nullptr;         // the variables of a module
  PyObject* current_level = nullptr;      // the name of one
  PyObject* requires_grad = nullptr;      // the descriptor of Tensor's attribute
  descrgetfunc get = nullptr;             // its getter
  CppFunctions cpp{};
};

Python& python();

/// An owning reference.
class Reference {
 public:
  explicit Reference(PyObject* object) noexcept : object_(object) {}
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() { Py_XDECREF(object_); }

  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

/// Thrown where Python has an error set.
struct PythonError : std::exception {};

inline PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return object;
}

inline PyObject* new_reference(PyObject* x) {
  Py_INCREF(x);
  return x;
}

inline bool is_true(PyObject* object) {
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw PythonError();
  return truth != 0;
}

/// Whether transforms, modes, tracing or the profiler are active.
bool dispatcher_is_needed();

inline bool requires_grad(PyObject* tensor) {
  const Python& used = python();
  const Reference found(checked(used.get(used.requires_grad, tensor, used.tensor)));
  return is_true(found.get());
}

// ---- Arguments ----------------------------------------------------------------------------------

/// A tensor that an argument of the call keeps alive.
struct Input {
  Description described{};
  void* data = nullptr;
};

/// Releases the GIL in its scope, but not for a few microseconds on the CPU: that takes longer.
class GilReleased {
 public:
  explicit GilReleased(const std::vector<Input>& tensors)
      : state_(is_short(tensors) ? nullptr : PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  static bool is_short(const std::vector<Input>& tensors);

  PyThreadState* state_;
};

/// False for a tensor whose layout, type or device the dispatcher is to judge.
bool describe(PyObject* tensor, Input& to);

/// Negative views, which DLPack does not tell from others, are imaginary parts: their last stride
/// is not 1.
inline bool is_dense_last(const Description& x) { return x.dim > 0 && x.strides[x.dim - 1] == 1; }

/// Parser of positional arguments in order. `ok` becomes false at the first one that is not for
/// these functions; later ones are not read.
class PythonArguments {
 public:
  PythonArguments(PyObject* const* from, Py_ssize_t count, Py_ssize_t wanted)
      : ok(count == wanted), next_(from) {}

  /// A non-empty tuple of tensors, which is also returned.
  PyObject* read(std::vector<Input>& to) {
    PyObject* const tuple = take();
    ok = ok && PyTuple_CheckExact(tuple) != 0 && PyTuple_Size(tuple) > 0;
    const Py_ssize_t count = ok ? PyTuple_Size(tuple) : 0;
    to.resize(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count && ok; ++i) {
      Input& x = to[static_cast<std::size_t>(i)];
      read(PyTuple_GetItem(tuple, i), x);
      ok = ok && is_dense_last(x.described) && leading_are_one(x.described);
    }
    return tuple;
  }
  void read_table(Input& to) {
    read(take(), to);
    ok = ok && is_dense_last(to.described);
  }
  /// Integers, or None.
  void read_positions(std::optional<Input>& to) {
    PyObject* const x = take();
    if (!ok || x == Py_None) return;
    read(x, to.emplace());
    const DType dtype = to->described.dtype;
    ok = ok && (dtype == DType::kInt64 || dtype == DType::kInt32);
  }
  /// Borrowed from the arguments.
  void read_text(PyObject*& to) {
    to = take();
    ok = ok && PyUnicode_CheckExact(to) != 0;
  }
  void read(std::int64_t& to) {
    PyObject* const x = take();
    ok = ok && PyLong_CheckExact(x) != 0;
    if (!ok) return;
    int overflow = 0;
    to = PyLong_AsLongLongAndOverflow(x, &overflow);
    ok = overflow == 0;
  }

  bool ok;
  bool has_derivative = false;

 private:
  PyObject* take() { return ok ? *next_++ : Py_None; }
  void read(PyObject* x, Input& to) {
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(x));
    ok = ok && (type == python().tensor || type == python().parameter) && describe(x, to);
    if (ok && grad_enabled_ && !has_derivative) has_derivative = requires_grad(x);
  }

  PyObject* const* next_;
  bool grad_enabled_ = aoti_torch_grad_mode_is_enabled();
};

}  // namespace rotary::torch::stable
