// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The dropout mask on the CPU.
#pragma once

#include <cstdint>

#include "transformer/kernels/philox.h"

namespace rotary::transformer {

/// mask[0 .. size - 1]: 0, or 1 / keep_prob. The same bits as in the kernels, for any number of
/// threads.
void fill_dropout_mask(float* mask, std::int64_t size, std::uint64_t seed, const Dropout& rule);

}  // namespace rotary::transformer
