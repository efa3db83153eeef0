// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the operators norm_rotate and norm_rotate_table, their in-place forms and backward passes
// share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "pytorch/token_positions_ref.h"
#include "rotary/norm.h"

namespace rotary::torch {

using OptionalTensor = std::optional<at::Tensor>;

/// Weights and biases of the norms: none, or one for each tensor.
struct NormWeights {
  at::TensorList weights{};
  at::TensorList biases{};

  OptionalTensor weight(std::size_t i) const {
    return weights.empty() ? std::nullopt : OptionalTensor(weights[i]);
  }
  OptionalTensor bias(std::size_t i) const {
    return biases.empty() ? std::nullopt : OptionalTensor(biases[i]);
  }
};

/// What a norm operator rotates by: a rope at positions, or the caller's cos and sin, a row for
/// each token. Refers to its arguments.
struct AnglesRef {
  AnglesRef(std::string_view text, const TokenPositionsRef& at)
      : rope(text), positions(&at), token_dim(at.token_dim) {}
  AnglesRef(std::string_view text, const at::Tensor& cosines, const at::Tensor& sines,
            std::int64_t dimension)
      : rope(text), cos(&cosines), sin(&sines), token_dim(dimension) {}
  bool has_table() const { return cos != nullptr; }

  std::string_view rope;  // of a table: the layout of the head
  const TokenPositionsRef* positions = nullptr;
  const at::Tensor* cos = nullptr;
  const at::Tensor* sin = nullptr;
  std::int64_t token_dim;
};

/// By PyTorch's dispatcher, differentiable.
std::vector<at::Tensor> rotate_by(const AnglesRef& angles, at::TensorList tensors,
                                  NormRotation rotation);
std::vector<at::Tensor> adjoint_by(const AnglesRef& angles, at::TensorList tensors);

/// The names of an operator's arguments. Throws for others.
HeadNorm norm_of(double eps, std::string_view norm, std::string_view rounding,
                 std::string_view scope, std::string_view order, bool inverse);
const char* name_of(NormKind kind);
const char* name_of(NormRounding rounding);
const char* name_of(NormScope scope);
const char* name_of(NormOrder order);

/// Throws unless sizes and devices fit together.
void check_norm(at::TensorList tensors, const NormWeights& given, std::string_view rope,
                std::int64_t token_dim, const HeadNorm& norm);

/// double for float64, else float.
at::ScalarType arithmetic_of(const at::Tensor& x);

/// What a norm is multiplied by, in the type of the arithmetic; none for 1.
OptionalTensor factor_of(const OptionalTensor& weight, const HeadNorm& norm, at::ScalarType type);

/// [..., tokens, heads * head_dim] for a norm of all heads, else x.
at::Tensor to_norm_rows(const at::Tensor& x, const HeadNorm& norm, std::int64_t token_dim);
/// The inverse, in the shape of x.
at::Tensor from_norm_rows(const at::Tensor& rows, const at::Tensor& x, const HeadNorm& norm,
                          std::int64_t token_dim);

/// The chain that the operator stands for, by PyTorch's norms, differentiable in everything.
std::vector<at::Tensor> plain_norm_rotate(at::TensorList tensors, const NormWeights& given,
                                          const AnglesRef& angles, const HeadNorm& norm);

/// The sum_lanes with which the engine has the bits of this PyTorch's rms_norm on this CPU, tried
/// once; 0 if there is none, and then PyTorch's norm is used.
int sum_lanes_of_pytorch();

/// The sum_lanes of a call of the engine on the device of `x`: that of PyTorch's norms there. With
/// rounding kFloat32, which PyTorch's norms do not have, that of the CPU on CUDA, too, so that both
/// devices have the same bits.
int sum_lanes_of_engine(const at::Tensor& x, const HeadNorm& norm);

/// Whether the library's engine takes the tensors, forward.
bool has_norm_engine(at::TensorList tensors, const NormWeights& given, std::string_view rope);

/// Whether the frequencies of a rope, at any positions, fit one launch of a fused kernel on CUDA.
bool fits_fused_launch(std::string_view rope);

/// Gradients of the tensors, then of weights if there are any, then of biases for LayerNorm: those
/// in float64, [head_dim] or [heads * head_dim]. Of a norm before the forward rotation.
std::vector<at::Tensor> call_norm_rotate_backward(at::TensorList grads, at::TensorList tensors,
                                                  at::TensorList weights, const AnglesRef& angles,
                                                  const HeadNorm& norm);
/// The same by PyTorch's operators, differentiable once more.
std::vector<at::Tensor> plain_norm_backward(at::TensorList grads, at::TensorList tensors,
                                            at::TensorList weights, const AnglesRef& angles,
                                            const HeadNorm& norm);

}  // namespace rotary::torch
