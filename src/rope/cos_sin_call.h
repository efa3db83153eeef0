// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A call of Rope::cos_sin: its checks and its work.
#pragma once

#include "engine/kernel.h"
#include "rotary/frequencies.h"

namespace rotary::internal {

class CosSinCall {
 public:
  /// Throws std::invalid_argument unless views and positions match each other and the rope.
  CosSinCall(const TensorView& cos, const TensorView& sin, const Positions& positions,
             const Frequencies& frequencies);

  void run(const AngleSource& source, const Threads& threads, const Stream& stream) const;

 private:
  void fill_on_cpu(const AngleSource& source, const Threads& threads) const;

  TensorView cos_;  // [batch, tokens, pairs]
  TensorView sin_;
  const Positions& positions_;
};

}  // namespace rotary::internal
