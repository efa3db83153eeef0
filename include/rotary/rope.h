// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Rotary position embedding of query and key tensors.
///
///   rotary::Rope rope(rotary::make_frequencies({.rotary_dim = 128, .theta = 5e5}),
///                     {.head_dim = 128, .pairing = rotary::Pairing::kHalf});
///   rope.rotate({q, k}, rotary::Positions::range());   // in place; q is [tokens, heads, 128]
///   rope.rotate(q, out, rotary::Positions::range());   // out of place
///
/// Each pair (x, y) is multiplied by the complex number z = scale * e^(i phase):
///   (x, y) -> scale * (x cos - y sin, x sin + y cos)
/// The adjoint multiplies by conj(z), the inverse by 1/z, a shift by e^(i f delta), a change of
/// recipe by z_to / z_from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "rotary/cuda.h"
#include "rotary/frequencies.h"
#include "rotary/kv_cache.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"
#include "rotary/write_order.h"

namespace rotary {

/// How the angle is computed.
enum class Precision : std::uint8_t {
  /// The phase is position * frequency as a 64-bit fixed-point number of turns, so large positions
  /// lose no accuracy. Absolute error of cos and sin for float32, bfloat16 and float16 tensors:
  /// 1e-7 up to |position| = 2^31, 3e-7 up to 2^40, beyond that 1e-7 + |position| * 1.8e-19. For
  /// float64 tensors: 2e-16 + |position| * 1.8e-19. With several axes |position| is the sum over
  /// axes.
  kExact,
  /// As transformers computes it: float32 frequency times float32 position, cos and sin of that
  /// float, with its error (8e-3 at position 131,072). For parity with how models were trained.
  kReference,
};

/// Whether cos and sin are tabulated. The choice changes no bit of a result and limits no position:
/// cos and sin that the table does not hold are computed.
enum class CachePolicy : std::uint8_t {
  kNone,    // computed in every call, once for all heads of a token
  kAll,     // tabulated for positions 0 .. n-1 at construction
  kHybrid,  // the same table, each part filled by the first call that needs it
};

/// A table takes 8 bytes per position and pair (kHybrid: committed on first use). It serves integer
/// positions, on one axis or equal on all axes, of float32, bfloat16 and float16 tensors on the
/// CPU; everything else is computed. CUDA kernels compute angles at no cost; for tables there see
/// Rope::cos_sin and TableRope.
struct Cache {
  CachePolicy policy = CachePolicy::kNone;
  std::int64_t positions = 0;  // n
};

struct RopeOptions {
  Precision precision = Precision::kExact;
  Cache cache{};
  Threads threads{};
  /// Of results on the CPU, for experiments; see write_order.h. Changes no bit.
  WriteOrder order{};
};

/// One tensor of Rope::gradient.
struct GradientOperand {
  ConstTensorView in{};        // the input of rotate()
  ConstTensorView grad_out{};  // gradient of the loss with respect to its output; the same shape
  /// Gradient with respect to `in`; not written if data is null. May be grad_out's memory.
  TensorView grad_in{};
};

/// Gradients of parameters that Rope::gradient writes; leave empty what is not wanted. Sums over
/// all heads, tokens and operands, in a fixed order: the same bits for every number of threads, and
/// in every run on a GPU. All memory is on the device of the tensors.
struct ParameterGradients {
  /// [pairs x axes], as Frequencies::values.
  std::span<double> frequencies{};
  /// float64, in the shape of the positions: [axes, batch, tokens], or [axes, tokens] where batch
  /// rows share them; axes is 1 for positions on_all_axes(), ranges and packed sequences.
  TensorView positions{};
  double* scale = nullptr;
  /// CUDA: scratch memory of Rope::gradient_workspace() bytes, aligned to 256. Its content after
  /// the call is unspecified.
  std::span<std::byte> workspace{};
};

/// An immutable rotation: construct it once, use it from any number of threads.
///
/// Tensors are [tokens, heads, head_dim] or [batch, tokens, heads, head_dim] with any strides, of
/// float32, float64, bfloat16 or float16. float64 is computed in float64, the others in float32 and
/// rounded once. Tensors of one call share batch and tokens; heads and types may differ.
///
/// Every call throws std::invalid_argument, before anything is written, if shapes, types, devices
/// or positions do not match, or if an output overlaps other memory of the call. Results do not
/// depend on how tokens are split over calls, on strides or on threads. Calls do not allocate
/// unless rotary_dim exceeds 512.
///
/// Tensors on CUDA are rotated by kernels launched on `stream` (cuda.h), with the same bits as on
/// the CPU (with growth, up to the last bit of exp). CudaError if a kernel cannot be launched.
class Rope {
 public:
  /// Throws std::invalid_argument for a non-positive head_dim, a rotary slice that does not fit
  /// into it, a missing pairing, a matrix of the wrong size, a non-finite entry, a cache that is
  /// negative or beyond 2^40 bytes, or a write order that is none (in the environment, too).
  Rope(Frequencies frequencies, const HeadLayout& layout, const RopeOptions& options = {});

