// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of norm_rotate and norm_rotate_table, and in place.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>
#include <type_traits>

#include "pytorch/autograd_node.h"
#include "pytorch/norm_call.h"
#include "pytorch/operator.h"
#include "pytorch/rotation_op.h"
#include "rotary/norm.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using NormSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList, at::TensorList,
                                              std::string_view, const OptionalTensor&,
                                              const OptionalTensor&, c10::SymInt, std::int64_t,
                                              double, std::string_view, std::string_view,
                                              std::string_view, std::string_view, bool);
using NormInPlaceSignature = void(at::TensorList, at::TensorList, at::TensorList, std::string_view,
                                  const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                  std::int64_t, double, std::string_view, std::string_view,
                                  std::string_view, std::string_view, bool);

using NormTableSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList, at::TensorList,
                                                   const at::Tensor&, const at::Tensor&,
                                                   std::string_view, std::int64_t, double,
                                                   std::string_view, std::string_view,
                                                   std::string_view, std::string_view, bool);
using TableInPlaceSignature = void(at::TensorList, at::TensorList, at::TensorList,
                                   const at::Tensor&, const at::Tensor&, std::string_view,
                                   std::int64_t, double, std::string_view, std::string_view,
                                   std::string_view, std::string_view, bool);

template <typename Signature>
auto call_operator(const c10::TypedOperatorHandle<Signature>& handle, at::TensorList tensors,
                   const NormWeights& given, const AnglesRef& angles, const HeadNorm& norm) {
  const bool inverse = norm.rotation == NormRotation::kInverse;
  if constexpr (std::is_same_v<Signature, NormTableSignature> ||
                std::is_same_v<Signature, TableInPlaceSignature>) {
    return handle.call(tensors, given.weights, given.biases, *angles.cos, *angles.sin, angles.rope,
                       angles.token_dim, norm.eps, name_of(norm.kind), name_of(norm.rounding),
                       name_of(norm.scope), name_of(norm.order), inverse);
  } else {
    const TokenPositionsRef& at = *angles.positions;
    return handle.call(tensors, given.weights, given.biases, angles.rope, at.positions,
                       at.cu_seqlens, at.first, at.token_dim, norm.eps, name_of(norm.kind),
                       name_of(norm.rounding), name_of(norm.scope), name_of(norm.order), inverse);
  }
}

std::vector<at::Tensor> call_norm_rotate(at::TensorList tensors, const NormWeights& given,
                                         const AnglesRef& angles, const HeadNorm& norm) {
  static const auto by_rope = find_operator<NormSignature>("rotary::norm_rotate");
  static const auto by_table = find_operator<NormTableSignature>("rotary::norm_rotate_table");
  return angles.has_table() ? call_operator(by_table, tensors, given, angles, norm)
                            : call_operator(by_rope, tensors, given, angles, norm);
}

void call_norm_rotate_in_place(at::TensorList tensors, const NormWeights& given,
                               const AnglesRef& angles, const HeadNorm& norm) {
  static const auto by_rope = find_operator<NormInPlaceSignature>("rotary::norm_rotate_");
  static const auto by_table = find_operator<TableInPlaceSignature>("rotary::norm_rotate_table_");
  angles.has_table() ? call_operator(by_table, tensors, given, angles, norm)
                     : call_operator(by_rope, tensors, given, angles, norm);
}

/// Of a norm, or none, before the forward rotation.
struct NormBackward : ::torch::autograd::Node {
  std::string rope{};
  HeadNorm norm{};
  std::size_t count = 0;
  std::int64_t token_dim = -3;
  SavedTokenPositions saved_positions{};  // unless there is a table
  SavedTensors table{};                   // cos and sin, or none
  SavedTensors tensors{};
  SavedTensors weights{};  // none, or one of each
  std::vector<at::ScalarType> bias_types{};

  std::string name() const override { return "Rotary_norm_rotate_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_positions.release();
    table.release();
    tensors.release();
    weights.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t num_weights = weights.empty() ? 0 : count;
    variable_list results(count + num_weights + bias_types.size());
    DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    if (table.empty()) {
      const TokenPositions owned = saved_positions.get();
      const TokenPositionsRef at(owned);
      find_gradients(defined, {rope, at}, results);
    } else {
      const at::Tensor cos = table.get(0);
      const at::Tensor sin = table.get(1);
      find_gradients(defined, {rope, cos, sin, token_dim}, results);
    }
    return results;
  }

 private:
  void find_gradients(const DefinedGrads& defined, const AnglesRef& angles,
                      variable_list& results) const {
    if (norm.kind == NormKind::kNone) {
      return defined.scatter(adjoint_by(angles, defined.tensors), results);
    }
    const std::size_t num_weights = weights.empty() ? 0 : count;
    const auto x = tensors.get(defined.indices);
    const auto w = weights.empty() ? std::vector<at::Tensor>() : weights.get(defined.indices);
    // A second derivative needs operators that have one.
    const auto all = c10::GradMode::is_enabled()
                         ? plain_norm_backward(defined.tensors, x, w, angles, norm)
                         : call_norm_rotate_backward(defined.tensors, x, w, angles, norm);
    const std::size_t size = defined.indices.size();
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t i = defined.indices[k];
      results[i] = all[k];
      if (!w.empty()) results[count + i] = all[size + k].to(w[k].scalar_type());
      if (!bias_types.empty()) {
        // Without weights, which Python adds, biases alone would have no gradient here.
        results[count + num_weights + i] = all[2 * size + k].to(bias_types[i]);
      }
    }
  }
};

