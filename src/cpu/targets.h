// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The Highway targets that the engine is compiled for. Must be included before <hwy/...>.
#pragma once

// Disabled:
//   SSSE3, SSE4   no fused multiply-add; such CPUs (before 2013) run the scalar target
//   AVX3_DL       AVX3 plus integer instructions that nothing here uses
//   SVE           vectors of unknown size cannot be array members, which is how cos and sin stay in
//                 registers; CPUs with SVE do as much work per cycle with NEON
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// The scalar target is always built: tests compare all others with it.
#ifndef HWY_COMPILE_ALL_ATTAINABLE
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
