// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The reference loop: load, multiply, store, the minimum work of any rotation.
#pragma once

#include <cstddef>

namespace rotary::measure {

/// out[i] = in[i] * factor with the widest vectors of the machine; `out` is `in` or does not
/// overlap it.
void scale(const float* in, float* out, std::size_t count, float factor) noexcept;
void scale(const double* in, double* out, std::size_t count, double factor) noexcept;

}  // namespace rotary::measure
