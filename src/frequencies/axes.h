// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Axis maps: assign the frequencies of ladders to the matrix [pairs x axes].
#pragma once

#include "frequencies/ladder.h"
#include "rotary/frequencies.h"

namespace rotary::internal {

/// Makes the ladders of a recipe: its scaling, and the arguments for the whole slice.
struct LadderSource {
  const Scaling& scaling;
  LadderArgs args;
  long double gain = 1.0L;  // factor on every frequency, sign included
  Wavelengths wavelengths = Wavelengths::kExact;

  /// The ladder of the whole slice.
  Ladder whole() const { return finished(make_ladder(scaling, args)); }
  /// The ladder of one axis over `dim` dims.
  Ladder over(std::int64_t dim) const {
    LadderArgs own = args;
    own.dim = dim;
    own.pairs = dim / 2;
    return finished(make_ladder(scaling, own));
  }

 private:
  Ladder finished(Ladder ladder) const {
    for (long double& f : ladder.values) f *= gain;
    if (wavelengths == Wavelengths::kWhole) round_wavelengths(ladder.values);
    return ladder;
  }
};

Frequencies assign_axes(const OneAxis&, const LadderSource&);
Frequencies assign_axes(const Axial&, const LadderSource&);
Frequencies assign_axes(const Mrope&, const LadderSource&);
Frequencies assign_axes(const Mixed&, const LadderSource&);

/// A zero matrix [pairs x axes] with the ladder's scale, softmax scale and growth origin.
Frequencies blank_matrix(std::int64_t pairs, std::int64_t axes, const Ladder& ladder);

/// Writes entry `index` of the ladder to (pair, axis).
void set_frequency(Frequencies& matrix, std::int64_t pair, std::int64_t axis, const Ladder& ladder,
                   std::size_t index);

}  // namespace rotary::internal
