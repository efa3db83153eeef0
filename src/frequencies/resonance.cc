// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Resonance RoPE (Wang et al., "Resonance RoPE: improving context length generalization of large
// language models", arXiv 2403.00071, section 4.1):
//   lambda_i = 2 pi / f_i,  f'_i = 2 pi / round(lambda_i)
// A pair then repeats after whole positions, so that positions beyond the training length have
// angles that were trained, for every pair that makes a rotation within that length. It is applied
// to the frequencies of any scaling; with YaRN's it is the paper's Resonance YaRN.

#include <algorithm>
#include <cmath>

#include "frequencies/ladder.h"

namespace rotary::internal {

void round_wavelengths(std::vector<long double>& frequencies) {
  for (long double& f : frequencies) {
    if (f == 0.0L) continue;
    const long double wavelength = std::round(2.0L * kPi / std::fabs(f));
    f = std::copysign(2.0L * kPi / std::max(wavelength, 1.0L), f);
  }
}

}  // namespace rotary::internal
