// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One row of the caller's cos/sin table: z, 1/z or conj(z), as the direction asks.
#pragma once

#include <cstdint>

#include "engine/kernel.h"

namespace rotary::internal {

/// Converts row `row` of batch row `batch` to T. `c` and `s` are [params.pairs].
template <typename T>
void read_table_row(const RotateParams& params, std::int64_t batch, std::int64_t row, T* c,
                    T* s) noexcept;

}  // namespace rotary::internal
