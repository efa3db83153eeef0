// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators as Python functions around the dispatcher, which boxes every argument of a call to
// the stable ABI twice: 5 times the host's cost of a decoding step. Tensors are read by DLPack's C
// exchange API; Python's limited API makes the library independent of Python's version.
//
//   rotate(tensors, rope, positions, cu_seqlens, first, token_dim) -> tensor, or a tuple of several
//   rotate_table(tensors, cos, sin, rope, token_dim)               -> likewise
//
// They return None where all that is missing is a derivative, and NotImplemented for what the
// dispatcher has to see: Tensor subclasses, transforms, modes, the profiler, arguments of wrong
// types, and tensors that need a copy. with_fallback() makes functions that then call another one.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "pytorch/shared/call_positions.h"
#include "pytorch/stable/python_arguments.h"
#include "pytorch/stable/python_results.h"
#include "pytorch/stable/ropes.h"
#include "pytorch/stable/tensor.h"

namespace rotary::torch::stable {
namespace {

/// The ropes of a text. By the identity of the last few texts, since a model passes the same
/// objects in every call; the GIL guards them.
std::shared_ptr<const StableRopes> ropes_of(PyObject* text) {
  struct Entry {
    PyObject* text = nullptr;
    std::shared_ptr<const StableRopes> ropes{};
  };
  static auto& entries = *new std::array<Entry, 4>;
  static std::size_t next = 0;
  const int threads = num_threads();
  for (const Entry& entry : entries) {
    if (entry.text == text && entry.ropes->threads() == threads) return entry.ropes;
  }
  const Reference bytes(checked(PyUnicode_AsUTF8String(text)));
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.get(), &data, &size) != 0) throw PythonError();
  auto found = find_ropes({data, static_cast<std::size_t>(size)});
  Entry& entry = entries[next];
  next = (next + 1) % entries.size();
  const Reference previous(std::exchange(entry.text, new_reference(text)));
  entry.ropes = found;
  return found;
}

