// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// rotary for LibTorch: the operators as functions, and a module.
///
///   rotary::torch::RotaryEmbedding embedding({.rope = rotary::torch::to_text(rope)});
///   auto rotated = embedding->forward({q, k}, {.first = 4096});
///
/// Tensors are [.., tokens, heads, head_dim], or with token_dim -2 [.., heads, tokens, head_dim],
/// on CPU or CUDA, with any strides. Tensors, real positions, learned frequencies and scale have
/// gradients of any order. Everything runs on PyTorch's threads and its current stream. Throws
/// c10::ValueError for arguments that do not fit. In Python the operators are torch.ops.rotary.*.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/torch_positions.h"
#include "rotary/torch_rope.h"

namespace rotary::torch {

/// `rope` is a rope as text, see torch_rope.h.
std::vector<at::Tensor> rotate(at::TensorList tensors, std::string_view rope,
                               const TokenPositions& positions = {});
std::vector<at::Tensor> unrotate(at::TensorList tensors, std::string_view rope,
                                 const TokenPositions& positions = {});
std::vector<at::Tensor> adjoint(at::TensorList tensors, std::string_view rope,
                                const TokenPositions& positions = {});
std::vector<at::Tensor> shift(at::TensorList keys, std::string_view rope,
                              const TokenPositions& delta);

/// In place.
void rotate_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions = {});
void unrotate_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions = {});
void adjoint_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions = {});
void shift_(at::TensorList keys, std::string_view rope, const TokenPositions& delta);

/// What a module learns relative to the frequencies f of its rope. Parameters are initialised to 0,
/// but for kPerHead with several axes.
enum class Learn {
  kNothing,
  kLogGain,         // a [pairs]: f exp(a)
  kFrequencies,     // d [pairs, axes]: f + d
  kReceptiveField,  // alpha [1]: alpha / 10000^rho + (1 - alpha) f
  /// d [heads, pairs, axes]: f + d for each head (RoPE-Mixed, Heo et al. 2024). With several axes a
  /// head begins with the rope's frequencies in a random direction: an axial rope of two axes gives
  /// the paper's initialisation, m (cos a, sin a) for half of the pairs, and a + pi/2 for the rest.
  kPerHead,
};

struct RotaryEmbeddingOptions {
  std::string rope{};
  Learn learn = Learn::kNothing;
  /// A parameter log_scale [1]: cos and sin times exp(log_scale).
  bool learn_scale = false;
  double rho = 1.0;
  /// Of kPerHead. Tensors have as many, or a multiple of it: then heads in a row share frequencies.
  std::int64_t heads = 0;
};

/// Holds the rope as text, so that casts and copies of the module cannot change the rotation.
/// Parameters `learned` and `log_scale` exist only where the options ask for them.
class RotaryEmbeddingImpl : public ::torch::nn::Module {
 public:
  explicit RotaryEmbeddingImpl(RotaryEmbeddingOptions options);

  std::vector<at::Tensor> forward(at::TensorList tensors, const TokenPositions& positions = {});
  /// For keys of xPos: they decay where queries grow.
  std::vector<at::Tensor> forward_keys(at::TensorList keys, const TokenPositions& positions = {});
  std::vector<at::Tensor> unrotate(at::TensorList tensors, const TokenPositions& positions = {});

  /// [pairs, axes], or [heads, pairs, axes] with kPerHead; float64, as learned.
  at::Tensor frequencies() const;
  /// The rope's own, [pairs, axes], float64: what the parameters are relative to.
  at::Tensor base_frequencies() const;
  /// Back to the rope as given, or with kPerHead to new random directions.
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

 private:
  std::vector<at::Tensor> apply(std::string_view op, at::TensorList tensors, std::string_view rope,
                                const TokenPositions& positions) const;
  std::optional<at::Tensor> scale() const;

  RotaryEmbeddingOptions options_;
  std::string key_rope_;
  double scale_ = 1.0;
  at::Tensor learned_;
  at::Tensor log_scale_;
};

class RotaryEmbedding : public ::torch::nn::ModuleHolder<RotaryEmbeddingImpl> {
 public:
  using ::torch::nn::ModuleHolder<RotaryEmbeddingImpl>::ModuleHolder;
  explicit RotaryEmbedding(RotaryEmbeddingOptions options)
      : ModuleHolder(std::make_shared<RotaryEmbeddingImpl>(std::move(options))) {}
};

}  // namespace rotary::torch
