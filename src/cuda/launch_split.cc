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

}  // namespace rotary::internal::cuda
