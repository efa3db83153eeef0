// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which fused kernel takes a launch, and its block. Decided on the host from sizes and alignment
// alone.
#pragma once

#include <cstdint>

#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

/// Block: [rows][lanes] threads; grid: [head_splits][batch][tokens].
struct FusedShape {
  std::int32_t lanes = 0;  // of a head: a power of two from 4 to 32; 0: the kernel does not apply
  std::int32_t rows = 0;
  std::int32_t head_splits = 0;
  std::int32_t shared_bytes = 0;
};

/// Shape of fused_tokens, and its layout of shared memory in `to`, which holds the parameters.
FusedShape shape_fused_tokens(FusedTokensParams& to) noexcept;

}  // namespace rotary::internal::cuda
