// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of norm_rotate and norm_rotate_.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>

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

template <typename Signature>
auto call_operator(const c10::TypedOperatorHandle<Signature>& handle, at::TensorList tensors,
                   const NormWeights& given, std::string_view rope,
                   const TokenPositionsRef& token_positions, const HeadNorm& norm) {
  return handle.call(tensors, given.weights, given.biases, rope, token_positions.positions,
                     token_positions.cu_seqlens, token_positions.first, token_positions.token_dim,
                     norm.eps, name_of(norm.kind), name_of(norm.rounding), name_of(norm.scope),
                     name_of(norm.order), norm.rotation == NormRotation::kInverse);
}

std::vector<at::Tensor> call_norm_rotate(at::TensorList tensors, const NormWeights& given,
                                         std::string_view rope,
                                         const TokenPositionsRef& token_positions,
                                         const HeadNorm& norm) {
  static const auto handle = find_operator<NormSignature>("rotary::norm_rotate");
  return call_operator(handle, tensors, given, rope, token_positions, norm);
}

void call_norm_rotate_in_place(at::TensorList tensors, const NormWeights& given,
                               std::string_view rope, const TokenPositionsRef& token_positions,
                               const HeadNorm& norm) {
  static const auto handle = find_operator<NormInPlaceSignature>("rotary::norm_rotate_");
  call_operator(handle, tensors, given, rope, token_positions, norm);
}

/// Of a norm, or none, before the forward rotation.
struct NormBackward : ::torch::autograd::Node {
  std::string rope{};
  HeadNorm norm{};
  std::size_t count = 0;
  SavedTokenPositions saved_positions{};
  SavedTensors tensors{};
  SavedTensors weights{};  // none, or one of each
  std::vector<at::ScalarType> bias_types{};

  std::string name() const override { return "Rotary_norm_rotate_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_positions.release();
    tensors.release();
    weights.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t num_weights = weights.empty() ? 0 : count;
    variable_list results(count + num_weights + bias_types.size());
    DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    const TokenPositions at = saved_positions.get();
    if (norm.kind == NormKind::kNone) {
      defined.scatter(call(RotationOp::kAdjoint, defined.tensors, rope, at), results);
      return results;
    }
    const auto x = tensors.get(defined.indices);
    const auto w = weights.empty() ? std::vector<at::Tensor>() : weights.get(defined.indices);
    // A second derivative needs operators that have one.
    const auto all = c10::GradMode::is_enabled()
                         ? plain_norm_backward(defined.tensors, x, w, rope, at, norm)
                         : call_norm_rotate_backward(defined.tensors, x, w, rope, at, norm);
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
    return results;
  }
};

/// Derivatives that the node does not have: of positions, forward mode, and of the other order and
/// direction.
bool needs_chain(at::TensorList tensors, const NormWeights& given, const OptionalTensor& positions,
                 const HeadNorm& norm) {
  if (::torch::autograd::compute_requires_grad(positions) || has_tangent(positions) ||
      any_has_tangent(tensors) || any_has_tangent(given.weights) || any_has_tangent(given.biases)) {
    return true;
  }
  const bool has_node = norm.order == NormOrder::kBeforeRotation &&
                        norm.rotation == NormRotation::kForward &&
                        given.biases.size() <= given.weights.size();
  return !has_node &&
         ::torch::autograd::compute_requires_grad(tensors, given.weights, given.biases);
}

std::vector<at::Tensor> norm_rotate_autograd(
    at::TensorList tensors, at::TensorList weights, at::TensorList biases, std::string_view rope,
    const OptionalTensor& positions, const OptionalTensor& cu_seqlens, c10::SymInt first,
    std::int64_t token_dim, double eps, std::string_view norm, std::string_view rounding,
    std::string_view scope, std::string_view order, bool inverse) {
  const HeadNorm how = norm_of(eps, norm, rounding, scope, order, inverse);
  const NormWeights given{weights, biases};
  check_norm(tensors, given, rope, token_dim, how);
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), token_dim};
  if (needs_chain(tensors, given, positions, how)) {
    return plain_norm_rotate(tensors, given, rope, token_positions, how);
  }
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_norm_rotate(tensors, given, rope, token_positions, how);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, weights, biases)) return results;
  auto node = make_node<NormBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, weights, biases));
  node->rope = rope;
  node->norm = how;
  node->count = tensors.size();
  node->saved_positions.set(token_positions);
  node->tensors.add(tensors);
  node->weights.add(weights);
  for (const at::Tensor& b : biases) node->bias_types.push_back(b.scalar_type());
  ::torch::autograd::set_history(results, node);
  return results;
}

void norm_rotate_in_place_autograd(at::TensorList tensors, at::TensorList weights,
                                   at::TensorList biases, std::string_view rope,
                                   const OptionalTensor& positions,
                                   const OptionalTensor& cu_seqlens, c10::SymInt first,
                                   std::int64_t token_dim, double eps, std::string_view norm,
                                   std::string_view rounding, std::string_view scope,
                                   std::string_view order, bool inverse) {
  const HeadNorm how = norm_of(eps, norm, rounding, scope, order, inverse);
  const NormWeights given{weights, biases};
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), token_dim};
  if (needs_chain(tensors, given, positions, how) ||
      ::torch::autograd::compute_requires_grad(tensors, weights, biases)) {
    std::vector<at::Tensor> copies;  // the gradient needs the values from before
    for (const at::Tensor& x : tensors) copies.push_back(x.clone());
    const auto results = call_norm_rotate(copies, given, rope, token_positions, how);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
    return;
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_norm_rotate_in_place(tensors, given, rope, token_positions, how);
  }
  for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_autograd);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_autograd);
}
