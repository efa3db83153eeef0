// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Mistakes for compute-sanitizer to find, so that its silence means something: scripts/gpu.sh runs
// these, which are disabled otherwise, and wants to hear of them.

#include <gtest/gtest.h>

#include "cuda/device_memory.h"
#include "cuda/planted_race.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

/// float32 [4 tokens, 2 heads, 64] on memory of so many tokens that nobody wrote.
void rotate_on_memory_of(std::int64_t tokens) {
  const Rope rope(make_frequencies({.rotary_dim = 64, .theta = 1e4}),
                  {.head_dim = 64, .pairing = Pairing::kHalf});
  const DeviceMemory memory(static_cast<std::size_t>(tokens) * 2 * 64 * sizeof(float));
  rope.rotate(TensorView::contiguous(memory.data(), DType::kFloat32, {4, 2, 64}, kGpu),
              Positions::range());
  cudaDeviceSynchronize();
}

TEST(CudaPlanted, DISABLED_OutOfBounds) { rotate_on_memory_of(3); }
TEST(CudaPlanted, DISABLED_Uninitialised) { rotate_on_memory_of(4); }
TEST(CudaPlanted, DISABLED_Race) {
  const DeviceMemory memory(64 * sizeof(int));
  race_in_shared_memory(reinterpret_cast<int*>(memory.data()));
}

}  // namespace
}  // namespace rotary
