// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators of rotation on CPU and CUDA, for every PyTorch from 2.11 on. Their schemas,
// derivatives and shapes are in python/rotary/torch/stable_abi.py: the stable ABI has none of these
// for C++. Errors are C++ exceptions, which PyTorch hands to Python.

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pytorch/shared/call_positions.h"
#include "pytorch/shared/rope_set.h"
#include "pytorch/stable/arguments.h"
#include "pytorch/stable/ropes.h"
#include "pytorch/stable/tensor.h"
#include "rotary/error.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::torch::stable {
namespace {

/// The version of the headers that this is compiled with, which PyTorch asks for.
constexpr std::uint64_t kBuildVersion = TORCH_ABI_VERSION;

// ---- By positions -------------------------------------------------------------------------------

/// Arguments of rotate and its relatives.
struct RotationCall {
  explicit RotationCall(Arguments from)
      : tensors(from.tensors()),
        rope(from.string()),
        positions(from.maybe_tensor()),
        cu_seqlens(from.maybe_tensor()),
        first(from.integer()),
        token_dim(from.integer()) {}

  std::vector<Tensor> tensors;
  String rope;
  Tensor positions;
  Tensor cu_seqlens;
  std::int64_t first;
  std::int64_t token_dim;
};

/// The adjoint of a shift by d is a shift by -d of the reciprocal rope.
void negate_positions(RotationCall& call) {
  call.first = -call.first;
  if (call.positions) call.positions = negated(call.positions);
}

CallPositions positions_of(const char* name, const RotationCall& call) {
  CallPositions given{.first = call.first};
  if (call.positions) given.positions = plain_view(name, call.positions);
  if (call.cu_seqlens) given.cu_seqlens = plain_view(name, call.cu_seqlens);
  return given;
}

std::vector<Description> descriptions(const char* name, const std::vector<Tensor>& tensors) {
  std::vector<Description> all;
  all.reserve(tensors.size());
  for (const Tensor& x : tensors) all.emplace_back(name, x);
  return all;
}

void run(RotationOp op, const RotationCall& call, const Description& like,
         const std::vector<Operand>& operands) {
  const auto ropes = find_ropes(call.rope.view());
  const auto kind = is_shift(op) ? PositionKind::kDistance : PositionKind::kAbsolute;
  apply(op, *ropes, operands,
        make_positions(name_of(op), *ropes, positions_of(name_of(op), call), operands[0].in, kind),
        stream_of(like));
}

/// Tensors, new ones for the results, and the operands between them.
struct NewResults {
  NewResults(const char* name, const std::vector<Tensor>& tensors,
             const std::vector<Description>& described, std::int64_t token_dim) {
    operands.reserve(tensors.size());
    results.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorView in = read(name, tensors[i], described[i], token_dim);
      results.push_back(empty_like(described[i]));
      const Description result(name, results.back());
      operands.emplace_back(in, heads_view(name, result, mutable_data(results.back()), token_dim));
    }
  }

  std::vector<Tensor> results{};
  std::vector<Operand> operands{};

 private:
  TensorView read(const char* name, const Tensor& x, const Description& described,
                  std::int64_t token_dim) {
    if (leading_are_one(described)) return heads_view(name, described, const_data(x), token_dim);
    copies_.push_back(contiguous_copy(x, described));
    const Description copy(name, copies_.back());
    return heads_view(name, copy, const_data(copies_.back()), token_dim);
  }

  std::vector<Tensor> copies_{};
};

template <RotationOp kOp>
void rotate(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  RotationCall call{Arguments(stack)};
  if (call.tensors.empty()) {
    stack[0] = boxed_list({});
    return;
  }
  const auto described = descriptions(name_of(kOp), call.tensors);
  const DeviceGuard guard(described[0]);
  if (kOp == RotationOp::kShiftAdjoint) negate_positions(call);
  NewResults made(name_of(kOp), call.tensors, described, call.token_dim);
  run(kOp, call, described[0], made.operands);
  stack[0] = boxed_list(std::move(made.results));
}

template <RotationOp kOp>
void rotate_in_place(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  RotationCall call{Arguments(stack)};
  if (call.tensors.empty()) return;
  const auto described = descriptions(name_of(kOp), call.tensors);
  const DeviceGuard guard(described[0]);
  if (kOp == RotationOp::kShiftAdjoint) negate_positions(call);
  std::vector<Operand> operands;
  operands.reserve(described.size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    operands.emplace_back(
        heads_view(name_of(kOp), described[i], mutable_data(call.tensors[i]), call.token_dim));
  }
  run(kOp, call, described[0], operands);
}

// ---- By cos/sin tables --------------------------------------------------------------------------

