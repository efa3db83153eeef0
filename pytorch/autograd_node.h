// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Helpers for nodes of PyTorch's autograd graph. Operators are torch::autograd::Node rather than
// torch::autograd::Function, so that torch.func (grad, vjp, jacrev) differentiates them like
// PyTorch's own operators.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "pytorch/token_positions_ref.h"

namespace rotary::torch {

/// PyTorch owns nodes by std::shared_ptr, newer versions by c10::intrusive_ptr.
template <typename Type>
auto make_node() {
  using Owner = decltype(::torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Owner, std::shared_ptr<::torch::autograd::Node>>) {
    return std::shared_ptr<Type>(new Type, [](Type* node) { delete node; });
  } else {
    return c10::make_intrusive<Type>();
  }
}

/// Tensors saved for backward.
class SavedTensors {
 public:
  void add(const at::Tensor& x) { all_.emplace_back(x, /*is_output=*/false); }
  void add(const std::optional<at::Tensor>& x) {
    if (x.has_value() && x->defined()) add(*x);
  }
  void add(at::TensorList list) {
    for (const at::Tensor& x : list) add(x);
  }
  at::Tensor get(std::size_t i) const { return all_[i].unpack(); }
  std::vector<at::Tensor> get(const std::vector<std::size_t>& indices) const {
    std::vector<at::Tensor> selected;
    for (const std::size_t i : indices) selected.push_back(get(i));
    return selected;
  }
  /// The only one, if any.
  std::optional<at::Tensor> maybe() const {
    return all_.empty() ? std::nullopt : std::make_optional(get(0));
  }
  bool empty() const { return all_.empty(); }
  void release() {
    for (auto& x : all_) x.reset_data();
  }

 private:
  std::vector<::torch::autograd::SavedVariable> all_{};
};

/// TokenPositions saved for backward.
class SavedTokenPositions {
 public:
  void set(const TokenPositionsRef& token_positions) {
    positions_.add(token_positions.positions);
    cu_seqlens_.add(token_positions.cu_seqlens);
    first_ = token_positions.first;
    token_dim_ = token_positions.token_dim;
  }
  TokenPositions get() const {
    return {positions_.maybe(), cu_seqlens_.maybe(), first_, token_dim_};
  }
  void release() {
    positions_.release();
    cu_seqlens_.release();
  }

 private:
  SavedTensors positions_{};   // none or one
  SavedTensors cu_seqlens_{};  // none or one
  c10::SymInt first_ = 0;
  std::int64_t token_dim_ = -3;
};

/// The defined ones of `grads`, with their indices.
struct DefinedGrads {
  explicit DefinedGrads(at::TensorList grads) {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      indices.push_back(i);
      tensors.push_back(grads[i]);
    }
  }
  /// One of `values` for each defined gradient, to its index in `results`.
  void scatter(const std::vector<at::Tensor>& values, std::vector<at::Tensor>& results) const {
    for (std::size_t i = 0; i < values.size(); ++i) results[indices[i]] = values[i];
  }

  std::vector<std::size_t> indices{};
  std::vector<at::Tensor> tensors{};
};

/// Forward-mode differentiation of a linear map: the map applied to the tangents.
template <typename Map>
void set_tangents(at::TensorList from, at::TensorList to, const Map& map) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const at::Tensor& tangent = from[i]._fw_grad(/*level=*/0);
    if (tangent.defined()) to[i]._set_fw_grad(map(tangent), /*level=*/0, /*is_inplace_op=*/false);
  }
}

inline bool has_tangent(const std::optional<at::Tensor>& x) {
  return x.has_value() && x->defined() && x->_fw_grad(/*level=*/0).defined();
}

inline bool any_has_tangent(at::TensorList tensors) {
  for (const at::Tensor& x : tensors) {
    if (has_tangent(x)) return true;
  }
  return false;
}

}  // namespace rotary::torch
