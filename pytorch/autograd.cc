// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of the operators. The backward pass of an operator is its transpose, which is an
// operator too, so derivatives of any order follow; those of real-valued positions are in pairs.h.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>

#include "pytorch/autograd_node.h"
#include "pytorch/pairs.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// Backward of results = op(tensors, ..).
struct OperatorBackward : ::torch::autograd::Node {
  RotationOp op = RotationOp::kRotate;
  std::shared_ptr<const SharedRope> rope{};
  std::size_t count = 0;
  SavedTensors tensors{};  // only where positions, or the table, need a gradient
};

/// A node of results = op(tensors, more..), whose other members the caller sets.
template <typename Backward, typename... More>
auto make_backward(RotationOp op, std::string_view rope, at::TensorList tensors, bool save_tensors,
                   const More&... more) {
  auto node = make_node<Backward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, more...));
  node->op = op;
  node->rope = find_rope(rope);
  node->count = tensors.size();
  if (save_tensors) node->tensors.add(tensors);
  return node;
}

/// map(tensors), a linear map, with its derivatives: adds the node that make() returns, if
/// needs_grad is set or a tensor requires a gradient, and the tangents of forward mode.
template <typename Map, typename MakeBackward>
std::vector<at::Tensor> apply_linear(at::TensorList tensors, bool needs_grad, const Map& map,
                                     const MakeBackward& make) {
  needs_grad = needs_grad || ::torch::autograd::compute_requires_grad(tensors);
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = map(tensors);
  }
  if (needs_grad) ::torch::autograd::set_history(results, make());
  set_tangents(tensors, results, [&](const at::Tensor& tangent) { return map(tangent)[0]; });
  return results;
}

// ---- By positions -------------------------------------------------------------------------------

struct RotationBackward : OperatorBackward {
  SavedTokenPositions saved_positions{};

  std::string name() const override { return std::string("Rotary_") + name_of(op) + "_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_positions.release();
    tensors.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 1);
    const DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    const TokenPositions token_positions = saved_positions.get();
    const auto input_grads = call(transpose(op), defined.tensors, rope->text(), token_positions);
    defined.scatter(input_grads, results);
    if (!tensors.empty() && task_should_compute_output(count)) {
      results[count] = position_gradient(op, tensors.get(defined.indices), input_grads, *rope,
                                         *token_positions.positions, token_positions.token_dim);
    }
    return results;
  }
};

void check_tangents(RotationOp op, const OptionalTensor& positions) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(positions), "[", name_of(op),
                              "] forward-mode derivatives go through tensors, not positions");
}

void check_packed(RotationOp op, const OptionalTensor& cu_seqlens, bool positions_need_grad) {
  TORCH_CHECK_VALUE(!(positions_need_grad && cu_seqlens.has_value()), "[", name_of(op),
                    "] the first positions of packed sequences are whole numbers");
}

auto make_rotation_backward(RotationOp op, std::string_view rope, at::TensorList tensors,
                            const TokenPositionsRef& token_positions, bool positions_need_grad) {
  auto node = make_backward<RotationBackward>(op, rope, tensors, positions_need_grad,
                                              token_positions.positions);
  node->saved_positions.set(token_positions);
  return node;
}

std::vector<at::Tensor> rotate_autograd(RotationOp op, at::TensorList tensors,
                                        std::string_view rope,
                                        const TokenPositionsRef& token_positions) {
  check_tangents(op, token_positions.positions);
  const bool positions_need_grad =
      ::torch::autograd::compute_requires_grad(token_positions.positions);
  return apply_linear(
      tensors, positions_need_grad,
      [&](at::TensorList x) { return call(op, x, rope, token_positions); },
      [&] {
        check_packed(op, token_positions.cu_seqlens, positions_need_grad);
        return make_rotation_backward(op, rope, tensors, token_positions, positions_need_grad);
      });
}

/// One node per tensor: a view that is changed in place must be a node's only result.
void rotate_one_in_place(RotationOp op, const at::Tensor& x, std::string_view rope,
                         const TokenPositionsRef& token_positions) {
  ::torch::autograd::check_inplace(x, /*requires_grad=*/true);
  auto node = make_rotation_backward(op, rope, x, token_positions, /*positions_need_grad=*/false);
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_in_place(op, x, rope, token_positions);
  }
  ::torch::autograd::increment_version(x);
  ::torch::autograd::rebase_history(x, std::move(node));
}

