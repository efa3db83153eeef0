// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the operators share as nodes of PyTorch's autograd graph. They are nodes rather than a
// torch::autograd::Function so that torch.func (grad, vjp, jacrev) goes through them as it does
// through PyTorch's own operators.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace rotary::torch {

/// How this PyTorch owns nodes: std::shared_ptr, or c10::intrusive_ptr in newer ones.
template <typename Type>
auto make_node() {
  using Owner = decltype(::torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Owner, std::shared_ptr<::torch::autograd::Node>>) {
    return std::shared_ptr<Type>(new Type, [](Type* node) { delete node; });
  } else {
    return c10::make_intrusive<Type>();
  }
}

/// Tensors that a node keeps until it has run.
class Saved {
 public:
  void add(const at::Tensor& x) { all_.emplace_back(x, /*is_output=*/false); }
  void add(const std::optional<at::Tensor>& x) {
    if (x.has_value() && x->defined()) add(*x);
  }
  void add(at::TensorList list) {
    for (const at::Tensor& x : list) add(x);
  }
  at::Tensor get(std::size_t i) const { return all_[i].unpack(); }
  std::vector<at::Tensor> get(const std::vector<std::size_t>& places) const {
    std::vector<at::Tensor> some;
    for (const std::size_t i : places) some.push_back(get(i));
    return some;
  }
  /// The only one, if there is one.
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

/// Those of `grads` that are defined, with their places.
struct Defined {
  explicit Defined(at::TensorList grads) {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      places.push_back(i);
      tensors.push_back(grads[i]);
    }
  }
  std::vector<std::size_t> places{};
  std::vector<at::Tensor> tensors{};
};

/// Tangents of forward-mode differentiation: linear maps apply themselves to them.
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