template <RotationOp kOp>
void rotate_table(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  Arguments from(stack);
  const std::vector<Tensor> tensors = from.tensors();
  const Tensor cos = from.tensor();
  const Tensor sin = from.tensor();
  const String text(from.string());
  const std::int64_t token_dim = from.integer();
  if (tensors.empty()) {
    stack[0] = boxed_list({});
    return;
  }
  constexpr const char* kName = name_of(kOp);
  const auto described = descriptions(kName, tensors);
  const DeviceGuard guard(described[0]);
  const auto ropes = find_ropes(text.view());
  NewResults made(kName, tensors, described, token_dim);
  const ConstTensorView cos_view = plain_view(kName, cos);
  const TableRope table({cos_view, plain_view(kName, sin)}, ropes->layout(),
                        width_of(*ropes, cos_view), ropes->rope().options().threads);
  const std::span<const Operand> operands(made.operands);
  if constexpr (kOp == RotationOp::kRotate) {
    table.rotate(operands, stream_of(described[0]));
  } else {
    table.adjoint(operands, stream_of(described[0]));
  }
  stack[0] = boxed_list(std::move(made.results));
}

/// In place, by rows of a table for all positions; see pytorch/cached_table.cc.
template <RotationOp kOp>
void rotate_cached_table(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  constexpr const char* kName = name_of(kOp);
  Arguments from(stack);
  const std::vector<Tensor> tensors = from.tensors();
  const Tensor cos = from.tensor();
  const Tensor sin = from.tensor();
  const String text(from.string());
  const Tensor positions = from.maybe_tensor();
  const std::int64_t token_dim = from.integer();
  if (tensors.empty()) return;
  const auto described = descriptions(kName, tensors);
  const DeviceGuard guard(described[0]);
  const auto ropes = find_ropes(text.view());
  std::vector<Operand> operands;
  operands.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    operands.emplace_back(heads_view(kName, described[i], mutable_data(tensors[i]), token_dim));
  }
  std::optional<ConstTensorView> rows;
  if (positions) rows = plain_view(kName, positions);
  apply_cached_table(kOp, *ropes, {plain_view(kName, cos), plain_view(kName, sin)}, rows, operands,
                     stream_of(described[0]));
}

// ---- Gradient of positions ----------------------------------------------------------------------

/// Writes the gradient of the positions of `operands` to `result`, [axes, batch, tokens]: taken at
/// position 0, since the gradient of a pair's phase is Im(conj(x) g) whatever rotated x.
void run_position_gradient(const Rope& rope, const std::vector<GradientOperand>& operands,
                           const Description& like, const Tensor& result) {
  constexpr const char* kName = "position_gradient";
  const ConstTensorView shape = plain_view(kName, result);
  const TensorView written{.data = mutable_data(result),
                           .dtype = shape.dtype,
                           .rank = shape.rank,
                           .shape = shape.shape,
                           .strides = shape.strides,
                           .device = shape.device};
  const Tensor zero = empty(like, {1}, aoti_torch_dtype_int64());
  check(aoti_torch_zero_(zero.get()), "zero_");
  ConstTensorView origin = plain_view(kName, zero);
  origin.rank = shape.rank;
  origin.shape = shape.shape;
  origin.strides = {};
  ParameterGradients gradients{.positions = written};
  Tensor workspace;
  if (like.device.type == DeviceType::kCuda) {
    const std::size_t size = rope.gradient_workspace(shape.shape[1], shape.shape[2]);
    workspace = empty(like, {static_cast<std::int64_t>(size)}, aoti_torch_dtype_uint8());
    gradients.workspace = {static_cast<std::byte*>(mutable_data(workspace)), size};
  }
  rope.gradient(operands, Positions::ids(origin), gradients, stream_of(like));
}

void position_gradient(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  constexpr const char* kName = "position_gradient";
  Arguments from(stack);
  const std::vector<Tensor> tensors = from.tensors();
  const std::vector<Tensor> grads = from.tensors();
  const String text(from.string());
  const String pairing(from.string());
  const std::int64_t token_dim = from.integer();
  if (tensors.empty() || tensors.size() != grads.size()) {
    throw std::invalid_argument(
        "[position_gradient] as many gradients as tensors, and one at least, got " +
        std::to_string(grads.size()) + " and " + std::to_string(tensors.size()));
  }
  const auto described = descriptions(kName, tensors);
  const auto described_grads = descriptions(kName, grads);
  const DeviceGuard guard(described[0]);
  const auto ropes = find_ropes(text.view());
  std::vector<GradientOperand> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back(
        {.in = heads_view(kName, described[i], const_data(tensors[i]), token_dim),
         .grad_out = heads_view(kName, described_grads[i], const_data(grads[i]), token_dim)});
  }
  const ConstTensorView& x = operands.front().in;
  const std::int64_t batch = x.rank == 4 ? x.shape[0] : 1;
  const std::int64_t tokens = x.shape[static_cast<std::size_t>(x.rank - 3)];
  Tensor result =
      empty(described[0], {ropes->frequencies().axes, batch, tokens}, aoti_torch_dtype_float64());
  const Pairing pairs = pairing.view() == "half" ? Pairing::kHalf : Pairing::kInterleaved;
  run_position_gradient(ropes->at_origin(pairs), operands, described[0], result);
  stack[0] = boxed(result.release());
}