  /// Rotates one tensor in place, or several: {q, k}, or {{q, q_out}, {k, k_out}} out of place.
  void rotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// Out of place: `out` has the shape, type and device of `in` and its own strides. It equals `in`
  /// (in place, as above) or shares no memory with it. Large results are written fastest where
  /// heads are aligned to 64 bytes.
  void rotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
              Stream stream = {}) const;

  /// Normalises every head, then rotates it: one pass instead of two (norm.h). Tensors of float32,
  /// bfloat16 or float16, with weights and biases on their device. With NormRounding::kTensor the
  /// bits are those of the norm, rounded to the tensor's type, and rotate(). Throws
  /// std::invalid_argument also for a weight or bias that does not fit, an eps that is negative or
  /// not finite, float64, and on CUDA a rotary slice whose frequencies do not fit one launch (a
  /// rotary_dim of 1024 does for integer positions on one axis). On the CPU it allocates: a float
  /// for every element of a weight, and some for each thread.
  void norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                   const Positions& positions, Stream stream = {}) const;
  void norm_rotate(std::initializer_list<NormOperand> tensors, const HeadNorm& norm,
                   const Positions& positions, Stream stream = {}) const {
    norm_rotate(std::span<const NormOperand>(tensors.begin(), tensors.size()), norm, positions,
                stream);
  }

  /// The backward pass of norm_rotate(), of a norm before the forward rotation: gradients of
  /// inputs, weights and biases in one pass, in float32. Gradients of weights are sums over all
  /// tokens and, for NormScope::kHead, heads, in a fixed order: the same bits for every number of
  /// threads. Throws what norm_rotate() throws, and for the other order and rotation.
  ///
  /// On CUDA, too; gradients of weights are then in device memory, and need scratch memory on the
  /// device, aligned to 256, of norm_gradient_workspace() bytes. Sums have a fixed order as well,
  /// but not the CPU's: results are equal up to rounding.
  void norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                     const Positions& positions, std::span<std::byte> workspace = {},
                     Stream stream = {}) const;

  /// Bytes of norm_gradient()'s workspace for tensors on CUDA, 0 on the CPU. Throws as it does for
  /// shapes.
  std::size_t norm_gradient_workspace(std::span<const NormGradientOperand> tensors,
                                      const HeadNorm& norm) const;

  /// Rotates q, rotates k into a cache of keys, and copies v into a cache of values, in one pass
  /// (kv_cache.h). Tensors, caches, slots and scales are on one device; q, k and v share batch and
  /// tokens. The bits are those of rotate() (with a norm, of norm_rotate()), then of the store.
  /// Throws std::invalid_argument also for slots outside of the caches, and for caches that overlap
  /// each other or anything that is read. On the CPU it allocates the list of slots, 64 KiB for
  /// each thread, and with a norm as much as k. On CUDA it is one launch where q, k and v have one
  /// type, which must not be float64; slots and scales are not checked there: a token whose slot is
  /// outside of the cache is not stored, and of several tokens with one slot any is.
  void append(const KvAppend& tensors, const Positions& positions, Stream stream = {}) const;

  /// rotate() or unrotate() of a tensor on the CPU, quantised as `out` says; out.data has its
  /// shape.
  void rotate_to(const ConstTensorView& in, const StoredTensor& out,
                 const Positions& positions) const;
  void unrotate_to(const ConstTensorView& in, const StoredTensor& out,
                   const Positions& positions) const;

  /// shift() of the keys in those slots of a cache on the CPU. Quantised keys are read, rotated in
  /// float32 and quantised again, by their given scales or by newly computed ones. What that loses:
  /// at most half a step of the type (kv_cache.h) and 1e-6 of the pair's magnitude, unless a given
  /// scale saturates. Of a slot that is listed twice the last token counts.
  void shift_cached(const StoredTensor& keys, const Slots& slots, const Positions& delta) const;

  /// The inverse, scale included: reads the output pairing and writes the input pairing.
  void unrotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;
  void unrotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
                Stream stream = {}) const;

  /// The transpose: maps the gradient of the output to the gradient of the input. Equal to unrotate
  /// when scale is 1.
  void adjoint(const Operands& tensors, const Positions& positions, Stream stream = {}) const;
  void adjoint(const ConstTensorView& in, const TensorView& out, const Positions& positions,
               Stream stream = {}) const;

  /// Shifts rotated keys (in the output pairing) by `delta`: keys rotated at position p become
  /// those of p + delta. Applies no scale, so repeated shifts do not drift; the angle is exact also
  /// with Precision::kReference. Positions::at(delta) is one distance for all tokens,
  /// Positions::at(deltas) one per batch row, ids one per token.
  void shift(const Operands& keys, const Positions& delta, Stream stream = {}) const;

  /// cos and sin of every token, times the scale, as rotate() uses them: views [tokens, pairs] or
  /// [batch, tokens, pairs] of one floating-point type, any strides; rounded once. The result suits
  /// TableRope and other software. On the CPU it allocates as much as it writes.
  void cos_sin(const TensorView& cos, const TensorView& sin, const Positions& positions,
               Stream stream = {}) const;

  /// The backward pass of rotate(): the gradient of the input of each operand (the adjoint), and,
  /// summed over operands, the gradients of frequencies, positions and scale. On the CPU gradients
  /// of parameters allocate: rows of doubles for every 64 tokens.
  void gradient(std::span<const GradientOperand> tensors, const Positions& positions,
                const ParameterGradients& parameters = {}, Stream stream = {}) const;
  void gradient(std::initializer_list<GradientOperand> tensors, const Positions& positions,
                const ParameterGradients& parameters = {}, Stream stream = {}) const {
    gradient(std::span<const GradientOperand>(tensors.begin(), tensors.size()), positions,
             parameters, stream);
  }

  /// Bytes of ParameterGradients::workspace for CUDA tensors of that many batch rows and tokens.
  std::size_t gradient_workspace(std::int64_t batch, std::int64_t tokens) const noexcept;

  /// The write order that rotate() would take for the first of these tensors, all choices made.
  /// Throws what rotate() throws for the tensors. kAuto for tensors on CUDA.
  WriteOrder write_order(const Operands& tensors) const;

  /// The same rotation on other threads. Cheap: tables are shared.
  Rope with_threads(Threads threads) const;
  /// The same rotation in another write order, likewise. Throws as the constructor does.
  Rope with_order(const WriteOrder& order) const;

  const Frequencies& frequencies() const noexcept;
  /// With output_pairing filled in.
  const HeadLayout& layout() const noexcept;
  const RopeOptions& options() const noexcept;

 private:
  friend void rerotate(const Operands& keys, const Rope& from, const Rope& to,
                       const Positions& positions, Stream stream);
  friend void rerotate_cached(const StoredTensor& keys, const Slots& slots, const Rope& from,
                              const Rope& to, const Positions& positions);
  struct State;
  std::shared_ptr<const State> state_;
};

/// Changes the recipe of cached keys: keys that `from` rotated at `positions` become those of `to`
/// (when dynamic NTK or LongRoPE crosses a length, or after a cache edit). Multiplies once by z_to
/// / z_from; where both are kExact the phase difference is exact. Reads the output pairing of
/// `from`, writes that of `to`; both must have the same head_dim, rotary slice and axes. Runs on
/// the threads of `to`.
void rerotate(const Operands& keys, const Rope& from, const Rope& to, const Positions& positions,
              Stream stream = {});

/// rerotate() of the keys in those slots of a cache on the CPU, as Rope::shift_cached does it.
void rerotate_cached(const StoredTensor& keys, const Slots& slots, const Rope& from, const Rope& to,
                     const Positions& positions);

}  // namespace rotary
