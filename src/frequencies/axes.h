// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Axis maps: from ladders to the matrix [pairs x axes].
#pragma once

#include "frequencies/ladder.h"
#include "rotary/frequencies.h"

namespace rotary::internal {

/// Everything a map needs to ask for ladders: the scaling, and its arguments for the whole slice.
struct LadderSource {
  const Scaling& scaling;
  LadderArgs args;
  long double gain = 1.0L;  // on every frequency, sign included

  /// The ladder of the whole slice.
  Ladder whole() const { return with_gain(make_ladder(scaling, args)); }
  /// A ladder over `dim` dims, for an axis of its own.
  Ladder over(std::int64_t dim) const {
    LadderArgs own = args;
    own.dim = dim;
    own.pairs = dim / 2;
    return with_gain(make_ladder(scaling, own));
  }

  Ladder with_gain(Ladder ladder) const {
    for (long double& f : ladder.rungs) f *= gain;
    return ladder;
  }
};

Frequencies place(const OneAxis&, const LadderSource&);
Frequencies place(const Axial&, const LadderSource&);
Frequencies place(const Mrope&, const LadderSource&);
Frequencies place(const Mixed&, const LadderSource&);

/// A matrix of zeros for `pairs` and `axes`, with the ladder's scale, softmax scale and origin.
Frequencies blank_matrix(std::int64_t pairs, std::int64_t axes, const Ladder& ladder);

/// Puts rung `rung` of the ladder at (pair, axis).
void set_rung(Frequencies& matrix, std::int64_t pair, std::int64_t axis, const Ladder& ladder,
              std::size_t rung);

}  // namespace rotary::internal
