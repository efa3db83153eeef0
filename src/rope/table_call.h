// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One call of a TableRope: its arguments checked, and the parameters for the engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/kernel.h"
#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/table.h"

namespace rotary::internal {

struct TableCall {
  const CosSinTable& table;
  const HeadLayout& layout;
  TableWidth width{};
  std::int64_t pairs = 0;
  WriteOrder order;

  /// Throws unless the table fits the operands, which have been checked. At least one operand.
  void check(std::string_view function, std::span<const Operand> operands,
             const Positions& positions, bool row_per_token) const;

  RotateParams params(std::span<const Operand> operands, const Positions& positions,
                      Direction direction) const;
};

}  // namespace rotary::internal
