// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which kernels were launched, for tests of the choice among them.
#pragma once

#include <string>
#include <vector>

namespace emulated {

/// Records the launch of a kernel at that address.
void record_launch(const void* kernel);

/// The mangled names of the kernels launched since the last call, which contain their own.
std::vector<std::string> take_launches();

}  // namespace emulated
