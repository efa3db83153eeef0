// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Runs a test on every SIMD target of the machine, the emulated one included.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "rotary/cpu.h"

namespace rotary {

/// Calls call(name) for each target, best first, with that target in use.
template <typename Call>
void on_every_target(const Call& call) {
  for (const std::string_view name : cpu_targets()) {
    SCOPED_TRACE(std::string(name));
    use_cpu_target(name);
    EXPECT_EQ(cpu_target(), name);
    call(name);
    // A call that changed the target would have tested another one.
    EXPECT_EQ(cpu_target(), name);
    if (testing::Test::HasFatalFailure()) break;
  }
  use_cpu_target("");
}

}  // namespace rotary
