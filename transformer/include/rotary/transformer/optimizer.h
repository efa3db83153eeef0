// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A training step over a flat parameter buffer, [size] of float32, in which every parameter is a
/// segment: gradients gathered into a buffer of the same layout, their norms, clipping with a check
/// for non-finite values, and AdamW. On CUDA each is one or two launches at memory speed without
/// synchronisation; elsewhere it is PyTorch operators. Results are deterministic.
///
///   rotary::transformer::gather_segments(gradients, {{.from = dw}, {.from = db, .offset = 4096}});
///   at::Tensor norms = rotary::transformer::SegmentNorms(segments,
///   gradients.device()).of(gradients);
///   rotary::transformer::adamw_({values, first, second, steps}, gradients, divisor, skip,
///   options);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace rotary::transformer {

/// A range of a flat buffer, such as that of one parameter.
struct Segment {
  /// A multiple of 4.
  std::int64_t offset = 0;
  std::int64_t size = 0;
};

/// A tensor to be copied into a segment.
struct SegmentSource {
  /// float32, bfloat16 or float16, any shape.
  at::Tensor from{};
  /// Of the segment in the flat buffer; a multiple of 4.
  std::int64_t offset = 0;
};

/// flat[offset + i] = from[i] for every source, or += with `accumulate`. Segments must not overlap.
void gather_segments(const at::Tensor& flat, const std::vector<SegmentSource>& sources,
                     bool accumulate = false);

/// table[rows[i]] += values[i] for every i but those whose row is `skipped`, as the gradient of an
/// embedding: table [count, width] of float32, rows [n] of int64, values [n, width] of float32,
/// bfloat16 or float16. Each row's sum is accumulated in float32 and added once.
void add_rows(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
              std::int64_t skipped = -1);

/// L2 norms of segments of a flat buffer, each summed in a fixed order.
class SegmentNorms {
 public:
  SegmentNorms(std::vector<Segment> segments, at::Device device);

  /// [segments], float32.
  at::Tensor of(const at::Tensor& flat) const;

 private:
  std::vector<Segment> segments_;
  at::Tensor chunks_;        // [chunks, 2], int64: first element and end
  at::Tensor first_chunks_;  // [segments + 1], int64
};

/// Gradient norms of a step and what follows from them, on the device of the gradients.
struct GradNormState {
  /// [3], float64: sum of the losses, number of labels, and one element that is not read.
  at::Tensor sums{};
  /// [segments], float32. In: norms of the gradients of the summed loss. Out: of the mean loss.
  at::Tensor norms{};
  /// [1], float32, out: the norm over all segments.
  at::Tensor norm{};
  /// [1], float32, out: what adamw_() divides gradients by: the number of labels, times
  /// norm / clip_norm where the norm exceeds clip_norm.
  at::Tensor divisor{};
  /// [1], float32: set to 1 by the first step whose loss or norm is not finite, and then left
  /// alone.
  at::Tensor nonfinite{};
  /// [1], float64, and [segments], float32: that step and its norms.
  at::Tensor nonfinite_step{};
  at::Tensor nonfinite_norms{};
  /// [1], float64: the number of the step, read when the kernel runs, so that a CUDA graph sees
  /// that of each launch. Undefined: the argument `step` of clip_and_check().
  at::Tensor step{};
};
/// Divides norms by the number of labels, clips and checks for non-finite values. `clip_norm` 0: no
/// clipping.
void clip_and_check(const GradNormState& state, std::int64_t step, double clip_norm);

/// What AdamW updates.
struct AdamWState {
  /// [size], float32: parameters, and the moving averages of the gradient and of its square.
  at::Tensor values{};
  at::Tensor first{};
  at::Tensor second{};
  /// [1], float32: number of steps in the averages.
  at::Tensor steps{};
  /// [size], bfloat16 or float16: a copy of the values, rounded; written even where the step is
  /// skipped.
  std::optional<at::Tensor> narrow{};
};
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Applied to the elements before `num_decaying`, a multiple of 4.
  double weight_decay = 0.0;
  std::int64_t num_decaying = 0;
  /// [1], float64, on the parameters' device: a factor of learning_rate, read when the kernel runs,
  /// so that a CUDA graph sees that of each launch. Undefined: 1.
  at::Tensor rate{};
};

/// One AdamW step (Loshchilov & Hutter 2019, algorithm 2) with gradients / divisor. Where `skip` is
/// not 0, only `narrow` is written. divisor and skip are [1] of float32 on the parameters' device.
void adamw_(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
            const at::Tensor& skip, const AdamWOptions& options);

}  // namespace rotary::transformer
