// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Argument checks of every call, made once, before anything is written.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <string_view>

#include "engine/phase_table.h"
#include "rotary/frequencies.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// Throws unless the frequencies are valid and fit into the head.
void check_rope(const Frequencies& frequencies, const HeadLayout& layout);

/// Throws unless `pairs` pairs fit into the head and the pairing is given.
void check_head(std::string_view function, const HeadLayout& layout, std::int64_t pairs);

void check_threads(std::string_view function, const Threads& threads);

/// Throws for negative sizes, and for missing or misaligned memory.
void check_memory(std::string_view function, const ConstTensorView& view);

/// Makes the view [batch, tokens, heads, head_dim]. Throws unless its rank is 3 or 4, its type a
/// floating-point one and its last size head_dim.
void check_heads(std::string_view function, ConstTensorView& view, std::int64_t head_dim);

/// A fixed-capacity vector of operands on the stack. Unused elements stay uninitialised.
class OperandList {
 public:
  Operand& add(const Operand& operand) noexcept {
    return *::new (&storage_[sizeof(Operand) * size_++]) Operand(operand);
  }
  std::span<const Operand> list() const noexcept {
    return {std::launder(reinterpret_cast<const Operand*>(storage_)), size_};
  }

 private:
  alignas(Operand) std::byte storage_[sizeof(Operand) * kMaxOperands];
  std::size_t size_ = 0;
};

/// The operands as [batch, tokens, heads, head_dim], stored in `checked`. Throws unless each `out`
/// matches its `in` (same shape, type and device, distinct elements, and either the same view or
/// disjoint memory), all share batch, tokens and device, and no output overlaps another operand.
std::span<const Operand> check_operands(std::string_view function, const Operands& operands,
                                        std::int64_t head_dim, OperandList& checked);

/// Throws unless the positions match the operands and the rope's axes, are finite, and do not
/// overlap outputs.
void check_positions(std::string_view function, const Positions& positions,
                     std::span<const Operand> operands, std::int64_t axes);

/// Throws if the positions overlap outputs.
void check_apart_from_positions(std::string_view function, const Positions& positions,
                                std::span<const Operand> operands);

/// True if there is nothing to rotate.
bool is_empty(std::span<const Operand> operands) noexcept;

}  // namespace rotary::internal
