// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Programmatic dependent launch (griddepcontrol), with CUTLASS's names. Nothing before compute
// capability 9.0.
#pragma once

namespace rotary::internal::cuda {

/// Waits until the previous kernel in the stream has completed and its writes are visible. Returns
/// at once in a launch without the programmatic-serialisation attribute.
__device__ __forceinline__ void wait_on_dependent_grids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Allows the next kernel in the stream to be scheduled; it waits as above before it reads.
__device__ __forceinline__ void launch_dependent_grids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace rotary::internal::cuda