// ---- Frequencies of a rope ----------------------------------------------------------------------

void frequencies_like(StableIValue* stack, std::uint64_t /*inputs*/, std::uint64_t /*outputs*/) {
  constexpr const char* kName = "frequencies_like";
  Arguments from(stack);
  const Tensor like = from.tensor();
  const String text(from.string());
  const auto ropes = find_ropes(text.view());
  const Frequencies& f = ropes->frequencies();
  const Description described(kName, like);
  Description host = described;
  host.device_type = aoti_torch_device_type_cpu();
  host.device_index = 0;
  Tensor result = empty(host, {f.pairs, f.axes}, aoti_torch_dtype_float64());
  std::copy(f.values.begin(), f.values.end(), static_cast<double*>(mutable_data(result)));
  if (described.device.type == DeviceType::kCuda) {
    const Tensor on_host = std::move(result);
    result = empty(described, {f.pairs, f.axes}, aoti_torch_dtype_float64());
    check(aoti_torch_copy_(result.get(), on_host.get(), /*non_blocking=*/0), "copy_");
  }
  stack[0] = boxed(result.release());
}

// ---- Registration -------------------------------------------------------------------------------

using Kernel = void (*)(StableIValue*, std::uint64_t, std::uint64_t);

/// Messages of errors that are not the caller's do not begin with a function in brackets: so Python
/// tells them apart, since not every PyTorch passes on the type of an exception.
template <Kernel kKernel>
void guarded(StableIValue* stack, std::uint64_t inputs, std::uint64_t outputs) {
  try {
    kKernel(stack, inputs, outputs);
  } catch (const CudaError& error) {
    throw std::runtime_error(std::string("CUDA: ") + error.what());
  }
}

template <Kernel kKernel>
void implement(TorchLibraryHandle library, const std::string& name) {
  check(torch_library_impl(library, name.c_str(), guarded<kKernel>, kBuildVersion), "library_impl");
}

template <RotationOp kOp>
void implement_rotation(TorchLibraryHandle library) {
  const std::string name = name_of(kOp);
  implement<rotate<kOp>>(library, name);
  implement<rotate_in_place<kOp>>(library, name + "_");
}

void implement_all(const char* operators, const char* key) {
  TorchLibraryHandle library = nullptr;  // for the rest of the process
  check(aoti_torch_library_init_impl(operators, key, __FILE__, __LINE__, &library),
        "library_init_impl");
  implement_rotation<RotationOp::kRotate>(library);
  implement_rotation<RotationOp::kAdjoint>(library);
  implement_rotation<RotationOp::kUnrotate>(library);
  implement_rotation<RotationOp::kUnrotateAdjoint>(library);
  implement_rotation<RotationOp::kShift>(library);
  implement_rotation<RotationOp::kShiftAdjoint>(library);
  implement<rotate_table<RotationOp::kRotate>>(library, "rotate_table");
  implement<rotate_table<RotationOp::kAdjoint>>(library, "adjoint_table");
  implement<rotate_cached_table<RotationOp::kRotate>>(library, "rotate_table_");
  implement<rotate_cached_table<RotationOp::kAdjoint>>(library, "adjoint_table_");
  implement<position_gradient>(library, "position_gradient");
  implement<frequencies_like>(library, "frequencies_like");
}

}  // namespace
}  // namespace rotary::torch::stable

/// Implements the operators of a namespace, whose schemas are defined already, for CPU and CUDA.
/// `current_stream`: aoti_torch_get_current_cuda_stream of libtorch_cuda, null without CUDA. It
/// cannot be linked: PyTorch for CPUs does not have it, and Python loads that library for itself.
/// Returns null, or the reason of a failure, which is valid until the next call.
extern "C" [[gnu::visibility("default")]] const char* rotary_torch_implement(
    const char* operators, rotary::torch::stable::CurrentStream current_stream) noexcept {
  static auto* const error = new std::string;
  try {
    rotary::torch::stable::use_current_stream(current_stream);
    for (const char* key : {"CPU", "CUDA"}) rotary::torch::stable::implement_all(operators, key);
    return nullptr;
  } catch (const std::exception& caught) {
    *error = caught.what();
    return error->c_str();
  }
}
