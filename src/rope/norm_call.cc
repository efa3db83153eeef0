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

/// Beyond it the float of a count of elements would be rounded, and PyTorch sums in another order.
constexpr std::int64_t kMaxNormElements = std::int64_t{1} << 21;

/// offset + convert(x[i]). NaN without payload: kernels that round to bfloat16 by its bits keep it
/// one.
template <typename T, typename Convert>
void fill(const ConstTensorView& x, float offset, const Convert& convert, std::vector<float>& to) {
  const T* const from = static_cast<const T*>(x.data);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float value = offset + convert(from[i]);
    to[i] = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
  }
}

/// Whether the view is [size], or [heads, size / heads], without gaps.
bool is_row(const ConstTensorView& view, std::int64_t size, std::int64_t heads) {
  if (view.rank == 1) return view.shape[0] == size && view.strides[0] == 1;
  return view.rank == 2 && view.shape[0] == heads && view.shape[0] * view.shape[1] == size &&
         view.strides[1] == 1 && view.strides[0] == view.shape[1];
}

bool is_element_type(DType type) {
  return type == DType::kFloat32 || type == DType::kBFloat16 || type == DType::kFloat16;
}

}  // namespace

void check_norm(std::string_view function, const HeadNorm& norm, std::int64_t head_dim) {
  if (!(norm.eps >= 0.0) || !std::isfinite(norm.eps)) {
    reject("[", function, "] eps must be finite and not negative, got ", norm.eps);
  }
  if (norm.sum_lanes != 4 && norm.sum_lanes != 8 && norm.sum_lanes != 16 &&
      norm.sum_lanes != kWarpSums) {
    reject("[", function, "] sum_lanes must be 4, 8, 16 or 32, got ", norm.sum_lanes);
  }
  if (norm.rounding == NormRounding::kEveryStep && norm.kind != NormKind::kRms) {
    reject("[", function, "] NormRounding::kEveryStep is for NormKind::kRms only");
  }
  if (head_dim > kMaxNormHeadDim) {
    reject("[", function, "] head_dim must be at most ", kMaxNormHeadDim, ", got ", head_dim);
  }
}

void check_norm_tensor(std::string_view function, const ConstTensorView& x) {
  if (!is_element_type(x.dtype)) {
    reject("[", function, "] tensors must be float32, bfloat16 or float16, got ", name_of(x.dtype));
  }
  if (x.shape[2] > kMaxNormElements / x.shape[3]) {
    reject("[", function, "] the heads of a token must have at most ", kMaxNormElements,
           " elements, got ", x.shape[2], " x ", x.shape[3]);
  }
}

std::int64_t NormTables::size_of_weight(const ConstTensorView& x) const noexcept {
  return norm_.scope == NormScope::kAllHeads ? x.shape[2] * x.shape[3] : x.shape[3];
}

void NormTables::check_row(const ConstTensorView& x, const ConstTensorView& given) const {
  if (given.data == nullptr) return;
  const std::int64_t size = size_of_weight(x);
  const std::int64_t heads = norm_.scope == NormScope::kAllHeads ? x.shape[2] : 1;
  if (!is_row(given, size, heads) || !is_element_type(given.dtype) || given.device != x.device) {
    reject("[", function_, "] weights and biases must be [", size,
           "] of float32, bfloat16 or float16 without gaps on the device of the tensor, got rank ",
           given.rank, ", size ", given.shape[0], ", stride ", given.strides[0], " and ",
           name_of(given.dtype));
  }
  check_memory(function_, given);
}

const float* NormTables::floats_of(const ConstTensorView& x, const ConstTensorView& given,
                                   float offset, float missing) {
  const std::int64_t size = size_of_weight(x);
  std::vector<float>& to = memory_[used_++];
  if (given.data == nullptr) {
    to.assign(static_cast<std::size_t>(size), missing);
    return to.data();
  }
  to.resize(static_cast<std::size_t>(size));
  if (given.dtype == DType::kFloat32) {
    fill<float>(given, offset, [](float value) { return value; }, to);
  } else if (given.dtype == DType::kBFloat16) {
    fill<std::uint16_t>(given, offset, from_bfloat16, to);
  } else {
    fill<std::uint16_t>(given, offset, from_float16, to);
  }
  return to.data();
}

