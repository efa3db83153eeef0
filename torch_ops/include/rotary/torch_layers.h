// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What stands between the products of matrices in a Transformer, each read once and written once.
///
///   auto [y, y_again] = rotary::torch::add_norm(rotary::torch::feed_forward(x, w1, b1, w2), x,
///                                               {.bias = b2, .weight = gain, .shift = shift});
///
/// Tensors are [.., width] of float32, bfloat16 or float16, without gaps; parameters and their
/// gradients are float32, and so is all that happens in between. On CUDA widths are multiples of 8,
/// and those of add_norm at most kMostNormWidth. Gradients of the first order; the same numbers in
/// every run. c10::ValueError says what does not fit. In Python: torch.ops.rotary.*.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rotary/torch_where.h"

namespace rotary::torch {

inline constexpr std::int64_t kMostNormWidth = 1024;

/// What add_norm() drops elements of.
enum class DropoutOf : std::uint8_t { kInput, kResult };

struct AddNormOptions {
  /// [width] each; `bias` may be absent.
  std::optional<at::Tensor> bias{};
  at::Tensor weight{};
  at::Tensor shift{};
  double eps = 1e-5;
  /// The probability with which an element is dropped, in steps of 2^-16.
  double dropout = 0.0;
  /// One int64, where the tensors are: which elements are dropped is a function of it and of
  /// nothing else, on CPU and CUDA the same one. So no mask is kept. Needed for dropout.
  std::optional<at::Tensor> seed{};
  DropoutOf dropout_of = DropoutOf::kInput;
};

/// layer_norm(before + dropout(x + bias)), or dropout(layer_norm(before + x + bias)), where no
/// `before` is 0; twice: the gradients of the two are added by the kernel that needs their sum.
/// Where both a layer and the next sum use the result, each takes one.
std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x,
                                           const std::optional<at::Tensor>& before,
                                           const AddNormOptions& options);

/// gelu(x + bias), with the error function (to 1e-7).
at::Tensor bias_gelu(const at::Tensor& x, const at::Tensor& bias);

/// gelu(x inner^T + bias) outer^T: x [.., width], inner [columns, width], outer [.., columns] of
/// its type, bias [columns] of float32. On Hopper, in bfloat16 with widths of multiples of 64 and
/// 2048 rows or more, GELU is part of the products' kernels, forward and backward, and there is no
/// second derivative; elsewhere bias_gelu() lies between them.
at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer);

/// The mean of -log softmax(logits)[label] over rows: logits [rows, classes], labels [rows] of
/// int64, each a class; NaN where one is not. `bias` [classes], float32, is what was added to the
/// logits: its gradient is found here, where theirs is made.
at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                              const std::optional<at::Tensor>& bias = std::nullopt);

/// How far each token is turned: made once for all layers.
struct TurnTable {
  /// [places, head_dim], float32: cos and sin of each pair of neighbours.
  at::Tensor angles{};
  /// [tokens], int64: the row of each token; where absent, token t of a sequence has row t.
  std::optional<at::Tensor> places{};
};
/// For rows of `tokens` tokens, in sequences no longer than `longest`, where `like` is. Nothing for
/// a rope that does not turn neighbours, or positions that are given.
std::optional<TurnTable> turn_table(const std::string& rope, const Where& where,
                                    std::int64_t tokens, std::int64_t longest,
                                    const at::Tensor& like);

struct SplitHeadsOptions {
  std::int64_t heads = 0;
  /// Queries, keys and values; or some of them.
  std::int64_t parts = 3;
  /// How many of them turn, from the first on, and how: as torch_rope.h says.
  std::int64_t turned = 2;
  std::string rope{};
  Where where{};
  /// [parts heads head_dim], float32: what was added to the product. Its gradient is found here,
  /// where the one of the product is in one piece.
  std::optional<at::Tensor> bias{};
  /// What turn_table() gives for `where`, or nothing: with it the way back is one kernel on CUDA.
  std::optional<TurnTable> table{};
};

/// The product of x with the weights of queries, keys and values at once, [batch, tokens, parts
/// heads head_dim], to each of them, [batch, tokens, heads, head_dim]: views of it, turned in
/// place. So the product must be nobody else's. Their gradients are turned back into one tensor.
std::vector<at::Tensor> split_heads_(const at::Tensor& product, const SplitHeadsOptions& options);

}  // namespace rotary::torch
