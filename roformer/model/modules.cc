// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/modules.h"

#include <ATen/Functions.h>

#include "roformer/model/cpu_linear.h"

namespace rotary::roformer {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
  }
  return x;
}

Dense make_dense(std::int64_t from, std::int64_t to, const Config& config) {
  return std::make_shared<DenseImpl>(::torch::nn::LinearOptions(from, to).bias(config.use_bias));
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType type = x.scalar_type();
  return cpu_linear(x, weight.to(type), bias.defined() ? bias.to(type) : bias);
}

at::Tensor linear(const at::Tensor& x, const DenseImpl& dense, const StorePtr& store) {
  return linear(x, cast(x.scalar_type(), dense.indexed_weight(), store), dense.bias);
}

at::Tensor linear_in_parameter_type(const at::Tensor& x, DenseImpl& dense) {
  return dense.forward(x.to(dense.weight.scalar_type()));
}

NormImpl::NormImpl(std::int64_t size, const Config& config)
    : ::torch::nn::Module("LayerNorm"),
      type_(config.norm_type),
      size_(size),
      eps_(config.layer_norm_eps) {
  if (type_ == NormType::kRms) return;
  weight_ = register_parameter("weight", at::ones({size}));
  bias_ = register_parameter("bias", at::zeros({size}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  const at::ScalarType type = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor wide = x.to(type);
  const at::Tensor y = type_ == NormType::kRms
                           ? at::rms_norm(wide, {size_}, std::nullopt, eps_)
                           : at::layer_norm(wide, {size_}, weight_.to(type), bias_.to(type), eps_);
  return y.to(x.scalar_type());
}

HeadNormImpl::HeadNormImpl(QkNorm type, std::int64_t head_dim, double eps)
    : ::torch::nn::Module("HeadNorm"), eps_(eps) {
  weight_ = register_parameter("weight", at::ones({head_dim}));
  if (type == QkNorm::kLayer) bias_ = register_parameter("bias", at::zeros({head_dim}));
}

at::Tensor HeadNormImpl::forward(const at::Tensor& x) const {
  const at::ScalarType type = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor wide = x.to(type);
  const at::Tensor weight = weight_.to(type);
  const at::Tensor y = bias_.defined()
                           ? at::layer_norm(wide, weight.sizes(), weight, bias_.to(type), eps_)
                           : at::rms_norm(wide, weight.sizes(), weight, eps_);
  return y.to(x.scalar_type());
}

}  // namespace rotary::roformer