void NormTables::add(const ConstTensorView& x, const ConstTensorView& weight,
                     const ConstTensorView& bias) {
  const bool has_bias = norm_.kind == NormKind::kLayer;
  if (!has_bias && bias.data != nullptr) {
    reject("[", function_, "] only NormKind::kLayer has a bias");
  }
  check_row(x, weight);
  check_row(x, bias);
  const std::size_t i = count_++;
  if (x.device.type == DeviceType::kCuda) {
    device_tables_[i] = {.weight = weight, .bias = bias};
    return;
  }
  // -0 changes no value, not even the sign of a zero.
  const float offset = norm_.kind == NormKind::kRmsOnePlus ? 1.0f : -0.0f;
  NormTable& table = tables_[i];
  table.factors = floats_of(x, weight, offset, 1.0f);
  if (has_bias) table.biases = floats_of(x, bias, -0.0f, -0.0f);
}

NormScalars scalars_of(const HeadNorm& norm) noexcept {
  return {.has_mean = norm.kind == NormKind::kLayer,
          .across_heads = norm.scope == NormScope::kAllHeads,
          .in_steps = norm.rounding == NormRounding::kEveryStep,
          .eps = static_cast<float>(norm.eps),
          .sum_lanes = norm.sum_lanes};
}

namespace {

NormParams params_of(const RotateParams& rotation, const NormTables& tables,
                     const HeadNorm& norm) noexcept {
  return {.rotation = rotation,
          .tables = tables.list(),
          .device_tables = tables.device_list(),
          .adds_one = norm.kind == NormKind::kRmsOnePlus,
          .norm = scalars_of(norm),
          .rounding = norm.rounding,
          .order = norm.order};
}

}  // namespace

AppendNorm::AppendNorm(std::string_view function, const KvAppend& given,
                       std::span<const Operand> operands, std::int64_t head_dim)
    : norm_(given.norm), tables_(function, given.norm) {
  check_norm(function, norm_, head_dim);
  for (const Operand& x : operands) {
    check_norm_tensor(function, x.in);
    check_norm_tensor(function, x.out);  // rotate() also writes float8
  }
  if (given.q) tables_.add(operands.front().in, given.q_weight, given.q_bias);
  tables_.add(operands.back().in, given.k_weight, given.k_bias);
}

NormParams AppendNorm::params(const RotateParams& rotation) const noexcept {
  return params_of(rotation, tables_, norm_);
}

NormCall::NormCall(std::span<const NormOperand> tensors, const HeadNorm& norm,
                   std::int64_t head_dim)
    : norm_(norm), tables_(kNormRotate, norm) {
  if (tensors.size() > static_cast<std::size_t>(kMaxOperands)) {
    reject("[norm_rotate] at most ", kMaxOperands, " tensors, got ", tensors.size());
  }
  OperandList given;
  for (const NormOperand& x : tensors) given.add(x.tensors);
  operands_ = check_operands(kNormRotate, given.list(), head_dim, checked_);
  check_norm(kNormRotate, norm, head_dim);
  for (const Operand& x : operands_) {
    check_norm_tensor(kNormRotate, x.in);
    check_norm_tensor(kNormRotate, x.out);  // rotate() also writes float8
  }
  if (norm.kind == NormKind::kNone) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tables_.add(operands_[i].in, tensors[i].weight, tensors[i].bias);
  }
}

NormParams NormCall::params(const RotateParams& rotation) const noexcept {
  return params_of(rotation, tables_, norm_);
}

Direction direction_of(const HeadNorm& norm) noexcept {
  return norm.rotation == NormRotation::kForward ? Direction::kForward : Direction::kInverse;
}

}  // namespace rotary::internal
