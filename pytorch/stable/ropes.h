// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Ropes of the stable operators, on PyTorch's threads.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "pytorch/shared/rope_set.h"
#include "rotary/table.h"
#include "rotary/tensor.h"

namespace rotary::torch::stable {

struct StableRopes : RopeSet {
  StableRopes(std::string_view text, int threads);
};

/// PyTorch's number of threads.
int num_threads();

/// The ropes of a text for num_threads(), from a cache. Throws std::invalid_argument for a
/// malformed text.
std::shared_ptr<const StableRopes> find_ropes(std::string_view text);

/// Whether a table has one column per pair, or two, as in Hugging Face transformers. Throws
/// std::invalid_argument for another number of columns.
TableWidth width_of(const RopeSet& ropes, const ConstTensorView& cos);

/// Rotates `operands` in place by the rows of a table that `positions` choose, or by one row per
/// token without positions. Throws std::invalid_argument, as TableRope.
void apply_cached_table(RotationOp op, const RopeSet& ropes, const CosSinTable& table,
                        const std::optional<ConstTensorView>& positions,
                        std::span<const Operand> operands, const Stream& stream);

}  // namespace rotary::torch::stable
