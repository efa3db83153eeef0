// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What a rotation does to attention: decay with the distance, which contexts a base can serve, and
/// how exact angles in low precision are.
///
///   rotary::Recipe recipe{.rotary_dim = 128, .theta = 1e4};
///   rotary::Frequencies f = rotary::make_frequencies(recipe);
///   rotary::critical_dim(f, 4096);              // 92: the dims that make a turn within 4096
///   rotary::negative_distance(f, 4096);         // the first distance with a negative score
///   rotary::smallest_base(recipe, 4096).base;   // 26952.3: none below serves 4096 positions
///
/// Distances are query position minus key position. All functions throw std::invalid_argument for
/// sizes that do not match, and allocate; they may be called from several threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/recipe.h"

namespace rotary {

// ---- Scores by distance -------------------------------------------------------------------------

/// [pairs]: positions for one turn, 2 pi / |f|, |f| being the norm over the axes; infinite for
/// pairs that do not rotate.
std::vector<double> wavelengths(const Frequencies& frequencies);

/// [pairs]: turns within `context` positions; the norm over the axes as above.
std::vector<double> turns(const Frequencies& frequencies, std::int64_t context);

/// Scores of a query and an equal key by their offset, [n x axes] row-major:
///   sum_i w_i exp(g_i x) cos(f_i x)
/// g is the growth (xPos: queries grow as keys shrink), 0 for other recipes. `weights` [pairs];
/// empty: all equal, with the sum 1. The scale on cos and sin is not part of it.
std::vector<double> relative_scores(const Frequencies& frequencies, std::span<const double> offsets,
                                    std::span<const double> weights = {});

/// RoFormer's bound on the long-term decay (arXiv 2104.09864, section 3.4.3), by distance:
///   mean over j = 1 .. pairs of |sum over i < j of exp((g_i + i f_i) m)|
/// By Abel's summation a score at distance m is at most `pairs` times that and the largest step
/// between q_i k_i of neighbouring pairs. It bounds scores; it is not monotone, and neither are
/// they. Offsets [n x axes] as above.
std::vector<double> decay(const Frequencies& frequencies, std::span<const double> offsets);

/// [n x 2]: the position vectors (cos(f_i x), sin(f_i x))_i projected on their two principal
/// components (PCA), which draws positions in the plane. Each axis has the sign that makes its
/// largest component positive. One axis; growth is not part of it.
std::vector<double> position_plane(const Frequencies& frequencies,
                                   std::span<const double> positions);

/// The two factors of the receptive-field variant (ReceptiveField): with the common frequency
/// phi = alpha / 10000^rho, the score of equal vectors at distance x is
///   cos(phi x) a(x) - sin(phi x) b(x)
/// where a and b are the sums of w_i cos and w_i sin of (1 - alpha) f_i x.
struct ReceptiveFieldScores {
  double phi = 0.0;
  std::vector<double> a{};
  std::vector<double> b{};
};

/// `recipe.scaling` must be a ReceptiveField on one axis; `weights` as in relative_scores().
ReceptiveFieldScores receptive_field_scores(const Recipe& recipe, std::span<const double> distances,
                                            std::span<const double> weights = {});

// ---- Which contexts a base serves ---------------------------------------------------------------

/// The critical dimension (Liu et al., arXiv 2310.05209): dims of pairs that make at least one turn
/// within the trained context. The others meet angles beyond it that were never trained. Llama 2:
/// 92 of 128.
std::int64_t critical_dim(const Frequencies& frequencies, std::int64_t trained_context);

/// The context up to which the dims below `critical_dim` stay within one turn under another base:
/// 2 pi theta^(critical_dim / rotary_dim) (the same article).
double extrapolation_limit(double theta, std::int64_t rotary_dim, std::int64_t critical_dim);

/// The smallest sum of cosines, sum_i cos(m f_i), over the integer distances 0 <= m <= context.
struct CosineMinimum {
  double value = 0.0;
  std::int64_t distance = 0;
  /// |value - exact| is at most this, for the doubles of `frequencies`.
  double error = 0.0;
};

/// One axis; O(context * pairs). context is 0 to 2^40.
CosineMinimum smallest_cosine_sum(const Frequencies& frequencies, std::int64_t context);

/// The first distance in 1 .. context whose sum of cosines is certainly negative; none if there is
/// no such distance. A base "serves" a context if there is none (Xu et al., arXiv 2405.14591).
std::optional<std::int64_t> negative_distance(const Frequencies& frequencies, std::int64_t context);

/// Every base in [from, to] has a negative sum of cosines at `distance`.
struct FailingBases {
  double from = 0.0;
  double to = 0.0;
  std::int64_t distance = 0;
};

/// The smallest base that serves a context. What is proved, by bounds on all rounding errors:
/// `base` has no negative sum of cosines at any integer distance up to the context, and
///   - interval proof: every base in [1, lower] has one;
///   - grid proof: every base 1.01^k, k >= 1, up to `lower` has one.
/// Good bases are not an interval: larger ones may fail again, which negative_distance() tells.
struct BaseBound {
  double base = 0.0;
  double lower = 0.0;
  /// The distance at which bases just below fail.
  std::int64_t distance = 0;
  /// The smallest sum of cosines at `base`, and its distance.
  CosineMinimum minimum{};
  bool interval_proof = true;
  /// Ranges below `lower` that were not decided, each of a relative width of 1e-9 (none for any
  /// context tried so far): the infimum may lie in one of them.
  std::vector<double> undecided{};
  /// The interval proof: ranges that cover [1, lower] without a gap, but for `undecided`.
  std::vector<FailingBases> proof{};
};

/// `recipe.theta` is not used. Frequencies are made for `context` positions in use. The interval
/// proof, to a relative width of 1e-9, is for recipes with f_i proportional to theta^(-2i/d):
/// plain, linear, NTK (all three), LongRoPE, proportional, divisors, learnable; the others have a
/// grid proof. Takes about 0.1 s for 4096 positions, 1.5 s for 131,072. One axis, at least two
/// pairs, no growth; context 1 to 2^24. Throws std::invalid_argument also if no base up to 1e15
/// will do.
BaseBound smallest_base(const Recipe& recipe, std::int64_t context);

// ---- Precision ----------------------------------------------------------------------------------

/// How an implementation makes cos and sin:
///   kFloat32         frequency and angle in float32, exact cos and sin of that angle
///   kBfloat16Table   the same, cos and sin then rounded to bfloat16
///   kBfloat16Angle   frequency and position in bfloat16, their product in float32 (a model that
///                    was cast as a whole)
///   kFastMath        as kFloat32, reduced by one float32 product with 1/(2 pi), as the GPU's
///                    special function unit does; its table adds up to 5e-7
enum class AngleMethod : std::uint8_t { kFloat32, kBfloat16Table, kBfloat16Angle, kFastMath };

struct AngleError {
  /// The largest |angle - position * frequency| in radians over the pairs, and its pair.
  double angle = 0.0;
  std::int64_t pair = 0;
  /// The largest error of cos or sin over the pairs.
  double value = 0.0;
};

/// [positions]: one axis; positions of at most 2^40 in magnitude. Frequencies are rounded from the
/// exact ones; implementations that compute them in float32 are off by a few ulp more.
std::vector<AngleError> angle_errors(const Frequencies& frequencies, AngleMethod method,
                                     std::span<const std::int64_t> positions);

}  // namespace rotary
