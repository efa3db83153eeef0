// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which memory a view touches.
#pragma once

#include "rotary/tensor.h"

namespace rotary::internal {

/// False when sizes or strides are so large that no memory can hold the view.
bool fits_memory(const ConstTensorView& view) noexcept;

/// True when no two elements share an address: sorted by stride, each dimension steps over all that
/// the finer ones reach. Exotic views that interleave without meeting are refused as well.
bool elements_are_distinct(const ConstTensorView& view) noexcept;

/// The same elements at the same addresses in the same order; shapes are equal.
bool is_same_memory(const ConstTensorView& a, const ConstTensorView& b) noexcept;

/// False when it can be shown that the views have no byte in common: they lie apart, or they are
/// different parts of one pattern that repeats, as the q, k and v of a packed projection are.
bool may_overlap(const ConstTensorView& a, const ConstTensorView& b) noexcept;

}  // namespace rotary::internal
