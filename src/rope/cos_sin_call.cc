// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/cos_sin_call.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "rope/validate.h"
#include "support/half.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kCosSin = "cos_sin";

/// [tokens, pairs] as [1, tokens, pairs].
TensorView with_batch(const TensorView& view, std::int64_t pairs) {
  if (view.rank != 2 && view.rank != 3) {
    reject("[cos_sin] cos and sin must be [tokens, pairs] or [batch, tokens, pairs], got rank ",
           view.rank);
  }
  if (!is_floating_point(view.dtype) || is_float8(view.dtype)) {
    reject("[cos_sin] cos and sin must be of a floating-point type of 16 bits or more, got ",
           name_of(view.dtype));
  }
  TensorView wide = view;
  if (view.rank == 2) {
    wide.rank = 3;
    wide.shape = {1, view.shape[0], view.shape[1], 0};
    wide.strides = {0, view.strides[0], view.strides[1], 0};
  }
  if (wide.shape[2] != pairs) {
    reject("[cos_sin] cos and sin must have a column for each of ", pairs, " pairs, got ",
           wide.shape[2]);
  }
  return wide;
}

/// As a tensor of one head, for the checks of tensors.
TensorView as_head(const TensorView& view) {
  TensorView head = view;
  head.rank = 4;
  head.shape = {view.shape[0], view.shape[1], 1, view.shape[2]};
  head.strides = {view.strides[0], view.strides[1], 0, view.strides[2]};
  return head;
}

/// Writes 1 in the given type.
void write_one(DType dtype, std::byte* to) {
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof(value)); };
  if (dtype == DType::kFloat64) return put(1.0);
  if (dtype == DType::kFloat32) return put(1.0f);
  if (dtype == DType::kBFloat16) return put(to_bfloat16(1.0f));
  put(to_float16(1.0f));
}

}  // namespace

CosSinCall::CosSinCall(const TensorView& cos, const TensorView& sin, const Positions& positions,
                       const Frequencies& frequencies)
    : cos_(with_batch(cos, frequencies.pairs)),
      sin_(with_batch(sin, frequencies.pairs)),
      positions_(positions) {
  if (cos_.shape != sin_.shape || cos_.dtype != sin_.dtype || cos_.device != sin_.device) {
    reject("[cos_sin] cos and sin must have the same shape, type and device");
  }
  OperandList checked;
  const auto operands =
      check_operands(kCosSin, {as_head(cos_), as_head(sin_)}, frequencies.pairs, checked);
  check_positions(kCosSin, positions, operands, frequencies.axes);
}

void CosSinCall::run(const AngleSource& source, const Threads& threads,
                     const Stream& stream) const {
  if (cos_.num_elements() == 0) return;
  if (cos_.device.type == DeviceType::kCpu) return fill_on_cpu(source, threads);
  const Operand head(as_head(cos_));
  check_on_cuda(kCosSin, {.source = source, .operands = {&head, 1}, .positions = positions_});
  cos_sin_on_cuda(kCosSin, source, positions_, cos_, sin_, stream);
}

/// Rotates (1, 0), which gives (cos, sin).
void CosSinCall::fill_on_cpu(const AngleSource& source, const Threads& threads) const {
  const auto [batch, tokens, pairs, none] = cos_.shape;
  const std::size_t size = size_of(cos_.dtype);
  const auto width = static_cast<std::size_t>(2 * pairs);
  std::vector<std::byte> ones(width * size);
  for (std::size_t i = 0; i < width / 2; ++i) write_one(cos_.dtype, &ones[i * size]);
  std::vector<std::byte> rows(static_cast<std::size_t>(batch * tokens) * width * size);

  const TensorView out =
      TensorView::contiguous(rows.data(), cos_.dtype, {batch, tokens, 1, 2 * pairs});
  ConstTensorView in = out;
  in.data = ones.data();
  in.strides = {0, 0, 0, 1};
  const Operand operand(in, out);
  rotate_on_cpu(
      {.source = source, .pairs = pairs, .operands = {&operand, 1}, .positions = positions_},
      threads);

  const auto element = [size](const TensorView& view, std::int64_t b, std::int64_t t,
                              std::int64_t i) {
    const std::int64_t at = b * view.strides[0] + t * view.strides[1] + i * view.strides[2];
    return static_cast<std::byte*>(view.data) + at * static_cast<std::int64_t>(size);
  };
  const std::byte* from = rows.data();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (const TensorView* view : {&cos_, &sin_}) {
        for (std::int64_t i = 0; i < pairs; ++i, from += size) {
          std::memcpy(element(*view, b, t, i), from, size);
        }
      }
    }
  }
}

}  // namespace rotary::internal
