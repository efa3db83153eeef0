// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A row of the caller's cos and sin, converted and made for the direction.
#pragma once

#include <cstdint>

#include "rope/kernel.h"

namespace rotary::internal {

/// `c` and `s` hold job.pairs entries.
template <typename T>
void read_table_row(const Job& job, std::int64_t batch, std::int64_t row, T* c, T* s) noexcept;

}  // namespace rotary::internal