void rotate_in_place_autograd(RotationOp op, at::TensorList tensors, std::string_view rope,
                              const TokenPositionsRef& token_positions) {
  const OptionalTensor& positions = token_positions.positions;
  const bool needs_copies = ::torch::autograd::compute_requires_grad(positions) ||
                            any_has_tangent(tensors) || has_tangent(positions);
  if (needs_copies) {
    std::vector<at::Tensor> copies;  // the gradient of positions needs the values from before
    for (const at::Tensor& x : tensors) copies.push_back(x.clone());
    const auto results = call(op, copies, rope, token_positions);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
    return;
  }
  if (!::torch::autograd::compute_requires_grad(tensors)) {
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      call_in_place(op, tensors, rope, token_positions);
    }
    for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
    return;
  }
  for (const at::Tensor& x : tensors) {
    if (x.requires_grad()) {
      rotate_one_in_place(op, x, rope, token_positions);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      call_in_place(op, x, rope, token_positions);
      ::torch::autograd::increment_version(x);
    }
  }
}

template <RotationOp kOp>
std::vector<at::Tensor> rotate_autograd(at::TensorList tensors, std::string_view rope,
                                        const OptionalTensor& positions,
                                        const OptionalTensor& cu_seqlens, c10::SymInt first,
                                        std::int64_t token_dim) {
  return rotate_autograd(kOp, tensors, rope, {positions, cu_seqlens, std::move(first), token_dim});
}

template <RotationOp kOp>
void rotate_in_place_autograd(at::TensorList tensors, std::string_view rope,
                              const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                              c10::SymInt first, std::int64_t token_dim) {
  rotate_in_place_autograd(kOp, tensors, rope,
                           {positions, cu_seqlens, std::move(first), token_dim});
}

// ---- By cos/sin tables --------------------------------------------------------------------------

struct TableBackward : OperatorBackward {
  std::int64_t token_dim = -3;
  SavedTensors table{};  // cos and sin

  std::string name() const override { return "Rotary_table_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    table.release();
    tensors.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 2);
    const DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    const at::Tensor cos = table.get(0);
    const at::Tensor sin = table.get(1);
    if (task_should_compute_output({{0, count}})) {
      const auto input_grads =
          call_table(transpose(op), defined.tensors, cos, sin, rope->text(), token_dim);
      defined.scatter(input_grads, results);
    }
    if (!tensors.empty() && task_should_compute_output({{count, count + 2}})) {
      std::tie(results[count], results[count + 1]) =
          table_gradient(op, tensors.get(defined.indices), defined.tensors, *rope, cos, token_dim);
    }
    return results;
  }
};

template <RotationOp kOp>
std::vector<at::Tensor> table_autograd(at::TensorList tensors, const at::Tensor& cos,
                                       const at::Tensor& sin, std::string_view rope,
                                       std::int64_t token_dim) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(cos) && !has_tangent(sin),
                              "[rotate_table] forward-mode derivatives go through tensors, not "
                              "tables");
  const bool table_needs_grad = ::torch::autograd::compute_requires_grad(cos, sin);
  return apply_linear(
      tensors, table_needs_grad,
      [&](at::TensorList x) { return call_table(kOp, x, cos, sin, rope, token_dim); },
      [&] {
        auto node = make_backward<TableBackward>(kOp, rope, tensors, table_needs_grad, cos, sin);
        node->token_dim = token_dim;
        node->table.add(cos);
        node->table.add(sin);
        return node;
      });
}

/// Frequencies and growth of a rope depend on no tensor.
template <at::Tensor (*kCall)(const at::Tensor&, std::string_view)>
at::Tensor constant_like(const at::Tensor& like, std::string_view rope) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return kCall(like, rope);
}

template <RotationOp kOp>
void implement_rotation(::torch::Library& m) {
  const std::string name = name_of(kOp);
  m.impl(name.c_str(), rotate_autograd<kOp>);
  m.impl((name + "_").c_str(), rotate_in_place_autograd<kOp>);
}

void implement_autograd(::torch::Library& m) {
  implement_rotation<RotationOp::kRotate>(m);
  implement_rotation<RotationOp::kAdjoint>(m);
  implement_rotation<RotationOp::kUnrotate>(m);
  implement_rotation<RotationOp::kUnrotateAdjoint>(m);
  implement_rotation<RotationOp::kShift>(m);
  implement_rotation<RotationOp::kShiftAdjoint>(m);
  m.impl("rotate_table", table_autograd<RotationOp::kRotate>);
  m.impl("adjoint_table", table_autograd<RotationOp::kAdjoint>);
  m.impl("frequencies_like", constant_like<call_frequencies_like>);
  m.impl("growth_like", constant_like<call_growth_like>);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, Autograd, m) { rotary::torch::implement_autograd(m); }
