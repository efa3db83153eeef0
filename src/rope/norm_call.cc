// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/norm_call.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "support/half.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kNormRotate = "norm_rotate";

void check_weight(const ConstTensorView& weight, std::int64_t head_dim) {
  const bool has_type = weight.dtype == DType::kFloat32 || weight.dtype == DType::kBFloat16 ||
                        weight.dtype == DType::kFloat16;
  if (weight.rank != 1 || weight.shape[0] != head_dim || weight.strides[0] != 1 || !has_type ||
      weight.device.type != DeviceType::kCpu) {
    reject("[norm_rotate] a weight must be [", head_dim,
           "] of float32, bfloat16 or float16 with stride 1 on the CPU, got rank ", weight.rank,
           ", size ", weight.shape[0], ", stride ", weight.strides[0], " and ",
           name_of(weight.dtype));
  }
  check_memory(kNormRotate, weight);
}

float element(const ConstTensorView& x, std::int64_t i) {
  if (x.dtype == DType::kFloat32) return static_cast<const float*>(x.data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(x.data)[i];
  return x.dtype == DType::kBFloat16 ? from_bfloat16(bits) : from_float16(bits);
}

}  // namespace

NormCall::NormCall(std::span<const NormOperand> tensors, const HeadNorm& norm,
                   std::int64_t head_dim) {
  if (tensors.size() > static_cast<std::size_t>(kMaxOperands)) {
    reject("[norm_rotate] at most ", kMaxOperands, " tensors, got ", tensors.size());
  }
  OperandList given;
  for (const NormOperand& x : tensors) given.add(x.tensors);
  operands_ = check_operands(kNormRotate, given.list(), head_dim, checked_);
  check_norm(norm, head_dim);
  if (norm.kind == NormKind::kNone) return;
  memory_.reserve(tensors.size() * static_cast<std::size_t>(head_dim));
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const ConstTensorView& weight = tensors[k].weight;
    if (weight.data == nullptr) continue;
    check_weight(weight, head_dim);
    factors_[k] = memory_.data() + memory_.size();
    for (std::int64_t i = 0; i < head_dim; ++i) {
      const float w = element(weight, i);
      // NaN without payload: kernels that round to bfloat16 by its bits keep it one.
      const float factor = norm.kind == NormKind::kRmsOnePlus ? 1.0f + w : w;
      memory_.push_back(std::isnan(factor) ? std::numeric_limits<float>::quiet_NaN() : factor);
    }
  }
}

void NormCall::check_norm(const HeadNorm& norm, std::int64_t head_dim) const {
  if (!(norm.eps >= 0.0) || !std::isfinite(norm.eps)) {
    reject("[norm_rotate] eps must be finite and not negative, got ", norm.eps);
  }
  if (norm.sum_lanes != 4 && norm.sum_lanes != 8 && norm.sum_lanes != 16) {
    reject("[norm_rotate] sum_lanes must be 4, 8 or 16, got ", norm.sum_lanes);
  }
  if (head_dim > kMaxNormHeadDim) {
    reject("[norm_rotate] head_dim must be at most ", kMaxNormHeadDim, ", got ", head_dim);
  }
  for (const Operand& x : operands_) {
    if (x.in.device.type != DeviceType::kCpu) {
      reject("[norm_rotate] tensors must be on the CPU, got CUDA");
    }
    if (x.in.dtype == DType::kFloat64) {
      reject("[norm_rotate] tensors must be float32, bfloat16 or float16, got float64");
    }
  }
}

}  // namespace rotary::internal
