// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda.h>

namespace rotary::transformer::hopper {

/// Tensor map (TMA descriptor) of a tensor of at most four dimensions, innermost first, of 16-bit
/// elements; in shared memory boxes have the 128-byte swizzle. `strides`, in bytes, leave out the
/// innermost dimension, which is contiguous. False where the driver refuses.
bool make_tensor_map(CUtensorMap& map, void* data, int dimensions, const cuuint64_t* sizes,
                     const cuuint64_t* strides, const cuuint32_t* box);

}  // namespace rotary::transformer::hopper
