// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Fused Transformer layers between the matrix products: each reads and writes its tensors once.
///
///   auto [y, residual] = rotary::transformer::add_norm(
///       rotary::transformer::feed_forward(x, w1, b1, w2), x,
///       {.bias = b2, .weight = gain, .shift = shift});
///
/// Tensors are contiguous, [.., width] of float32, bfloat16 or float16; parameters, their gradients
/// and all arithmetic are float32. On CUDA widths are multiples of 8, and that of add_norm is at
/// most kMaxNormWidth. There are first derivatives only. Results are deterministic. Wrong arguments
/// throw c10::ValueError. In Python: torch.ops.rotary.*.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rotary/torch_positions.h"

namespace rotary::transformer {

inline constexpr std::int64_t kMaxNormWidth = 1024;

/// What dropout of add_norm() applies to: x + bias, or the result of the norm.
enum class DropoutOf : std::uint8_t { kInput, kResult };

struct AddNormOptions {
  /// [width] each; `bias` is that of the product before, `shift` that of the norm.
  std::optional<at::Tensor> bias{};
  at::Tensor weight{};
  at::Tensor shift{};
  double eps = 1e-5;
  /// Probability of dropping an element, rounded to a multiple of 2^-16.
  double dropout = 0.0;
  /// Seed of the dropout mask, one int64 on the device of x; needed for dropout. The mask is a
  /// function of the seed alone, the same on CPU and CUDA, so that backward recomputes it.
  std::optional<at::Tensor> seed{};
  DropoutOf dropout_of = DropoutOf::kInput;
};

/// layer_norm(residual + dropout(x + bias)), or dropout(layer_norm(residual + x + bias)); without a
/// residual, 0 is added. The result is returned twice, as hidden states and as the next residual:
/// backward then adds the gradients of both in its kernel.
std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x,
                                           const std::optional<at::Tensor>& residual,
                                           const AddNormOptions& options);

/// gelu(x + bias), with the error function (error below 1e-7).
at::Tensor bias_gelu(const at::Tensor& x, const at::Tensor& bias);

/// gelu(x inner^T + bias) outer^T: x [.., width], inner [columns, width], outer [.., columns] of
/// one type, bias [columns] of float32. On Hopper, in bfloat16 with widths of multiples of 64 and
/// at least 2048 rows, GELU is fused into the matrix products, forward and backward, and there is
/// no second derivative; elsewhere bias_gelu() runs between them.
at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer);

/// Mean cross entropy, -log softmax(logits)[label], over rows: logits [rows, classes], labels
/// [rows] of int64; NaN where a label is no class. `bias` [classes] of float32 has already been
/// added to the
/// logits: it is named so that backward computes its gradient along with theirs.
at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                              const std::optional<at::Tensor>& bias = std::nullopt);

/// Cos/sin table of a rope, made once for all layers.
struct RotationTable {
  /// [rows, head_dim], float32: cos and sin of each interleaved pair.
  at::Tensor cos_sin{};
  /// [tokens], int64: the row of each token; where absent, token t of a sequence has row t.
  std::optional<at::Tensor> rows{};
};
/// The table for batches of `tokens` tokens in sequences of at most `max_length`, on the device of
/// `like`; none for a rope whose pairs are not interleaved, or where positions are given.
std::optional<RotationTable> rotation_table(const std::string& rope,
                                            const torch::TokenPositions& positions,
                                            std::int64_t tokens, std::int64_t max_length,
                                            const at::Tensor& like);

struct SplitHeadsOptions {
  std::int64_t heads = 0;
  /// Queries, keys and values, or some of them.
  std::int64_t num_projections = 3;
  /// How many of them are rotated, from the first on; rope and positions as for torch::rotate_().
  std::int64_t num_rotated = 2;
  std::string rope{};
  torch::TokenPositions positions{};
  /// [num_projections heads head_dim], float32: already added to the product; backward computes its
  /// gradient along with the product's.
  std::optional<at::Tensor> bias{};
  /// rotation_table() of `positions`, if there is one: backward is then one kernel on CUDA.
  std::optional<RotationTable> table{};
};

/// Splits a fused projection, [batch, tokens, num_projections heads head_dim], into queries, keys
/// and values, [batch, tokens, heads, head_dim] each: views of it, rotated in place, so that the
/// product must not be used elsewhere. Backward writes their gradients, rotated back, into one
/// tensor.
std::vector<at::Tensor> split_heads_(const at::Tensor& product, const SplitHeadsOptions& options);

}  // namespace rotary::transformer
