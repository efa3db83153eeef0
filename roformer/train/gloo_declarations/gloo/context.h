// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
