// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The functions of libhwy that the CPU engine calls, for the one target of the WebAssembly build.
#include <hwy/highway.h>

#include <cstdlib>

namespace hwy {

void Abort(const char* /*file*/, int /*line*/, const char* /*format*/, ...) { std::abort(); }

int64_t SupportedTargets() { return HWY_SCALAR; }

void SetSupportedTargetsForTest(int64_t /*targets*/) {}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
