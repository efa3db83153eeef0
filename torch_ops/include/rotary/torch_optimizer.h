// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What a training step does to parameters that lie end to end in one tensor, [size] of float32:
/// gradients into one tensor like it, their norms, what they say, and AdamW. On CUDA a launch or
/// two each, without a wait, at the speed of memory; elsewhere in PyTorch's terms. The same numbers
/// in every run.
///
///   rotary::torch::gather_pieces(gradients, {{.from = dw}, {.from = db, .offset = 4096}});
///   at::Tensor norms = rotary::torch::PartNorms(parts, gradients.device()).of(gradients);
///   rotary::torch::adamw_({values, first, second, steps}, gradients, divisor, skip, rule);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace rotary::torch {

/// A tensor that has its place in a flat one.
struct Piece {
  /// float32, bfloat16 or float16, any shape.
  at::Tensor from{};
  /// A multiple of 4.
  std::int64_t offset = 0;
};

/// flat[offset + i] = from[i] for every piece; `adds`: is added. Pieces must not overlap.
void gather_pieces(const at::Tensor& flat, const std::vector<Piece>& pieces, bool adds = false);

/// table[rows[i]] += values[i] for every i but those whose row is `skipped`: table [count, width]
/// of float32, rows [n] of int64, values [n, width] of float32, bfloat16 or float16. Each sum is
/// made in float32 and added once.
void add_rows(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
              std::int64_t skipped = -1);

/// Norms of parts of a flat tensor, each sum in a fixed order.
class PartNorms {
 public:
  struct Part {
    std::int64_t offset = 0;
    std::int64_t size = 0;
  };
  PartNorms(std::vector<Part> parts, at::Device device);

  /// [parts], float32.
  at::Tensor of(const at::Tensor& flat) const;

 private:
  std::vector<Part> parts_;
  at::Tensor chunks_;        // [chunks, 2], int64: first element and end
  at::Tensor first_chunks_;  // [parts + 1], int64
};

/// How a step went, where its gradients are.
struct StepVerdict {
  /// [3], float64: the sum of the losses, the number of labels, and one that is not looked at.
  at::Tensor sums{};
  /// [parts], float32: of the gradients of that sum; become those of the mean.
  at::Tensor norms{};
  /// [1], float32, of which both are written: the norm of all, and what gradients are to be divided
  /// by, which is the number of labels, or more where the norm is beyond the one to clip to.
  at::Tensor norm{};
  at::Tensor divisor{};
  /// [1], float32: 1 from the first step on whose loss or norm was not finite. That step, [1] of
  /// float64, and its norms, [parts].
  at::Tensor bad{};
  at::Tensor bad_step{};
  at::Tensor bad_norms{};
};
/// `clip_norm` 0: gradients are not clipped.
void judge_step(const StepVerdict& verdict, std::int64_t step, double clip_norm);

/// What AdamW changes.
struct AdamWState {
  /// [size], float32: parameters, averages of the gradient and of its square.
  at::Tensor values{};
  at::Tensor first{};
  at::Tensor second{};
  /// [1], float32: steps in the averages.
  at::Tensor steps{};
  /// [size], bfloat16 or float16: becomes the values, rounded, whatever happens to them.
  std::optional<at::Tensor> narrow{};
};
struct AdamWRule {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Of the elements before `num_decaying`, a multiple of 4.
  double weight_decay = 0.0;
  std::int64_t num_decaying = 0;
};

/// A step (Loshchilov & Hutter 2019, algorithm 2). Gradients count divided by `divisor`; where
/// `skip` is not 0 nothing but `narrow` changes. Both are [1], float32, where the parameters are.
void adamw_(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
            const at::Tensor& skip, const AdamWRule& rule);

}  // namespace rotary::torch
