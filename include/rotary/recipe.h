// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Recipes: every published rule for the frequencies, as plain data.
///
///   rotary::Recipe llama31{
///       .rotary_dim = 128, .theta = 5e5,
///       .scaling = rotary::Llama3{.factor = 8, .original_context = 8192}};
///
/// A recipe is a ladder of frequencies f_i = theta^(-2i/d) (d = rotary_dim, pairs i = 0 .. d/2-1),
/// a scaling of that ladder, and a map from pairs to position axes; the three combine freely. Each
/// formula stands beside its code in src/frequencies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace rotary {

// ---- Scalings of the frequencies --------------------------------------------------------------

/// f_i unchanged ("default").
struct Plain {};

/// Position interpolation: f_i / factor.
struct Linear {
  double factor = 1.0;
};

/// Su's NTK-RoPE with a fixed factor ("ntk"), and its mixed form when `mixed_b` is given.
struct Ntk {
  double factor = 1.0;
  std::optional<double> mixed_b{};
};

/// NTK-aware change of base: theta * alpha^(d/(d-2)) (bloc97).
struct NtkAlpha {
  double alpha = 1.0;
};

/// Dynamic NTK: an NTK-aware change of base that depends on the context in use once it exceeds the
/// original context.
struct DynamicNtk {
  double factor = 1.0;
  std::int64_t original_context = 0;
  /// Hunyuan: the change of base of NtkAlpha, up to the original context. Beyond it alpha is
  /// ignored, as in transformers.
  std::optional<double> alpha{};
};

/// Whether attention must correct its softmax scale by mscale_all_dim, as DeepSeek's models do.
enum class SoftmaxCorrection : std::uint8_t { kNone, kMscaleAllDimSquared };

/// YaRN as implementations have it: a ramp over pair numbers between two correction dims.
struct Yarn {
  double factor = 1.0;
  std::int64_t original_context = 0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  /// Round the correction dims outwards to whole pairs (gpt-oss does not).
  bool truncate = true;
  /// The scale on cos and sin. Absent: from mscale and mscale_all_dim if both are given, else
  /// 0.1 ln(factor) + 1.
  std::optional<double> attention_factor{};
  std::optional<double> mscale{};
  std::optional<double> mscale_all_dim{};
  SoftmaxCorrection softmax_correction = SoftmaxCorrection::kNone;
};

/// YaRN as in its paper: a ramp over the rotations that a pair makes in the original context.
struct YarnPaper {
  double factor = 1.0;
  std::int64_t original_context = 0;
  double alpha = 1.0;
  double beta = 32.0;
};

/// Which of the two ramps of a walk-through: that of its code, or that of its prose, which is
/// YaRN's over pair numbers, f_i ((1 - gamma_i) + gamma_i / factor), without the temperature.
enum class WalkthroughRamp : std::uint8_t { kCode, kProse };

/// The "yarn" of a well-known walk-through. With the ramp of its code it is *not* YaRN: no pair
/// keeps its frequency except the first, the ramp runs over all pairs and jumps, and there is no
/// temperature. It reproduces models that were trained with it; MiniMind's have beta_fast 4.
/// Applies only when the context in use exceeds `original_context`.
struct YarnWalkthrough {
  double factor = 1.0;
  std::int64_t original_context = 0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  WalkthroughRamp ramp = WalkthroughRamp::kCode;
};

/// LongRoPE: a divisor per pair, one list up to the original context and one beyond it.
struct LongRope {
  std::vector<double> short_factor{};
  std::vector<double> long_factor{};
  std::int64_t original_context = 0;
  /// Extended over original context; sets the scale when `attention_factor` is absent.
  double factor = 1.0;
  std::optional<double> attention_factor{};
  /// Phi-MoE: explicit scales for the two regimes, instead of the above.
  std::optional<double> short_mscale{};
  std::optional<double> long_mscale{};
};

/// Llama 3.1: low frequencies divided by factor, high ones kept, a ramp over rotations between.
struct Llama3 {
  double factor = 1.0;
  std::int64_t original_context = 0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
};

/// Gemma 4: the ladder of the whole head; only the fastest `fraction` of its pairs is rotated.
struct Proportional {
  double fraction = 1.0;
  double factor = 1.0;
};

/// A divisor per pair, as a list (GGUF's rope_freqs).
struct Divisors {
  std::vector<double> divisor{};
};

/// Learned frequencies: f_i * exp(log_gain[i]).
struct Learnable {
  std::vector<double> log_gain{};
};

/// Receptive field: alpha / 10000^rho + (1 - alpha) f_i.
struct ReceptiveField {
  double alpha = 0.0;
  double rho = 1.0;
};

/// xPos: pair i also grows by zeta_i^(1/scale_base) per position, where
/// zeta_i = (2i/d + gamma) / (1 + gamma). Queries use the frequencies as made, keys
/// those of with_inverse_growth().
struct Xpos {
  double scale_base = 512.0;
  double gamma = 0.4;
  /// The position at which the growth is 1. Implementations differ; caches made under one origin
  /// are wrong under another.
  double origin = 0.0;
};

