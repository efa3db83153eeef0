// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The interface between Rope and the engines. An engine gets validated pointers, sizes and tables;
// it knows no model, no file and no error type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/phase_table.h"
#include "engine/position_reader.h"
#include "rotary/cuda.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"
#include "rotary/write_order.h"

namespace rotary::internal {

/// The factor of a pair as a complex number: z, 1/z or conj(z).
enum class Direction : std::uint8_t { kForward, kInverse, kAdjoint };

class CosSinCache;

/// Where z comes from: `phases` at the position (divided by z of `divisor`), or the rows of the
/// caller's `table`.
struct AngleSource {
  const PhaseTable* phases = nullptr;
  const PhaseTable* divisor = nullptr;
  const CosSinCache* cache = nullptr;  // of `phases`
  /// False: the positions are distances, to which neither scale nor origin applies.
  bool is_position = true;
  const CosSinTable* table = nullptr;  // views [batch or 1, rows, width]
  TableWidth width = TableWidth::kPairs;
};

/// Parameters of one rotation. Operands have rank 4, [batch, tokens, heads, head_dim], and share
/// batch and tokens.
struct RotateParams {
  AngleSource source;
  Direction direction = Direction::kForward;
  Pairing read = Pairing::kHalf;   // of the inputs
  Pairing write = Pairing::kHalf;  // of the outputs
  std::int64_t pairs = 0;
  std::int64_t rotary_offset = 0;
  std::span<const Operand> operands;
  const Positions& positions;
  WriteOrder order{};  // of the CPU engine; what is open is chosen by its plan
};

/// Parameters of the gradients of the rotation `forward`. The `in` of its operands are the inputs;
/// their `out` is unused. `tensors` match its operands; views of rank 4.
struct GradientParams {
  const RotateParams& forward;
  std::span<const GradientOperand> tensors;
  const Frequencies& frequencies;
  const ParameterGradients& parameters;  // positions: rank 3, [axes, batch or 1, tokens]
};

/// The CPU engine. Throws nothing but std::bad_alloc, and that only where rope.h says that a call
/// allocates.
void rotate_on_cpu(const RotateParams& params, const Threads& threads);
void gradient_on_cpu(const GradientParams& params, const Threads& threads);

/// The order in which rotate_on_cpu() writes the first operand.
WriteOrder write_order_on_cpu(const RotateParams& params, const Threads& threads) noexcept;

/// cos and sin without scale or growth at positions first, first + 1, ... (equal on all axes).
/// `rows` is [count, 2 * pairs]; a row holds the cosines, then the sines.
void fill_rows_on_cpu(const PhaseTable& phases, std::int64_t first, std::int64_t count,
                      float* rows);

/// The CUDA engine: src/cuda, or its stub. Each throws a CudaError that names `function` if a
/// kernel cannot be launched. Parameters are as for the CPU, with device memory, which the host
/// never reads. The cache is not used.
void rotate_on_cuda(std::string_view function, const RotateParams& params, const Stream& stream);
/// parameters.workspace has at least gradient_workspace_on_cuda(...) bytes.
void gradient_on_cuda(std::string_view function, const GradientParams& params,
                      const Stream& stream);
/// z of every token and pair: views [batch, tokens, pairs].
void cos_sin_on_cuda(std::string_view function, const AngleSource& source,
                     const Positions& positions, const TensorView& cos, const TensorView& sin,
                     const Stream& stream);
std::size_t gradient_workspace_on_cuda(std::int64_t pairs, std::int64_t axes, std::int64_t batch,
                                       std::int64_t tokens) noexcept;

/// Throws std::invalid_argument for parameters that the CUDA engine has no kernel for. Called
/// before anything is written.
void check_on_cuda(std::string_view function, const RotateParams& params);

/// Name of the SIMD instruction set that the CPU engine uses.
const char* target_in_use() noexcept;

}  // namespace rotary::internal