/// Runs the function; exceptions become Python's, as operators raise them.
template <typename Function>
PyObject* as_python(const Function& function) noexcept {
  try {
    return function();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// ---- The functions ------------------------------------------------------------------------------

struct RotationArguments {
  RotationArguments(PyObject* const* arguments, Py_ssize_t count) : from(arguments, count, 6) {
    tuple = from.read(tensors);
    from.read_text(rope);
    from.read_positions(positions);
    from.read_positions(cu_seqlens);
    from.read(first);
    from.read(token_dim);
  }

  CallPositions call_positions(const char* name) const {
    CallPositions given{.first = first};
    if (positions) given.positions = plain_view(name, positions->described, positions->data);
    if (cu_seqlens) given.cu_seqlens = plain_view(name, cu_seqlens->described, cu_seqlens->data);
    return given;
  }

  PythonArguments from;
  std::vector<Input> tensors{};
  PyObject* tuple = nullptr;
  PyObject* rope = nullptr;
  std::optional<Input> positions{};
  std::optional<Input> cu_seqlens{};
  std::int64_t first = 0;
  std::int64_t token_dim = 0;
};

void run(RotationOp op, const RotationArguments& call, const StableRopes& ropes,
         const std::vector<Operand>& operands) {
  const char* const name = name_of(op);
  const auto kind = is_shift(op) ? PositionKind::kDistance : PositionKind::kAbsolute;
  apply(op, ropes, operands,
        make_positions(name, ropes, call.call_positions(name), operands[0].in, kind),
        stream_of(call.tensors[0].described));
}

template <RotationOp kOp>
PyObject* rotate(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return as_python([&] {
    const RotationArguments call(arguments, count);
    if (!call.from.ok || dispatcher_is_needed()) return new_reference(Py_NotImplemented);
    if (call.from.has_derivative) return new_reference(Py_None);
    const auto ropes = ropes_of(call.rope);
    return wrap([&] {
      const GilReleased released(call.tensors);
      const DeviceGuard guard(call.tensors[0].described);
      Results made(name_of(kOp), call.tensors, call.token_dim);
      run(kOp, call, *ropes, made.operands);
      return std::move(made.tensors);
    }());
  });
}

template <RotationOp kOp>
PyObject* rotate_in_place(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return as_python([&] {
    const RotationArguments call(arguments, count);
    if (!call.from.ok || call.from.has_derivative || dispatcher_is_needed()) {
      return new_reference(Py_NotImplemented);
    }
    const auto ropes = ropes_of(call.rope);
    {
      const GilReleased released(call.tensors);
      const DeviceGuard guard(call.tensors[0].described);
      run(kOp, call, *ropes, in_place(name_of(kOp), call.tensors, call.token_dim));
    }
    return written(call.tuple);
  });
}

template <RotationOp kOp>
PyObject* rotate_table(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return as_python([&] {
    PythonArguments from(arguments, count, 5);
    std::vector<Input> tensors;
    Input cos;
    Input sin;
    PyObject* rope = nullptr;
    std::int64_t token_dim = 0;
    from.read(tensors);
    from.read_table(cos);
    from.read_table(sin);
    from.read_text(rope);
    from.read(token_dim);
    if (!from.ok || dispatcher_is_needed()) return new_reference(Py_NotImplemented);
    if (from.has_derivative) return new_reference(Py_None);
    const auto ropes = ropes_of(rope);
    return wrap([&] {
      constexpr const char* kName = name_of(kOp);
      const GilReleased released(tensors);
      const DeviceGuard guard(tensors[0].described);
      Results made(kName, tensors, token_dim);
      const ConstTensorView cos_view = plain_view(kName, cos.described, cos.data);
      const TableRope table({cos_view, plain_view(kName, sin.described, sin.data)}, ropes->layout(),
                            width_of(*ropes, cos_view), ropes->rope().options().threads);
      const std::span<const Operand> operands(made.operands);
      if constexpr (kOp == RotationOp::kRotate) {
        table.rotate(operands, stream_of(tensors[0].described));
      } else {
        table.adjoint(operands, stream_of(tensors[0].described));
      }
      return std::move(made.tensors);
    }());
  });
}

template <RotationOp kOp>
PyObject* rotate_cached_table(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return as_python([&] {
    PythonArguments from(arguments, count, 6);
    std::vector<Input> tensors;
    Input cos;
    Input sin;
    PyObject* rope = nullptr;
    std::optional<Input> positions;
    std::int64_t token_dim = 0;
    PyObject* const tuple = from.read(tensors);
    from.read_table(cos);
    from.read_table(sin);
    from.read_text(rope);
    from.read_positions(positions);
    from.read(token_dim);
    if (!from.ok || from.has_derivative || dispatcher_is_needed()) {
      return new_reference(Py_NotImplemented);
    }
    const auto ropes = ropes_of(rope);
    {
      constexpr const char* kName = name_of(kOp);
      const GilReleased released(tensors);
      const DeviceGuard guard(tensors[0].described);
      std::optional<ConstTensorView> rows;
      if (positions) rows = plain_view(kName, positions->described, positions->data);
      apply_cached_table(
          kOp, *ropes,
          {plain_view(kName, cos.described, cos.data), plain_view(kName, sin.described, sin.data)},
          rows, in_place(kName, tensors, token_dim), stream_of(tensors[0].described));
    }
    return written(tuple);
  });
}

// ---- The module ---------------------------------------------------------------------------------

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

/// What a call gives; or fallback(refusal, *arguments), where it returns None or NotImplemented.
template <FastCall kFunction>
PyObject* or_else(PyObject* fallback, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* const result = kFunction(nullptr, arguments, count);
  if (result != Py_None && result != Py_NotImplemented) return result;
  const Reference all(PyTuple_New(count + 1));
  if (all.get() == nullptr) return nullptr;
  PyTuple_SetItem(all.get(), 0, result);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SetItem(all.get(), i + 1, new_reference(arguments[i]));
  }
  return PyObject_CallObject(fallback, all.get());
}

PyMethodDef method(const char* name, FastCall function) {
  // METH_FASTCALL tells Python the real signature.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, nullptr};
}

/// A function, and the same with a fallback as its `self`.
struct Call {
  PyMethodDef alone;
  PyMethodDef with_fallback;
};

template <FastCall kFunction>
Call named(const char* name) {
  return {method(name, kFunction), method(name, or_else<kFunction>)};
}

std::span<Call> all_calls() {
  using enum RotationOp;
  static std::array calls = {
      named<rotate<kRotate>>("rotate"),
      named<rotate<kAdjoint>>("adjoint"),
      named<rotate<kUnrotate>>("unrotate"),
      named<rotate<kUnrotateAdjoint>>("unrotate_adjoint"),
      named<rotate<kShift>>("shift"),
      named<rotate_in_place<kRotate>>("rotate_"),
      named<rotate_in_place<kAdjoint>>("adjoint_"),
      named<rotate_in_place<kUnrotate>>("unrotate_"),
      named<rotate_in_place<kShift>>("shift_"),
      named<rotate_table<kRotate>>("rotate_table"),
      named<rotate_table<kAdjoint>>("adjoint_table"),
      named<rotate_cached_table<kRotate>>("rotate_table_"),
      named<rotate_cached_table<kAdjoint>>("adjoint_table_"),
  };
  return calls;
}

/// (name, fallback) -> the function with this fallback.
PyObject* with_fallback(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 2) {
    for (Call& call : all_calls()) {
      if (PyUnicode_CompareWithASCIIString(arguments[0], call.alone.ml_name) == 0) {
        return PyCFunction_NewEx(&call.with_fallback, arguments[1], nullptr);
      }
    }
  }
  PyErr_SetString(PyExc_KeyError, "rotary: there is no direct call of this name");
  return nullptr;
}

