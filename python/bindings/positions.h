// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bindings/arrays.h"
#include "rotary/positions.h"

namespace rotary::python {

/// Positions together with the arrays that they view.
struct HeldPositions {
  Positions value = Positions::range();
  Memory memory{};
};

}  // namespace rotary::python
