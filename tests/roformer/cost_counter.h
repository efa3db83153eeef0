// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Cost of a computation on the CPU, counted rather than timed: multiply-adds of PyTorch's operators
// and bytes of its allocator.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace rotary::roformer {

struct Cost {
  double operations = 0.0;
  double peak_bytes = 0.0;                      // beyond what was allocated before
  std::map<std::string, double> by_operator{};  // operations

  /// The operators that grew most, for messages.
  std::string growth_since(const Cost& other) const;
};

/// Counts while it lives, in this thread and the backward passes that it starts.
class CostCounter {
 public:
  CostCounter();
  ~CostCounter();
  CostCounter(const CostCounter&) = delete;
  CostCounter& operator=(const CostCounter&) = delete;

  Cost cost() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rotary::roformer
