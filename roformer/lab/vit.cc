// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/vit.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <mutex>

#include "rotary/frequencies.h"
#include "rotary/torch_rope.h"
#include "rotary/transformer/encodings.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

constexpr double kVitInitStd = 0.02;

Config layer_config(const VitConfig& config) {
  Config c = config.layers;
  c.hidden_dropout_prob = 0.0;
  c.attention_probs_dropout_prob = 0.0;
  c.layer_norm_eps = 1e-6;
  if (config.encoding == PatchEncoding::kMixed) c.rope_learn = RopeLearn::kPerHead;
  return c;
}

bool rotates(PatchEncoding encoding) {
  return encoding == PatchEncoding::kAxial || encoding == PatchEncoding::kMixed;
}

/// Both rotations begin from the same ladder per axis.
std::string vit_rope(const VitConfig& config) {
  if (!rotates(config.encoding)) return {};
  const std::int64_t head_dim = config.layers.head_dim();
  return torch::to_text(torch::RopeText{
      .frequencies = make_frequencies(
          {.rotary_dim = head_dim, .theta = config.theta, .axes = Axial{.axes = 2}}),
      .layout = {.head_dim = head_dim, .pairing = Pairing::kInterleaved}});
}

void check_vit(const VitConfig& c) {
  if (c.patch <= 0 || c.size <= 0 || c.size % c.patch != 0) {
    internal::reject("[Vit] patch must divide size, got ", c.patch, " and ", c.size);
  }
  const std::int64_t heads = c.layers.num_attention_heads;
  if (heads <= 0 || c.layers.hidden_size % (4 * heads) != 0) {
    internal::reject("[Vit] hidden_size must be a multiple of 4 num_attention_heads, got ",
                     c.layers.hidden_size, " and ", heads);
  }
}

/// [2, 1, tokens]: rows and columns of patches in reading order.
at::Tensor grid_positions(std::int64_t rows, std::int64_t columns, const at::Tensor& like) {
  const at::TensorOptions options = like.options().dtype(at::kLong);
  const at::Tensor row = at::arange(rows, options).unsqueeze(1).expand({rows, columns});
  const at::Tensor column = at::arange(columns, options).expand({rows, columns});
  return at::stack({row.flatten(), column.flatten()}).unsqueeze(1);
}

}  // namespace

PatchEncoding patch_encoding_of(std::string_view name) {
  if (name == "none") return PatchEncoding::kNone;
  if (name == "learned") return PatchEncoding::kLearned;
  if (name == "sinusoidal") return PatchEncoding::kSinusoidal;
  if (name == "axial") return PatchEncoding::kAxial;
  if (name == "mixed") return PatchEncoding::kMixed;
  internal::reject("[Vit] encoding must be none, learned, sinusoidal, axial or mixed, got ", name);
}

VitImpl::VitImpl(const VitConfig& config)
    : ::torch::nn::Module("Vit"), config_(config), rope_((check_vit(config), vit_rope(config))) {
  const Config layers = layer_config(config);
  const std::int64_t width = layers.hidden_size;
  patches_ = register_module("patches", make_dense(3 * config.patch * config.patch, width, layers));
  norm_ = register_module("LayerNorm", std::make_shared<NormImpl>(width, layers));
  if (config.encoding == PatchEncoding::kLearned) {
    const std::int64_t side = config.size / config.patch;
    positions_ = register_parameter("positions", at::randn({width, side, side}) * kVitInitStd);
  }
  if (!rope_.empty()) {
    ropes_ = std::make_shared<const std::vector<PassRope>>(
        std::vector<PassRope>{{.text = rope_, .follows_length = false}});
  }
  rotation_ =
      rope_.empty() ? transformer::make_encoding({.name = "none"}) : transformer::rope(rope_);
  const auto group = register_module("layer", std::make_shared<::torch::nn::Module>());
  for (std::int64_t i = 0; i < layers.num_hidden_layers; ++i) {
    const LayerRope own{.layer = i,
                        .index = rope_.empty() ? std::nullopt : std::optional<std::size_t>(0),
                        .text = rope_};
    layers_.push_back(
        group->register_module(std::to_string(i), std::make_shared<LayerImpl>(layers, own)));
  }
  classifier_ = register_module("classifier", make_dense(width, config.classes, layers));
}

ForwardContext VitImpl::context_of(std::int64_t rows, std::int64_t columns,
                                   const at::Tensor& x) const {
  ForwardContext context;
  context.ops = &plain_ops();
  context.ropes = ropes_;
  if (!rope_.empty()) context.positions.positions = grid_positions(rows, columns, x);
  context.attend.scale = 1.0 / std::sqrt(static_cast<double>(config_.layers.head_dim()));
  return context;
}

/// x [batch, tokens, width].
at::Tensor VitImpl::add_positions(const at::Tensor& x, std::int64_t rows,
                                  std::int64_t columns) const {
  if (config_.encoding == PatchEncoding::kLearned) {
    at::Tensor table = positions_;
    if (rows != table.size(1) || columns != table.size(2)) {
      table = at::upsample_bicubic2d(table.unsqueeze(0), at::IntArrayRef({rows, columns}),
                                     /*align_corners=*/false)
                  .squeeze(0);
    }
    return x + table.flatten(1).t().to(x.scalar_type());
  }
  if (config_.encoding == PatchEncoding::kSinusoidal) {
    const at::Tensor at = grid_positions(rows, columns, x);
    const auto halves = x.chunk(2, -1);
    return at::cat({transformer::add_sinusoids(halves[0], {.positions = at[0][0]}),
                    transformer::add_sinusoids(halves[1], {.positions = at[1][0]})},
                   -1);
  }
  return x;
}

at::Tensor VitImpl::forward(const at::Tensor& images) {
  const std::int64_t p = config_.patch;
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(1) == 3 && images.size(2) % p == 0 &&
                        images.size(3) % p == 0,
                    "[Vit] images must be [batch, 3, height, width] with sizes that ", p,
                    " divides, got ", images.sizes());
  const std::int64_t rows = images.size(2) / p;
  const std::int64_t columns = images.size(3) / p;
  const at::Tensor pixels = images.unflatten(3, {columns, p})
                                .unflatten(2, {rows, p})
                                .permute({0, 2, 4, 1, 3, 5})
                                .flatten(3)
                                .flatten(1, 2);  // [batch, tokens, 3 p p]
  const at::Tensor x = linear(pixels, patches_->weight, patches_->bias);
  const ForwardContext context = context_of(rows, columns, x);
  HiddenStates states = HiddenStates::same(norm_->forward(add_positions(x, rows, columns)));
  for (const auto& layer : layers_) states = layer->forward(states, *rotation_, context, nullptr);
  return linear_in_parameter_type(states.hidden.to(at::kFloat).mean(1), *classifier_);
}

Vit make_vit(const VitConfig& config, std::uint64_t seed, at::Device device) {
  // Weights are drawn from PyTorch's default generator, which all threads share.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  at::manual_seed(seed);
  auto model = std::make_shared<VitImpl>(config);
  const at::NoGradGuard no_grad;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (auto* linear = module->as<::torch::nn::LinearImpl>()) {
      // Keeps the variance: narrow models learn faster than from BERT's 0.02.
      linear->weight.normal_(0.0, 1.0 / std::sqrt(static_cast<double>(linear->weight.size(1))));
      if (linear->bias.defined()) linear->bias.zero_();
    }
  }
  model->to(device);
  return model;
}

}  // namespace rotary::roformer::lab
