// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The same on every engine that the machine can run, the emulated ones among them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "rotary/cpu.h"

namespace rotary {

/// Calls call(name) for each, best first, having made sure that it is the one that runs.
template <typename Call>
void on_every_target(const Call& call) {
  for (const std::string_view name : cpu_targets()) {
    SCOPED_TRACE(std::string(name));
    use_cpu_target(name);
    EXPECT_EQ(cpu_target(), name);
    call(name);
    // A call that changed the target would have tested another one than its name says.
    EXPECT_EQ(cpu_target(), name);
    if (testing::Test::HasFatalFailure()) break;
  }
  use_cpu_target("");
}

}  // namespace rotary
