// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Everything a call must satisfy, checked once, before anything is written.
#pragma once

#include <string_view>

#include "rotary/frequencies.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"

namespace rotary::internal {

/// Position axes that an engine has room for.
inline constexpr std::int64_t kMostAxes = 16;

/// Throws unless the frequencies are complete and fit into the head.
void check_rope(const Frequencies& frequencies, const HeadLayout& layout);

/// The view as [batch, tokens, heads, head_dim]. Throws unless its rank is 3 or 4, its type a
/// floating-point one and its last size head_dim.
template <typename Void>
BasicTensorView<Void> as_heads(std::string_view function, const BasicTensorView<Void>& view,
                               std::int64_t head_dim);

/// Throws unless `out` can take the result of `in`: same shape, type and device, no two elements of
/// `out` at one address, and either the same memory as `in` in the same order or none of it.
void check_output(std::string_view function, const ConstTensorView& in, const TensorView& out);

/// Throws unless the positions fit the tensor and the rope's axes, and are finite.
void check_positions(std::string_view function, const Positions& positions,
                     const ConstTensorView& tensor, std::int64_t axes);

}  // namespace rotary::internal
