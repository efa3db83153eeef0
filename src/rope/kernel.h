// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The one door between Rope and the engines. An engine is handed pointers, sizes and tables that
// have been checked; it knows no model, no file and no error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rope/phase_table.h"
#include "rope/position_reader.h"
#include "rotary/cuda.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// Which complex number multiplies a pair: z, 1/z or conj(z).
enum class Direction : std::uint8_t { kForward, kInverse, kAdjoint };

class CosSinCache;

/// Where z comes from: `phases` at the position (divided by that of `divisor`), or the rows of the
/// caller's `table`.
struct Source {
  const PhaseTable* phases = nullptr;
  const PhaseTable* divisor = nullptr;
  const CosSinCache* cache = nullptr;  // of `phases`; for positions that it holds
  /// False: a distance is given instead of a position, and neither scale nor origin counts.
  bool is_position = true;
  const CosSinTable* table = nullptr;  // views [batch or 1, rows, width]
  TableWidth width = TableWidth::kPairs;
};

/// A rotation of several tensors. Operands have rank 4, [batch, tokens, heads, head_dim], and share
/// batch and tokens.
struct Job {
  Source source;
  Direction direction = Direction::kForward;
  Pairing read = Pairing::kHalf;
  Pairing write = Pairing::kHalf;
  std::int64_t pairs = 0;
  std::int64_t rotary_offset = 0;
  std::span<const Operand> operands;
  const Positions& positions;
};

/// The gradients of a rotation `forward`, whose operands' `in` are the inputs and whose `out` are
/// not used. `tensors` match its operands; views of rank 4.
struct GradientJob {
  const Job& forward;
  std::span<const GradientOperand> tensors;
  const Frequencies& frequencies;
  const ParameterGradients& parameters;  // positions: rank 3, [axes, batch or 1, tokens]
};

/// The CPU engine. Neither throws, save std::bad_alloc where rope.h says that a call allocates.
void rotate_on_cpu(const Job& job, const Threads& threads);
void gradient_on_cpu(const GradientJob& job, const Threads& threads);

/// cos and sin without scale or growth at the positions first, first + 1, ... (on all axes): `rows`
/// is [count x 2 * pairs], a row being first the cosines, then the sines.
void fill_rows_on_cpu(const PhaseTable& phases, std::int64_t first, std::int64_t count,
                      float* rows);

/// The CUDA engine: src/cuda, or its stub. `function` is named in the CudaError that each throws if
/// a kernel cannot be started. Jobs are as for the CPU, with memory of the device; nothing of it is
/// read on the host. A job's cache is not used.
void rotate_on_cuda(std::string_view function, const Job& job, const Stream& stream);
/// parameters.workspace has the bytes of gradient_workspace_on_cuda.
void gradient_on_cuda(std::string_view function, const GradientJob& job, const Stream& stream);
/// z of each token and pair: views [batch, tokens, pairs].
void cos_sin_on_cuda(std::string_view function, const Source& source, const Positions& positions,
                     const TensorView& cos, const TensorView& sin, const Stream& stream);
std::size_t gradient_workspace_on_cuda(std::int64_t pairs, std::int64_t axes, std::int64_t batch,
                                       std::int64_t tokens) noexcept;

/// Throws what the caller must not: a job that the CUDA engine has no kernel for. Called before
/// anything is written.
void check_on_cuda(std::string_view function, const Job& job);

/// Name of the vector instructions that the CPU engine uses.
const char* target_in_use() noexcept;

}  // namespace rotary::internal
