// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Modules that every layer and head is made of.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>

#include "roformer/model/config.h"
#include "roformer/model/mixed_precision.h"
#include "roformer/model/parameter_store.h"
#include "rotary/transformer/layers.h"

namespace rotary::roformer {

at::Tensor activate(const at::Tensor& x, Activation activation);

/// torch::nn::Linear, indexed.
class DenseImpl : public ::torch::nn::LinearImpl, public IndexedParameters {
 public:
  using ::torch::nn::LinearImpl::LinearImpl;
  Parameter indexed_weight() const { return {weight, first_parameter}; }
  Parameter indexed_bias() const { return {bias, first_parameter + 1}; }
};
using Dense = std::shared_ptr<DenseImpl>;
Dense make_dense(std::int64_t from, std::int64_t to, const Config& config);

/// x weight^T + bias in the type of x, whatever that of the parameters. The bias may be undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
/// linear() with the store's copy of the weight, where there is a store.
at::Tensor linear(const at::Tensor& x, const DenseImpl& dense, const StorePtr& store);
/// In the type of the parameters, for heads that are small.
at::Tensor linear_in_parameter_type(const at::Tensor& x, DenseImpl& dense);

/// torch::nn::Embedding, indexed.
class EmbeddingTableImpl : public ::torch::nn::EmbeddingImpl, public IndexedParameters {
 public:
  using ::torch::nn::EmbeddingImpl::EmbeddingImpl;
  Parameter indexed_weight() const { return {weight, first_parameter}; }
};

/// Layer norm with weight and bias, or RMS norm without either; computed in float32 at least.
class NormImpl : public ::torch::nn::Module {
 public:
  NormImpl(std::int64_t size, const Config& config);
  at::Tensor forward(const at::Tensor& x) const;
  /// Of a layer norm, for transformer::add_norm().
  transformer::AddNormOptions options() const {
    return {.weight = weight_, .shift = bias_, .eps = eps_};
  }

 private:
  NormType type_;
  std::int64_t size_;
  double eps_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Norm over each head, with a gain (and for layer norm a bias) that all heads share; computed in
/// float32 at least.
class HeadNormImpl : public ::torch::nn::Module {
 public:
  HeadNormImpl(QkNorm type, std::int64_t head_dim, double eps);
  /// [.., head_dim]
  at::Tensor forward(const at::Tensor& x) const;

 private:
  double eps_;
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace rotary::roformer