using Scaling =
    std::variant<Plain, Linear, Ntk, NtkAlpha, DynamicNtk, Yarn, YarnPaper, YarnWalkthrough,
                 LongRope, Llama3, Proportional, Divisors, Learnable, ReceptiveField, Xpos>;

/// The name configs use where they have one: "default", "linear", "yarn", "longrope", ...
std::string_view name_of(const Scaling& scaling) noexcept;

// ---- Axes: which coordinate of a position rotates which pair -----------------------------------

/// One position per token.
struct OneAxis {};

/// Order of the pairs of several axes (a, b: axes; indices: frequency of the axis' own ladder):
///   kBlocks       [a0 a1 a2 b0 b1 b2]
///   kAlternating  [a0 b0 a1 b1 a2 b2]
enum class AxialOrder : std::uint8_t { kBlocks, kAlternating };

/// Which frequencies an axis gets:
///   kOwn      each axis has a ladder over its own dims: f_i = theta^(-2i/dims[a])
///   kStrided  axis a gets f_a, f_(a+n), f_(a+2n), ... of the ladder over rotary_dim (Pixtral)
enum class AxialLadder : std::uint8_t { kOwn, kStrided };

/// Axial 2-D, 3-D, ...: each axis rotates its own part of the pairs.
struct Axial {
  std::int64_t axes = 2;
  /// Rotary dims of each axis, in layout order, each even. Empty: equal even shares; the dims left
  /// over at the end have frequency 0.
  std::vector<std::int64_t> dims{};
  AxialOrder order = AxialOrder::kBlocks;
  AxialLadder ladder = AxialLadder::kOwn;
  /// Position axis of each part, in layout order. Empty: 0, 1, 2, ... Kimi has columns before rows:
  /// {1, 0}.
  std::vector<std::int64_t> axis_order{};
};

/// How M-RoPE assigns the frequencies of *one* ladder to the axes (axes t h w, sections 2 2 1):
///   kChunked       [t t h h w]
///   kInterleaved   [t h w t h]   axis by pair number mod n while its section lasts, else axis 0
///   kRoundRobin    [t h w t h]   as above, but exhausted axes are skipped
///   kSpatialFirst  [h w h w t]   ERNIE: h and w alternate on the fast pairs, t has the slowest
///   kSpatialBlocks [h h w w t]   the same, sorted: f_0 f_2 for h, f_1 f_3 for w, f_4 for t
enum class MropeOrder : std::uint8_t {
  kChunked,
  kInterleaved,
  kRoundRobin,
  kSpatialFirst,
  kSpatialBlocks,
};

/// M-RoPE: one ladder; pair i has frequency f_i (except for kSpatialBlocks), and the sections say
/// which axis rotates it.
struct Mrope {
  /// Pairs per axis; they add up to d/2.
  std::vector<std::int64_t> sections{};
  MropeOrder order = MropeOrder::kChunked;
};

/// RoPE-Mixed: every pair has a frequency for every axis, as a (usually learned) matrix. theta is
/// not used.
struct Mixed {
  std::int64_t axes = 2;
  /// [d/2 x axes], row-major: (fx, fy) of pair 0, of pair 1, ...
  std::vector<double> frequencies{};
};

using AxisMap = std::variant<OneAxis, Axial, Mrope, Mixed>;

/// Maximum number of position axes.
inline constexpr std::int64_t kMaxAxes = 16;

/// Number of position axes of the map.
std::int64_t axes_of(const AxisMap& map) noexcept;

// ---- The recipe ---------------------------------------------------------------------------------

/// The sign of the angles: e^(i m f), or kBackward e^(-i m f) (nanochat).
enum class RotationDirection : std::uint8_t { kForward, kBackward };

/// The wavelengths 2 pi / f_i, after the scaling: as they are, or each rounded to the nearest whole
/// number of positions, at least 1 (Resonance RoPE). Pairs that are not rotated have none.
enum class Wavelengths : std::uint8_t { kExact, kWhole };

struct Recipe {
  std::int64_t rotary_dim = 0;
  /// The base of the ladder. Required; never guessed.
  double theta = 0.0;
  /// d of the formulas; 0: rotary_dim. transformers accepts an odd d: GLM-4.5's default, half of a
  /// head of 42, rotates 22 dims with d = 21.
  std::int64_t ladder_dim = 0;
  Scaling scaling = Plain{};
  AxisMap axes = OneAxis{};
  RotationDirection direction = RotationDirection::kForward;
  /// Multiplies every frequency: 2*pi for models whose positions count turns (DINOv3's coordinates
  /// in [-1, 1]).
  double gain = 1.0;
  Wavelengths wavelengths = Wavelengths::kExact;
};

}  // namespace rotary
