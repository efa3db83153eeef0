// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The rotation itself.
///
///   rotary::Rope rope(rotary::make_frequencies({.rotary_dim = 128, .theta = 5e5}),
///                     {.head_dim = 128, .pairing = rotary::Pairing::kHalf});
///   rope.rotate({q, k}, rotary::Positions::range());   // in place; q is [tokens, heads, 128]
///   rope.rotate(q, out, rotary::Positions::range());   // q stays, out is the result
///
/// Each pair (x, y) is multiplied by the complex number z = scale * e^(i phase):
///   (x, y) -> scale * (x cos - y sin, x sin + y cos)
/// The adjoint multiplies by conj(z), the inverse by 1/z, a shift by z at the distance, a change of
/// recipe by the quotient of two z.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "rotary/cuda.h"
#include "rotary/frequencies.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

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

/// Where cos and sin of a position come from. The choice changes no bit of a result and limits no
/// position: what a table does not hold is computed.
enum class CachePolicy : std::uint8_t {
  kNone,    // made in every call, once for all heads of a token
  kAll,     // tabulated for positions 0 .. n-1 when the Rope is made
  kHybrid,  // the same table, each part of it made by the first call that needs it
};

/// A table takes 8 bytes for a position and pair (kHybrid: of memory that is touched when used).
/// It serves whole-number positions on one axis, or the same on all axes, of float32, bfloat16 and
/// float16 tensors on the CPU; everything else is computed. On CUDA angles are made in the kernel
/// at no cost; for a table there see Rope::cos_sin and TableRope.
struct Cache {
  CachePolicy policy = CachePolicy::kNone;
  std::int64_t positions = 0;  // n
};

struct RopeOptions {
  Precision precision = Precision::kExact;
  Cache cache{};
  Threads threads{};
};

/// One tensor of Rope::gradient.
struct GradientOperand {
  ConstTensorView in{};        // what was rotated, as it was before
  ConstTensorView grad_out{};  // gradient of the loss with respect to the result; the same shape
  /// Gradient with respect to `in`, written where it has memory. May be grad_out's memory.
  TensorView grad_in{};
};

/// What Rope::gradient writes besides; leave empty what is not wanted. Sums over all heads, tokens
/// and operands, made in a fixed order: the same bits for every number of threads, and in every run
/// on a GPU. All of it is memory of the tensors' device.
struct ParameterGradients {
  /// [pairs x axes], as Frequencies::values.
  std::span<double> frequencies{};
  /// float64, in the shape of the positions: [axes, batch, tokens], or [axes, tokens] where all
  /// batch rows share them; axes is 1 for positions on_all_axes(), ranges and packed sequences.
  TensorView positions{};
  double* scale = nullptr;
  /// CUDA: Rope::gradient_workspace() bytes to work in, aligned to 256. What they hold afterwards
  /// is not said.
  std::span<std::byte> workspace{};
};

/// An immutable rotation: make it once, use it from any number of threads.
///
/// Tensors are [tokens, heads, head_dim] or [batch, tokens, heads, head_dim] with any strides, of
/// float32, float64, bfloat16 or float16. float64 is computed in float64, the others in float32,
/// rounded once. Tensors of one call share batch and tokens; heads and types may differ.
///
/// Every call throws std::invalid_argument, before anything is written, if shapes, types, devices
/// or positions do not fit, or if memory that is written is also read or written otherwise. Results
/// do not depend on how tokens are split over calls, on strides or on threads. Calls do not
/// allocate, unless rotary_dim exceeds 512.
///
/// Tensors on CUDA are rotated there, by kernels queued on `stream` (cuda.h), with the bits that
/// the CPU would give; where frequencies grow, up to the last place of exp. CudaError if a kernel
/// cannot be started.
class Rope {
 public:
  /// Throws std::invalid_argument: a head_dim that is not positive, a rotary slice that does not
  /// fit into it, no pairing, a matrix of the wrong size, an entry that is not finite, or a cache
  /// that is negative or beyond 2^40 bytes.
  Rope(Frequencies frequencies, const HeadLayout& layout, const RopeOptions& options = {});

