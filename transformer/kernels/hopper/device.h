// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace rotary::transformer::hopper {

/// Number of SMs (streaming multiprocessors) of a device of compute capability 9.0; 0 for others.
int num_sms(int device);

}  // namespace rotary::transformer::hopper