PyModuleDef* definition() {
  static std::vector<PyMethodDef> methods;
  if (methods.empty()) {
    for (const Call& call : all_calls()) methods.push_back(call.alone);
    methods.push_back(method("with_fallback", with_fallback));
    methods.push_back({nullptr, nullptr, 0, nullptr});
  }
  static PyModuleDef module = {PyModuleDef_HEAD_INIT,
                               "rotary_torch_calls",
                               "The operators around PyTorch's dispatcher.",
                               -1,
                               methods.data(),
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  return &module;
}

/// From a tuple of their addresses, 0 for those that are not there, and the keys.
CppFunctions functions_at(PyObject* members) {
  const auto at = [members](Py_ssize_t i) { return PyLong_AsVoidPtr(PyTuple_GetItem(members, i)); };
  CppFunctions found;
  found.wrap = reinterpret_cast<decltype(found.wrap)>(at(0));
  found.dispatch_modes = reinterpret_cast<decltype(found.dispatch_modes)>(at(1));
  found.function_modes = reinterpret_cast<decltype(found.function_modes)>(at(2));
  found.has_callbacks = reinterpret_cast<decltype(found.has_callbacks)>(at(3));
  found.key_is_included = reinterpret_cast<decltype(found.key_is_included)>(at(4));
  for (std::size_t i = 0; i < found.keys.size(); ++i) {
    PyObject* const key = PyTuple_GetItem(members, static_cast<Py_ssize_t>(i) + 5);
    found.keys[i] = static_cast<std::uint16_t>(PyLong_AsLong(key));
  }
  return found;
}

}  // namespace
}  // namespace rotary::torch::stable

/// A module with the functions, or None where PyTorch has another major version of DLPack.
/// Arguments: see struct Python, in its order; they are kept for the rest of the process.
extern "C" [[gnu::visibility("default")]] PyObject* rotary_torch_calls(
    PyObject* tensor, PyObject* parameter, PyObject* exchange, PyObject* from_handle,
    PyObject* handles_are_taken, PyObject* increment_version, PyObject* needs_dispatcher,
    PyObject* forward_ad, PyObject* requires_grad, PyObject* cpp_functions) {
  using rotary::torch::stable::new_reference;
  const auto* api =
      static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(exchange, "dlpack_exchange_api"));
  if (api == nullptr) return nullptr;
  if (api->header.version.major != DLPACK_MAJOR_VERSION ||
      api->dltensor_from_py_object_no_sync == nullptr) {
    return new_reference(Py_None);
  }
  rotary::torch::stable::python() = {.tensor = new_reference(tensor),
                                     .parameter = new_reference(parameter),
                                     .exchange = api,
                                     .from_handle = new_reference(from_handle),
                                     .handles_are_taken = handles_are_taken == Py_True,
                                     .increment_version = new_reference(increment_version),
                                     .needs_dispatcher = new_reference(needs_dispatcher),
                                     .forward_ad = new_reference(forward_ad),
                                     .current_level = PyUnicode_FromString("_current_level"),
                                     .requires_grad = new_reference(requires_grad),
                                     .get = reinterpret_cast<descrgetfunc>(
                                         PyType_GetSlot(Py_TYPE(requires_grad), Py_tp_descr_get)),
                                     .cpp = rotary::torch::stable::functions_at(cpp_functions)};
  return PyModule_Create(rotary::torch::stable::definition());
}
