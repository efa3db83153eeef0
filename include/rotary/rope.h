// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The rotation itself.
///
///   rotary::Rope rope(rotary::make_frequencies({.rotary_dim = 128, .theta = 5e5}),
///                     {.head_dim = 128, .pairing = rotary::Pairing::kHalf});
///   rope.rotate(q, rotary::Positions::range());        // in place; q is [tokens, heads, 128]
///
/// Each pair (x, y) is multiplied by the complex number z = scale * e^(i phase):
///   (x, y) -> scale * (x cos - y sin, x sin + y cos)
/// The adjoint multiplies by conj(z), the inverse by 1/z.
#pragma once

#include <cstdint>
#include <memory>

#include "rotary/frequencies.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"

namespace rotary {

/// How the angle is formed.
enum class Precision : std::uint8_t {
  /// The phase is position * frequency as a 64-bit fixed-point number of turns, so nothing is lost
  /// to size: cos and sin of float32, bfloat16 and float16 tensors are within 1e-7 of the true ones
  /// for positions up to 2^31 in size, within 3e-7 up to 2^40, and beyond that within
  /// 1e-7 + |position| * 1.8e-19. For float64 tensors: 2e-16 + |position| * 1.8e-19. With several
  /// axes |position| is their sum.
  kExact,
  /// What transformers computes: float32 frequency times float32 position, cos and sin of that
  /// float, whatever the error (8e-3 at position 131,072). For parity with how models were trained.
  kReference,
};

/// An immutable rotation: make it once, use it from any number of threads.
class Rope {
 public:
  /// Throws std::invalid_argument: a head_dim that is not positive, a rotary slice that does not
  /// fit into it, no pairing, a matrix of the wrong size, or an entry that is not finite.
  Rope(Frequencies frequencies, const HeadLayout& layout, Precision precision = Precision::kExact);

  /// Rotates in place. `x` is [tokens, heads, head_dim] or [batch, tokens, heads, head_dim] with
  /// any strides, of float32, float64, bfloat16 or float16. float64 is computed in float64, the
  /// others in float32, rounded once. Throws std::invalid_argument before anything is written if
  /// shapes, types, devices or positions do not fit, or if elements of the view share memory.
  /// Allocates a few rows of scratch. Results do not depend on how tokens are split over calls.
  void rotate(const TensorView& x, const Positions& positions) const;

  /// Out of place: `out` has the shape, type and device of `in` and its own strides. It is `in`
  /// itself (then this is the call above) or shares no memory with it.
  void rotate(const ConstTensorView& in, const TensorView& out, const Positions& positions) const;

  /// The true inverse, scale included: reads the output pairing and writes the input pairing.
  void unrotate(const TensorView& x, const Positions& positions) const;
  void unrotate(const ConstTensorView& in, const TensorView& out, const Positions& positions) const;

  /// The transpose: turns the gradient of the output into the gradient of the input.
  /// Equal to unrotate when scale is 1.
  void adjoint(const TensorView& x, const Positions& positions) const;
  void adjoint(const ConstTensorView& in, const TensorView& out, const Positions& positions) const;

  const Frequencies& frequencies() const noexcept;
  /// With output_pairing filled in.
  const HeadLayout& layout() const noexcept;
  Precision precision() const noexcept;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace rotary
