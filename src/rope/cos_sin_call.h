// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A call of Rope::cos_sin: what it must satisfy, and the work.
#pragma once

#include "rope/kernel.h"
#include "rotary/frequencies.h"

namespace rotary::internal {

class CosSinCall {
 public:
  /// Throws std::invalid_argument unless the views and the positions fit each other and the rope.
  CosSinCall(const TensorView& cos, const TensorView& sin, const Positions& positions,
             const Frequencies& frequencies);

  void run(const Source& source, const Threads& threads, const Stream& stream) const;

 private:
  void fill_on_cpu(const Source& source, const Threads& threads) const;

  TensorView cos_;  // [batch, tokens, pairs]
  TensorView sin_;
  const Positions& positions_;
};

}  // namespace rotary::internal
