// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Planted errors, which prove that compute-sanitizer detects their kind. Disabled by default;
// scripts/gpu.sh runs them and expects reports.

#include <gtest/gtest.h>

#include "cuda/device_memory.h"
#include "cuda/planted_race.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

/// Rotates float32 [4 tokens, 2 heads, 64] in uninitialised memory of `tokens` tokens.
void rotate_uninitialized(std::int64_t tokens) {
  const Rope rope(make_frequencies({.rotary_dim = 64, .theta = 1e4}),
                  {.head_dim = 64, .pairing = Pairing::kHalf});
  const DeviceMemory memory(static_cast<std::size_t>(tokens) * 2 * 64 * sizeof(float));
  rope.rotate(TensorView::contiguous(memory.data(), DType::kFloat32, {4, 2, 64}, kGpu),
              Positions::range());
  cudaDeviceSynchronize();
}

TEST(CudaPlanted, DISABLED_OutOfBounds) { rotate_uninitialized(3); }
TEST(CudaPlanted, DISABLED_Uninitialised) { rotate_uninitialized(4); }
TEST(CudaPlanted, DISABLED_Race) {
  const DeviceMemory memory(64 * sizeof(int));
  race_in_shared_memory(reinterpret_cast<int*>(memory.data()));
}

}  // namespace
}  // namespace rotary
