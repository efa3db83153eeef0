// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/learned_change.h"

#include <ATen/Functions.h>

#include <cmath>
#include <utility>

namespace rotary::roformer {
namespace {

double axes_norm(const std::vector<double>& matrix, std::size_t pair, std::int64_t axes) {
  double sum = 0.0;
  for (std::size_t a = 0; a < static_cast<std::size_t>(axes); ++a) {
    const double value = matrix[pair * static_cast<std::size_t>(axes) + a];
    sum += value * value;
  }
  return std::sqrt(sum);
}

std::vector<double> doubles_of(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* data = flat.const_data_ptr<double>();
  return {data, data + flat.numel()};
}

}  // namespace

std::vector<LearnedLayer> learned_layers(const RoFormerImpl& model) {
  std::vector<LearnedLayer> layers;
  for (const auto& [learned, base] : model.learned_frequencies()) {
    LearnedLayer layer{.axes = base.size(1), .base = doubles_of(base)};
    if (learned.dim() == 3) {
      for (const at::Tensor& head : learned.unbind(0)) layer.learned.push_back(doubles_of(head));
    } else {
      layer.learned.push_back(doubles_of(learned));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

double relative_change(const LearnedLayer& layer, std::size_t head, std::size_t pair) {
  const double first = axes_norm(layer.base, pair, layer.axes);
  if (first == 0.0) return 0.0;
  double sum = 0.0;
  for (std::size_t a = 0; a < static_cast<std::size_t>(layer.axes); ++a) {
    const std::size_t entry = pair * static_cast<std::size_t>(layer.axes) + a;
    const double moved = layer.learned[head][entry] - layer.base[entry];
    sum += moved * moved;
  }
  return std::sqrt(sum) / first;
}

double mean_ratio(const LearnedLayer& layer, std::size_t pair) {
  const double first = axes_norm(layer.base, pair, layer.axes);
  if (first == 0.0) return 0.0;
  double sum = 0.0;
  for (const std::vector<double>& head : layer.learned) {
    sum += axes_norm(head, pair, layer.axes) / first - 1.0;
  }
  return sum / static_cast<double>(layer.learned.size());
}

LayerChange change_of(const LearnedLayer& layer) {
  LayerChange change;
  const std::size_t pairs = layer.pairs();
  for (std::size_t h = 0; h < layer.learned.size(); ++h) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const double one = relative_change(layer, h, i);
      change.mean += one / static_cast<double>(pairs * layer.learned.size());
      if (one > change.max) change = {change.mean, one, i, h};
    }
  }
  return change;
}

}  // namespace rotary::roformer
