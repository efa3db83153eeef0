// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A switch of PyTorch's CPU backend oneDNN (mkldnn).
#pragma once

namespace rotary::roformer {

/// Turns oneDNN off for this process on an AArch64 CPU without bfloat16 instructions. PyTorch does
/// the same at the first bfloat16 product of matrices, but only after oneDNN has failed, with a
/// warning of forty lines. No effect on other CPUs.
void disable_onednn_without_bf16();

}  // namespace rotary::roformer
