// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Part of a rotation, for engines that do more to the same tokens.
#pragma once

#include <cstdint>

#include "cpu/plan.h"
#include "engine/kernel.h"

namespace rotary::internal {

/// Rotates the tokens of rank first .. last - 1, in the plan's order, on the calling thread.
void rotate_tokens_on_cpu(const RotateParams& params, const CpuPlan& plan, std::int64_t first,
                          std::int64_t last);

}  // namespace rotary::internal
