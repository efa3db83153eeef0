// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_split.h"

#include <algorithm>
#include <cstddef>

namespace rotary::internal::cuda {

bool OperandGroups::next(OperandGroup& group) noexcept {
  group = OperandGroup{};
  const Operand* first = nullptr;
  for (std::size_t k = 0; k < operands_.size() && group.count < kOperandsPerLaunch; ++k) {
    const Operand& x = operands_[k];
    const std::int64_t left = x.in.shape[2] - done_[k];
    if (left <= 0) continue;
    if (first == nullptr) first = &x;
    const bool fits = x.in.dtype == first->in.dtype && x.out.dtype == first->out.dtype &&
                      is_in_place(x) == is_in_place(*first);
    if (!fits) continue;
    const std::int64_t heads = std::min(left, kHeadsPerOperand);
    group.slices[group.count++] = {.operand = &x, .first_head = done_[k], .heads = heads};
    done_[k] += heads;
  }
  return group.count > 0;
}

void fill_operand(const HeadSlice& slice, const TokenRange& range, OperandParams& o) noexcept {
  const ConstTensorView& in = slice.operand->in;
  const TensorView& out = slice.operand->out;
  const auto in_size = static_cast<std::int64_t>(size_of(in.dtype));
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype));
  const std::size_t token = range.batch_as_tokens ? 0 : 1;
  const std::int64_t batch_factor = range.batch_as_tokens ? 0 : 1;
  o.in_batch = batch_factor * in.strides[0] * in_size;
  o.in_token = in.strides[token] * in_size;
  o.in_head = in.strides[2] * in_size;
  o.in_element = in.strides[3] * in_size;
  o.out_batch = batch_factor * out.strides[0] * out_size;
  o.out_token = out.strides[token] * out_size;
  o.out_head = out.strides[2] * out_size;
  o.out_element = out.strides[3] * out_size;
  o.in = static_cast<const char*>(in.data) + range.first_batch * o.in_batch +
         range.first_token * o.in_token + slice.first_head * o.in_head;
  o.out = static_cast<char*>(out.data) + range.first_batch * o.out_batch +
          range.first_token * o.out_token + slice.first_head * o.out_head;
  o.out_scale = slice.operand->out_scale;
}

bool may_transpose(const RotateParams& params) noexcept {
  const CosSinTable* table = params.source.table;
  return params.positions.kind() != Positions::Kind::kPacked &&
         (table == nullptr || table->cos.shape[0] == 1);
}

}  // namespace rotary::internal::cuda
