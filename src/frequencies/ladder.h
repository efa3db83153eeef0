// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A ladder is the sequence of frequencies f_0, f_1, ... of one axis. Every scaling makes one; the
// axis maps assign its entries to the matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/recipe.h"

namespace rotary::internal {

inline constexpr long double kPi = 3.14159265358979323846264338327950288L;

struct Ladder {
  std::vector<long double> values{};
  long double scale = 1.0L;
  long double softmax_scale = 1.0L;
  /// Empty, or one per frequency: see Frequencies::growth.
  std::vector<long double> growth{};
  double growth_origin = 0.0;
};

/// Arguments of a scaling.
struct LadderArgs {
  std::int64_t dim = 0;    // d of the formulas
  std::int64_t pairs = 0;  // frequencies to compute: d/2, rounded up where d is odd
  long double theta = 0.0L;
  std::int64_t context = 0;  // positions in use; 0: the trained length

  LadderArgs with_theta(long double other) const {
    LadderArgs args = *this;
    args.theta = other;
    return args;
  }
};

/// theta^(-2i/d) (RoFormer, arXiv 2104.09864, section 3.2.2).
std::vector<long double> plain_frequencies(const LadderArgs& args);

Ladder make_ladder(const Scaling& scaling, const LadderArgs& args);

Ladder make_ladder(const Plain&, const LadderArgs&);
Ladder make_ladder(const Linear&, const LadderArgs&);
Ladder make_ladder(const Ntk&, const LadderArgs&);
Ladder make_ladder(const NtkAlpha&, const LadderArgs&);
Ladder make_ladder(const DynamicNtk&, const LadderArgs&);
Ladder make_ladder(const Yarn&, const LadderArgs&);
Ladder make_ladder(const YarnPaper&, const LadderArgs&);
Ladder make_ladder(const YarnWalkthrough&, const LadderArgs&);
Ladder make_ladder(const LongRope&, const LadderArgs&);
Ladder make_ladder(const Llama3&, const LadderArgs&);
Ladder make_ladder(const Proportional&, const LadderArgs&);
Ladder make_ladder(const Divisors&, const LadderArgs&);
Ladder make_ladder(const Learnable&, const LadderArgs&);
Ladder make_ladder(const ReceptiveField&, const LadderArgs&);
Ladder make_ladder(const Xpos&, const LadderArgs&);

/// Rounds every wavelength to whole positions (Wavelengths::kWhole).
void round_wavelengths(std::vector<long double>& frequencies);

/// theta * gain^(d/(d-2)): the change of base that divides the lowest frequency by `gain` and keeps
/// the highest. Throws where d = 2, which has no such base.
long double ntk_theta(const LadderArgs& args, long double gain);

// Checks of recipe members. Each throws std::invalid_argument that names recipe and member.
void require_positive(const char* what, double value);
void require_positive(const char* what, std::int64_t value);
void require_size(const char* what, std::size_t size, std::int64_t pairs);

}  // namespace rotary::internal
