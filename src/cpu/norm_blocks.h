// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norms of every kind, block by block: what the fused kernels do not take.
#pragma once

#include "engine/norm_kernel.h"
#include "rotary/threads.h"

namespace rotary::internal {

void norm_blocks_on_cpu(const NormParams& params, const Threads& threads);

/// The tokens of rank first .. last - 1, on this thread.
void norm_blocks_tokens_on_cpu(const NormParams& params, std::int64_t first, std::int64_t last);

}  // namespace rotary::internal
