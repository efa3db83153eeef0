// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda.h>

namespace rotary::torch::hopper {

/// A map of boxes of a tensor of at most four dimensions, the innermost first, whose elements of 16
/// bits lie side by side there; strides, in bytes, from the next one on. False where CUDA refuses.
bool encode_map(CUtensorMap& map, void* data, int dimensions, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* box);

}  // namespace rotary::torch::hopper
