// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace rotary::torch::hopper {

/// Multiprocessors of a device of compute capability 9.0; 0 for others.
int processors_of(int device);

}  // namespace rotary::torch::hopper
