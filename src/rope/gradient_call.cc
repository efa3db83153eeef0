// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/gradient_call.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/kernel.h"
#include "rope/memory.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kGradient = "gradient";
constexpr std::int64_t kMaxHeadsOnCuda = std::int64_t{1} << 30;

}  // namespace

GradientCall::GradientCall(std::span<const GradientOperand> tensors, const Positions& positions,
                           const ParameterGradients& parameters, std::int64_t head_dim,
                           const Frequencies& frequencies)
    : parameters_(parameters) {
  if (tensors.empty() || tensors.size() > tensors_.size()) {
    reject("[gradient] there must be 1 to ", kMaxOperands, " tensors, got ", tensors.size());
  }
  OperandList wanted;
  for (const GradientOperand& tensor : tensors) {
    ConstTensorView in = tensor.in;
    ConstTensorView grad_out = tensor.grad_out;
    check_heads(kGradient, in, head_dim);
    check_heads(kGradient, grad_out, head_dim);
    const ConstTensorView& other = count_ == 0 ? in : tensors_[0].in;
    const Dims& first = other.shape;
    if (is_float8(in.dtype)) {
      reject("[gradient] tensors must be of 16 bits or more, got ", name_of(in.dtype));
    }
    if (in.device != other.device) {
      reject("[gradient] tensors of one call must be on the same device");
    }
    if (in.device.type == DeviceType::kCuda && in.shape[2] > kMaxHeadsOnCuda) {
      reject("[gradient] there must be at most ", kMaxHeadsOnCuda, " heads on CUDA, got ",
             in.shape[2]);
    }
    if (in.shape != grad_out.shape || in.dtype != grad_out.dtype || in.device != grad_out.device) {
      reject("[gradient] in and grad_out must have the same shape, type and device");
    }
    if (in.shape[0] != first[0] || in.shape[1] != first[1]) {
      reject("[gradient] tensors of one call must share batch and tokens, got ", in.shape[0], " x ",
             in.shape[1], " after ", first[0], " x ", first[1]);
    }
    tensors_[count_++] = {.in = in, .grad_out = grad_out, .grad_in = tensor.grad_in};
    inputs_.add(Operand(in, TensorView{}));
    if (tensor.grad_in.data != nullptr) wanted.add(Operand(tensor.grad_out, tensor.grad_in));
  }
  // Check the adjoint before anything is written. Its outputs must not overlap inputs either,
  // except for the grad_out that they replace.
  const Operands results = wanted.list();
  for (const Operand& x : check_operands(kGradient, results, head_dim, adjoints_)) {
    for (std::size_t i = 0; i < count_; ++i) {
      const bool own = is_same_memory(x.out, tensors_[i].grad_out);
      if (may_overlap(x.out, tensors_[i].in) ||
          (!own && may_overlap(x.out, tensors_[i].grad_out))) {
        reject(
            "[gradient] grad_in must not share memory with what was rotated, or with a gradient "
            "other than the one it replaces");
      }
    }
  }
  check_positions(kGradient, positions, inputs_.list(), frequencies.axes);
  check_apart_from_positions(kGradient, positions, adjoints_.list());
  check_parameters(positions, frequencies);
}

void GradientCall::check_parameters(const Positions& positions, const Frequencies& frequencies) {
  const std::size_t wanted = parameters_.frequencies.size();
  if (wanted != 0 && wanted != frequencies.values.size()) {
    reject("[gradient] frequencies must have one entry for each of ", frequencies.pairs,
           " pairs x ", frequencies.axes, " axes, got ", wanted);
  }
  if (parameters_.positions.data != nullptr) check_position_gradient(positions);
  check_apart(positions);
  if (wants_parameters() && tensors_[0].in.device.type == DeviceType::kCuda) {
    check_workspace(frequencies);
  }
}

void GradientCall::check_workspace(const Frequencies& frequencies) const {
  const auto [batch, tokens, heads, head_dim] = tensors_[0].in.shape;
  const std::size_t needed =
      gradient_workspace_on_cuda(frequencies.pairs, frequencies.axes, batch, tokens);
  const std::span<std::byte> given = parameters_.workspace;
  if (given.size() < needed || reinterpret_cast<std::uintptr_t>(given.data()) % 256 != 0) {
    reject("[gradient] parameters.workspace must have ", needed,
           " bytes aligned to 256 on CUDA, got ", given.size(), " at ",
           static_cast<const void*>(given.data()));
  }
}

void GradientCall::check_position_gradient(const Positions& positions) {
  TensorView& view = parameters_.positions;
  const std::int64_t axes = positions.axes();
  const std::int64_t batch = positions.batch() < 0 ? 1 : positions.batch();
  const std::int64_t tokens = tensors_[0].in.shape[1];
  if (view.rank == 2) {
    view.rank = 3;
    view.shape = {view.shape[0], 1, view.shape[1], 0};
    view.strides = {view.strides[0], 0, view.strides[1], 0};
  }
  if (view.dtype != DType::kFloat64 || view.rank != 3 || view.shape[0] != axes ||
      view.shape[1] != batch || view.shape[2] != tokens) {
    reject("[gradient] the gradient of the positions must be float64 of [", axes, " axes, ", batch,
           " batch rows, ", tokens, " tokens], got ", name_of(view.dtype), " of rank ", view.rank,
           " [", view.shape[0], ", ", view.shape[1], ", ", view.shape[2], "]");
  }
  if (view.device != tensors_[0].in.device) {
    reject("[gradient] the gradient of the positions must be on the device of the tensors");
  }
  check_memory(kGradient, view);
  if (!elements_are_distinct(view)) {
    reject("[gradient] elements of the gradient of the positions must not share memory");
  }
}

void GradientCall::check_apart(const Positions& positions) const {
  std::array<TensorView, 4> written;
  std::size_t count = 0;
  const auto add = [&](double* data, std::size_t size) {
    written[count] =
        TensorView::contiguous(data, DType::kFloat64, {static_cast<std::int64_t>(size)});
    check_memory(kGradient, written[count++]);
  };
  if (!parameters_.frequencies.empty()) {
    add(parameters_.frequencies.data(), parameters_.frequencies.size());
  }
  if (parameters_.scale != nullptr) add(parameters_.scale, 1);
  if (parameters_.positions.data != nullptr) written[count++] = parameters_.positions;
  if (!parameters_.workspace.empty()) {
    add(reinterpret_cast<double*>(parameters_.workspace.data()),
        parameters_.workspace.size() / sizeof(double));
  }

  for (std::size_t i = 0; i < count; ++i) {
    bool overlaps = false;
    for (const ConstTensorView* view :
         {&positions.view(), &positions.first(), &positions.boundaries()}) {
      overlaps = overlaps || (view->rank != 0 && may_overlap(written[i], *view));
    }
    for (std::size_t j = 0; j < i; ++j) overlaps = overlaps || may_overlap(written[i], written[j]);
    for (const GradientOperand& tensor : tensors()) {
      overlaps = overlaps || may_overlap(written[i], tensor.in) ||
                 may_overlap(written[i], tensor.grad_out) ||
                 (tensor.grad_in.data != nullptr && may_overlap(written[i], tensor.grad_in));
    }
    if (overlaps) {
      reject(
          "[gradient] gradients of frequencies, positions and scale, and the workspace, must not "
          "share memory with "
          "each other or with a tensor");
    }
  }
}

}  // namespace rotary::internal
