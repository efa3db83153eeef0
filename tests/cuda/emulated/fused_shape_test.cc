// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The shape of launches of the fastest fused kernels, which their results do not show.

#include <gtest/gtest.h>

#include "cuda/fused_vectorized.h"

namespace rotary::internal::cuda {
namespace {

// Without queries: operands that are not there do not count as rotated.
TEST(FusedShape, ValuesAreNotRotated) {
  FusedVectorizedParams p;
  p.angles.fragments = 8;
  p.angles.tokens = 100;
  p.operands[0].heads = 9;
  p.operands[1].heads = 8;
  p.operands[1].rotates = false;
  shape_fused_block(8, 1, 10, 0, p);
  EXPECT_EQ(p.rotated_steps, 3);  // of four heads
  EXPECT_EQ(p.operands[1].end_step, 5);
  shape_fused_vectorized(1, 2, 1, 0, p);
  EXPECT_EQ(p.rotated_steps, 2);  // of eight
  EXPECT_EQ(p.operands[1].end_step, 3);
}

}  // namespace
}  // namespace rotary::internal::cuda
