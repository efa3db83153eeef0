// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Element types that kernels are instantiated for, without a CUDA header: host code names them,
// too.
#pragma once

#include <cstdint>

namespace rotary::transformer::cuda {

enum class ElementType : std::uint8_t { kFloat, kBFloat16, kFloat16, kDouble };

}  // namespace rotary::transformer::cuda
