// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/norm_gradient_call.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "rope/memory.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kNormGradient = "norm_gradient";

/// The gradient of a weight as a tensor.
TensorView view_of(std::span<double> row) {
  return TensorView::contiguous(row.data(), DType::kFloat64,
                                {static_cast<std::int64_t>(row.size())});
}

}  // namespace

NormGradientCall::NormGradientCall(std::span<const NormGradientOperand> tensors,
                                   const HeadNorm& norm, std::int64_t head_dim)
    : tables_(kNormGradient, norm) {
  if (tensors.size() > static_cast<std::size_t>(kMaxOperands)) {
    reject("[norm_gradient] at most ", kMaxOperands, " tensors, got ", tensors.size());
  }
  check_norm(kNormGradient, norm, head_dim);
  if (norm.kind == NormKind::kNone || norm.order != NormOrder::kBeforeRotation ||
      norm.rotation != NormRotation::kForward) {
    reject("[norm_gradient] there must be a norm before a forward rotation");
  }
  for (const NormGradientOperand& x : tensors) add(x, head_dim);
  check_memory_apart();
}

void NormGradientCall::add(const NormGradientOperand& given, std::int64_t head_dim) {
  NormGradientTensors x{.in = given.in,
                        .grad_out = given.grad_out,
                        .grad_in = given.grad_in,
                        .grad_factors = given.grad_weight,
                        .grad_biases = given.grad_bias};
  check_heads(kNormGradient, x.in, head_dim);
  check_heads(kNormGradient, x.grad_out, head_dim);
  check_norm_tensor(kNormGradient, x.in);
  const ConstTensorView& first = tensors_.empty() ? x.in : tensors_.front().in;
  if (x.in.shape != x.grad_out.shape || x.in.dtype != x.grad_out.dtype ||
      x.in.device != x.grad_out.device) {
    reject("[norm_gradient] in and grad_out must have the same shape, type and device");
  }
  if (x.in.shape[0] != first.shape[0] || x.in.shape[1] != first.shape[1]) {
    reject("[norm_gradient] tensors of one call must share batch and tokens");
  }
  if (x.grad_in.data != nullptr) {
    OperandList checked;
    const Operand written(given.grad_out, given.grad_in);
    x.grad_in = check_operands(kNormGradient, written, head_dim, checked).front().out;
  }
  tables_.add(x.in, given.weight, {});
  const auto size = static_cast<std::size_t>(tables_.size_of_weight(x.in));
  for (const std::span<double> row : {x.grad_factors, x.grad_biases}) {
    if (!row.empty() && row.size() != size) {
      reject("[norm_gradient] gradients of weights and biases must have ", size, " entries, got ",
             row.size());
    }
  }
  TensorView unused;
  unused.data = const_cast<void*>(x.grad_out.data);  // NOLINT: not written
  unused.dtype = x.grad_out.dtype;
  unused.rank = x.grad_out.rank;
  unused.shape = x.grad_out.shape;
  unused.strides = x.grad_out.strides;
  gradients_.add(Operand(x.grad_out, unused));
  tensors_.push_back(x);
}

void NormGradientCall::check_memory_apart() const {
  const auto overlap = [] {
    reject(
        "[norm_gradient] gradients that are written must not share memory with each other or with "
        "a tensor, except for grad_in with the grad_out that it replaces");
  };
  std::vector<ConstTensorView> written;
  const auto add = [&](const ConstTensorView& view, const NormGradientTensors* own) {
    for (const NormGradientTensors& x : tensors_) {
      const bool replaces = own == &x && is_same_memory(view, x.grad_out);
      if (may_overlap(view, x.in) || (!replaces && may_overlap(view, x.grad_out))) overlap();
    }
    for (const ConstTensorView& other : written) {
      if (may_overlap(view, other)) overlap();
    }
    written.push_back(view);
  };
  for (const NormGradientTensors& x : tensors_) {
    if (x.grad_in.data != nullptr) add(x.grad_in, &x);
    if (!x.grad_factors.empty()) add(view_of(x.grad_factors), nullptr);
    if (!x.grad_biases.empty()) add(view_of(x.grad_biases), nullptr);
  }
}

void NormGradientCall::check_apart(const Positions& positions) const {
  OperandList written;
  for (const NormGradientTensors& x : tensors_) {
    if (x.grad_in.data != nullptr) written.add(x.grad_in);
  }
  check_apart_from_positions(kNormGradient, positions, written.list());
}

void NormGradientCall::check_apart(const CosSinTable& table) const {
  const auto check = [&table](const ConstTensorView& written) {
    if (may_overlap(written, table.cos) || may_overlap(written, table.sin)) {
      reject("[norm_gradient] gradients that are written must not share memory with the table");
    }
  };
  for (const NormGradientTensors& x : tensors_) {
    if (x.grad_in.data != nullptr) check(x.grad_in);
    if (!x.grad_factors.empty()) check(view_of(x.grad_factors));
    if (!x.grad_biases.empty()) check(view_of(x.grad_biases));
  }
}

std::size_t NormGradientCall::workspace() const noexcept {
  if (tensors_.empty() || tensors_.front().in.device.type != DeviceType::kCuda) return 0;
  std::int64_t weights = 0;
  bool is_wanted = false;
  for (const NormGradientTensors& x : tensors_) {
    weights += tables_.size_of_weight(x.in);
    is_wanted = is_wanted || !x.grad_factors.empty() || !x.grad_biases.empty();
  }
  const Dims& shape = tensors_.front().in.shape;
  return is_wanted ? norm_gradient_workspace_on_cuda(shape[0], shape[1], weights) : 0;
}

void NormGradientCall::check_workspace(std::span<std::byte> given) const {
  constexpr std::uintptr_t kAlignment = 256;
  if (given.size() < workspace()) {
    reject("[norm_gradient] the workspace must have ", workspace(), " bytes, got ", given.size());
  }
  if (reinterpret_cast<std::uintptr_t>(given.data()) % kAlignment != 0) {
    reject("[norm_gradient] the workspace must be aligned to ", kAlignment, " bytes");
  }
}

void NormGradientCall::clear() const noexcept {
  for (const NormGradientTensors& x : tensors_) {
    std::fill(x.grad_factors.begin(), x.grad_factors.end(), 0.0);
    std::fill(x.grad_biases.begin(), x.grad_biases.end(), 0.0);
  }
}

}  // namespace rotary::internal