  /// Rotates one tensor in place, or several: {q, k}, or {{q, q_out}, {k, k_out}} out of place.
  void rotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// Out of place: `out` has the shape, type and device of `in` and its own strides. It is `in`
  /// itself (then this is the call above) or shares no memory with it. Large results are written
  /// fastest where heads begin at multiples of 64 bytes.
  void rotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
              Stream stream = {}) const;

  /// The true inverse, scale included: reads the output pairing and writes the input pairing.
  void unrotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;
  void unrotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
                Stream stream = {}) const;

  /// The transpose: turns the gradient of the output into the gradient of the input.
  /// Equal to unrotate when scale is 1.
  void adjoint(const Operands& tensors, const Positions& positions, Stream stream = {}) const;
  void adjoint(const ConstTensorView& in, const TensorView& out, const Positions& positions,
               Stream stream = {}) const;

  /// Moves rotated keys (in the output pairing) by `delta`: keys rotated for position p become
  /// those of p + delta. Applies no scale, so that shifts can follow each other without drift; the
  /// angle is exact, also for a Rope of Precision::kReference. Positions::at(delta) is one distance
  /// for all tokens, Positions::at(deltas) one a sequence; ids give each token its own.
  void shift(const Operands& keys, const Positions& delta, Stream stream = {}) const;

  /// cos and sin of every token, times the scale, as rotate() uses them: views [tokens, pairs] or
  /// [batch, tokens, pairs] of one floating-point type, any strides; rounded once. A table for
  /// TableRope, for other software, or to look at. On the CPU it allocates as much as it writes.
  void cos_sin(const TensorView& cos, const TensorView& sin, const Positions& positions,
               Stream stream = {}) const;

  /// The way back through rotate(): for each operand the gradient of its input (the adjoint), and
  /// over all of them those of the frequencies, the positions and the scale. On the CPU it
  /// allocates when gradients of parameters are asked for: rows of doubles for every 64 tokens.
  void gradient(std::span<const GradientOperand> tensors, const Positions& positions,
                const ParameterGradients& parameters = {}, Stream stream = {}) const;
  void gradient(std::initializer_list<GradientOperand> tensors, const Positions& positions,
                const ParameterGradients& parameters = {}, Stream stream = {}) const {
    gradient(std::span<const GradientOperand>(tensors.begin(), tensors.size()), positions,
             parameters, stream);
  }

  /// Bytes of ParameterGradients::workspace for tensors of so many batch rows and tokens on CUDA.
  std::size_t gradient_workspace(std::int64_t batch, std::int64_t tokens) const noexcept;

  /// The same rotation and tables on other threads. Cheap: nothing is computed again.
  Rope with_threads(Threads threads) const;

  const Frequencies& frequencies() const noexcept;
  /// With output_pairing filled in.
  const HeadLayout& layout() const noexcept;
  const RopeOptions& options() const noexcept;

 private:
  friend void rerotate(const Operands& keys, const Rope& from, const Rope& to,
                       const Positions& positions, Stream stream);
  struct State;
  std::shared_ptr<const State> state_;
};

/// Changes the recipe of keys that `from` rotated at `positions`: they become those of `to`,
/// without going back through the unrotated keys (a crossing of dynamic NTK or LongRoPE, an edit of
/// a cache). Multiplies once by z_to / z_from; where both are kExact the difference of the phases
/// is exact. Reads the output pairing of `from`, writes that of `to`; both must have the same
/// head_dim, rotary slice and axes. Runs on the threads of `to`.
void rerotate(const Operands& keys, const Rope& from, const Rope& to, const Positions& positions,
              Stream stream = {});

}  // namespace rotary
