// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A vision Transformer: RoFormer's layers over the patches of an image.
///
///   Vit model(VitConfig{.encoding = PatchEncoding::kMixed, .theta = 10.0});
///   at::Tensor logits = model->forward(images);   // [batch, 3, height, width] to [batch, classes]
///
/// Images may have another size than those of training, a multiple of the patch. Patches then keep
/// their pixels, and there are more or fewer of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/model/layers.h"

namespace rotary::roformer::lab {

/// How a patch's row and column enter the model:
///   kNone        not at all
///   kLearned     a learned vector per patch of a training image, added to it; interpolated for
///                other sizes
///   kSinusoidal  sinusoids of the row in one half of the vector, of the column in the other
///   kAxial       RoPE, half of the pairs by the row, half by the column
///   kMixed       RoPE-Mixed (Heo et al. 2024): pairs by both, with frequencies that each head of
///                each layer learns, from random directions on
enum class PatchEncoding : std::uint8_t { kNone, kLearned, kSinusoidal, kAxial, kMixed };
/// "none", "learned", "sinusoidal", "axial" or "mixed". Throws std::invalid_argument for another.
PatchEncoding patch_encoding_of(std::string_view name);

struct VitConfig {
  PatchEncoding encoding = PatchEncoding::kNone;
  /// Base of the rotations.
  double theta = 100.0;
  /// Pixels of a patch, and of a training image.
  std::int64_t patch = 4;
  std::int64_t size = 32;
  std::int64_t classes = 10;
  /// hidden_size, num_hidden_layers, num_attention_heads and intermediate_size are used.
  Config layers{};
};

/// "patches", "LayerNorm", "positions" where they are learned, "layer" and "classifier", over the
/// mean of all patches.
class VitImpl : public ::torch::nn::Module {
 public:
  /// Throws std::invalid_argument for sizes that do not fit each other.
  explicit VitImpl(const VitConfig& config);
  /// Images of any floating-point type, in which the layers compute. Logits are float32.
  at::Tensor forward(const at::Tensor& images);
  /// The rope of the layers in text form; empty without one.
  const std::string& rope() const noexcept { return rope_; }

 private:
  ForwardContext context_of(std::int64_t rows, std::int64_t columns, const at::Tensor& x) const;
  at::Tensor add_positions(const at::Tensor& x, std::int64_t rows, std::int64_t columns) const;

  VitConfig config_;
  std::string rope_;
  PassRopes ropes_;
  Dense patches_;
  std::shared_ptr<NormImpl> norm_;
  at::Tensor positions_;  // [width, rows, columns] of training images
  std::shared_ptr<transformer::EncodingImpl> rotation_;
  std::vector<std::shared_ptr<LayerImpl>> layers_;
  Dense classifier_;
};
using Vit = std::shared_ptr<VitImpl>;

/// With weights drawn from the seed. From any thread.
Vit make_vit(const VitConfig& config, std::uint64_t seed, at::Device device);

}  // namespace rotary::roformer::lab