/// Whether cos and sin, or positions, have derivatives.
bool has_derivative(const AnglesRef& angles) {
  if (angles.has_table()) {
    return ::torch::autograd::compute_requires_grad(*angles.cos, *angles.sin) ||
           has_tangent(*angles.cos) || has_tangent(*angles.sin);
  }
  const OptionalTensor& positions = angles.positions->positions;
  return ::torch::autograd::compute_requires_grad(positions) || has_tangent(positions);
}

/// Derivatives that the node does not have: of angles, forward mode, and of the other order and
/// direction.
bool needs_chain(at::TensorList tensors, const NormWeights& given, const AnglesRef& angles,
                 const HeadNorm& norm) {
  if (has_derivative(angles) || any_has_tangent(tensors) || any_has_tangent(given.weights) ||
      any_has_tangent(given.biases)) {
    return true;
  }
  const bool has_node = norm.order == NormOrder::kBeforeRotation &&
                        norm.rotation == NormRotation::kForward &&
                        given.biases.size() <= given.weights.size();
  return !has_node &&
         ::torch::autograd::compute_requires_grad(tensors, given.weights, given.biases);
}

std::vector<at::Tensor> apply_autograd(at::TensorList tensors, const NormWeights& given,
                                       const AnglesRef& angles, const HeadNorm& norm) {
  check_norm(tensors, given, angles.rope, angles.token_dim, norm);
  if (needs_chain(tensors, given, angles, norm)) {
    return plain_norm_rotate(tensors, given, angles, norm);
  }
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_norm_rotate(tensors, given, angles, norm);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, given.weights, given.biases)) {
    return results;
  }
  auto node = make_node<NormBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, given.weights, given.biases));
  node->rope = angles.rope;
  node->norm = norm;
  node->count = tensors.size();
  node->token_dim = angles.token_dim;
  if (angles.has_table()) {
    node->table.add(*angles.cos);
    node->table.add(*angles.sin);
  } else {
    node->saved_positions.set(*angles.positions);
  }
  node->tensors.add(tensors);
  node->weights.add(given.weights);
  for (const at::Tensor& b : given.biases) node->bias_types.push_back(b.scalar_type());
  ::torch::autograd::set_history(results, node);
  return results;
}

void apply_in_place_autograd(at::TensorList tensors, const NormWeights& given,
                             const AnglesRef& angles, const HeadNorm& norm) {
  if (needs_chain(tensors, given, angles, norm) ||
      ::torch::autograd::compute_requires_grad(tensors, given.weights, given.biases)) {
    std::vector<at::Tensor> copies;  // the gradient needs the values from before
    for (const at::Tensor& x : tensors) copies.push_back(x.clone());
    const auto results = call_norm_rotate(copies, given, angles, norm);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
    return;
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_norm_rotate_in_place(tensors, given, angles, norm);
  }
  for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
}

// ---- With the operators' signatures -------------------------------------------------------------

std::vector<at::Tensor> norm_rotate_autograd(
    at::TensorList tensors, at::TensorList weights, at::TensorList biases, std::string_view rope,
    const OptionalTensor& positions, const OptionalTensor& cu_seqlens, c10::SymInt first,
    std::int64_t token_dim, double eps, std::string_view norm, std::string_view rounding,
    std::string_view scope, std::string_view order, bool inverse) {
  const TokenPositionsRef at{positions, cu_seqlens, std::move(first), token_dim};
  return apply_autograd(tensors, {weights, biases}, {rope, at},
                        norm_of(eps, norm, rounding, scope, order, inverse));
}

void norm_rotate_in_place_autograd(at::TensorList tensors, at::TensorList weights,
                                   at::TensorList biases, std::string_view rope,
                                   const OptionalTensor& positions,
                                   const OptionalTensor& cu_seqlens, c10::SymInt first,
                                   std::int64_t token_dim, double eps, std::string_view norm,
                                   std::string_view rounding, std::string_view scope,
                                   std::string_view order, bool inverse) {
  const TokenPositionsRef at{positions, cu_seqlens, std::move(first), token_dim};
  apply_in_place_autograd(tensors, {weights, biases}, {rope, at},
                          norm_of(eps, norm, rounding, scope, order, inverse));
}

std::vector<at::Tensor> norm_rotate_table_autograd(at::TensorList tensors, at::TensorList weights,
                                                   at::TensorList biases, const at::Tensor& cos,
                                                   const at::Tensor& sin, std::string_view rope,
                                                   std::int64_t token_dim, double eps,
                                                   std::string_view norm, std::string_view rounding,
                                                   std::string_view scope, std::string_view order,
                                                   bool inverse) {
  return apply_autograd(tensors, {weights, biases}, {rope, cos, sin, token_dim},
                        norm_of(eps, norm, rounding, scope, order, inverse));
}

void norm_rotate_table_in_place_autograd(at::TensorList tensors, at::TensorList weights,
                                         at::TensorList biases, const at::Tensor& cos,
                                         const at::Tensor& sin, std::string_view rope,
                                         std::int64_t token_dim, double eps, std::string_view norm,
                                         std::string_view rounding, std::string_view scope,
                                         std::string_view order, bool inverse) {
  apply_in_place_autograd(tensors, {weights, biases}, {rope, cos, sin, token_dim},
                          norm_of(eps, norm, rounding, scope, order, inverse));
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_autograd);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_autograd);
  m.impl("norm_rotate_table", rotary::torch::norm_rotate_table_autograd);
  m.impl("norm_rotate_table_", rotary::torch::norm_rotate_table_in_place_autograd);
}
