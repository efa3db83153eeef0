// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of the operators. The way back through a turn is its transpose, an operator too, so
// derivatives of any order come by themselves; real-valued positions get theirs from pairs.h.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>

#include "rotation/node.h"
#include "rotation/pairs.h"
#include "rotation/rope_cache.h"
#include "rotation/turn.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// Backward of results = turn(tensors, positions).
struct TurnBackward : ::torch::autograd::Node {
  Turn turn = Turn::kRotate;
  std::shared_ptr<const SharedRope> rope{};
  std::size_t count = 0;
  c10::SymInt first = 0;
  std::int64_t token_dim = -3;
  Saved positions{};   // none or one
  Saved cu_seqlens{};  // none or one
  Saved tensors{};     // only where positions need a gradient

  std::string name() const override { return std::string("Rotary_") + name_of(turn) + "_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    positions.release();
    cu_seqlens.release();
    tensors.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 1);
    const Defined defined(grads);
    if (defined.places.empty()) return results;
    const Where where{.positions = positions.maybe(),
                      .cu_seqlens = cu_seqlens.maybe(),
                      .first = first,
                      .token_dim = token_dim};
    const auto back = call(transpose(turn), defined.tensors, rope->text(), where);
    for (std::size_t i = 0; i < back.size(); ++i) results[defined.places[i]] = back[i];
    if (!tensors.empty() && task_should_compute_output(count)) {
      results[count] = position_gradient(turn, tensors.get(defined.places), back, *rope,
                                         *where.positions, token_dim);
    }
    return results;
  }
};

void check_tangents(Turn turn, const OptionalTensor& positions) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(positions), "[", name_of(turn),
                              "] forward-mode derivatives go through tensors, not positions");
}

void check_packed(Turn turn, const OptionalTensor& cu_seqlens, bool positions_need_grad) {
  TORCH_CHECK_VALUE(!(positions_need_grad && cu_seqlens.has_value()), "[", name_of(turn),
                    "] the first positions of packed sequences are whole numbers");
}

auto make_backward(Turn turn, std::string_view rope, at::TensorList tensors, const Where& where,
                   bool positions_need_grad) {
  auto node = make_node<TurnBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, where.positions));
  node->turn = turn;
  node->rope = find_rope(rope);
  node->count = tensors.size();
  node->first = where.first;
  node->token_dim = where.token_dim;
  node->positions.add(where.positions);
  node->cu_seqlens.add(where.cu_seqlens);
  if (positions_need_grad) node->tensors.add(tensors);
  return node;
}

template <Turn kTurn>
std::vector<at::Tensor> turn_with_history(at::TensorList tensors, std::string_view rope,
                                          const OptionalTensor& positions,
                                          const OptionalTensor& cu_seqlens, c10::SymInt first,
                                          std::int64_t token_dim) {
  check_tangents(kTurn, positions);
  const bool positions_need_grad = ::torch::autograd::compute_requires_grad(positions);
  const bool needs_grad = positions_need_grad || ::torch::autograd::compute_requires_grad(tensors);
  if (!needs_grad && !any_has_tangent(tensors)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(kTurn, tensors, rope, positions, cu_seqlens, first, token_dim);
  }
  const Where where{positions, cu_seqlens, std::move(first), token_dim};
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call(kTurn, tensors, rope, where);
  }
  if (needs_grad) {
    check_packed(kTurn, cu_seqlens, positions_need_grad);
    ::torch::autograd::set_history(results,
                                   make_backward(kTurn, rope, tensors, where, positions_need_grad));
  }
  set_tangents(tensors, results,
               [&](const at::Tensor& tangent) { return call(kTurn, tangent, rope, where)[0]; });
  return results;
}

/// One node a tensor: a view that is changed in place must be a node's only result.
template <Turn kTurn>
void turn_one_in_place(const at::Tensor& x, std::string_view rope, const Where& where) {
  ::torch::autograd::check_inplace(x, /*requires_grad=*/true);
  auto node = make_backward(kTurn, rope, x, where, /*positions_need_grad=*/false);
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_in_place(kTurn, x, rope, where);
  }
  ::torch::autograd::increment_version(x);
  ::torch::autograd::rebase_history(x, std::move(node));
}

template <Turn kTurn>
void turn_in_place_with_history(at::TensorList tensors, std::string_view rope,
                                const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                                c10::SymInt first, std::int64_t token_dim) {
  const bool needs_copies = ::torch::autograd::compute_requires_grad(positions) ||
                            any_has_tangent(tensors) || has_tangent(positions);
  if (!needs_copies && !::torch::autograd::compute_requires_grad(tensors)) {
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      call_in_place(kTurn, tensors, rope, positions, cu_seqlens, first, token_dim);
    }
    for (const at::Tensor& x : tensors) ::torch::autograd::increment_version(x);
    return;
  }
  const Where where{positions, cu_seqlens, std::move(first), token_dim};
  if (needs_copies) {
    std::vector<at::Tensor> copies;  // the gradient of positions needs what was there before
    for (const at::Tensor& x : tensors) copies.push_back(x.clone());
    const auto results = call(kTurn, copies, rope, where);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
    return;
  }
  for (const at::Tensor& x : tensors) {
    if (x.requires_grad()) {
      turn_one_in_place<kTurn>(x, rope, where);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      call_in_place(kTurn, x, rope, where);
      ::torch::autograd::increment_version(x);
    }
  }
}

// ---- By tables --------------------------------------------------------------------------------

/// Backward of results = turn(tensors, cos, sin).
struct TableBackward : ::torch::autograd::Node {
  Turn turn = Turn::kRotate;
  std::shared_ptr<const SharedRope> rope{};
  std::size_t count = 0;
  std::int64_t token_dim = -3;
  Saved table{};    // cos and sin
  Saved tensors{};  // only where the table needs a gradient

  std::string name() const override { return "Rotary_table_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    table.release();
    tensors.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 2);
    const Defined defined(grads);
    if (defined.places.empty()) return results;
    const at::Tensor cos = table.get(0);
    const at::Tensor sin = table.get(1);
    if (task_should_compute_output({{0, count}})) {
      const auto back =
          call_table(transpose(turn), defined.tensors, cos, sin, rope->text(), token_dim);
      for (std::size_t i = 0; i < back.size(); ++i) results[defined.places[i]] = back[i];
    }
    if (!tensors.empty() && task_should_compute_output({{count, count + 2}})) {
      std::tie(results[count], results[count + 1]) =
          table_gradient(turn, tensors.get(defined.places), defined.tensors, *rope, cos, token_dim);
    }
    return results;
  }
};

template <Turn kTurn>
std::vector<at::Tensor> turn_by_table_with_history(at::TensorList tensors, const at::Tensor& cos,
                                                   const at::Tensor& sin, std::string_view rope,
                                                   std::int64_t token_dim) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(cos) && !has_tangent(sin),
                              "[rotate_table] forward-mode derivatives go through tensors, not "
                              "tables");
  const bool table_needs_grad = ::torch::autograd::compute_requires_grad(cos, sin);
  const bool needs_grad = table_needs_grad || ::torch::autograd::compute_requires_grad(tensors);
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_table(kTurn, tensors, cos, sin, rope, token_dim);
  }
  if (needs_grad) {
    auto node = make_node<TableBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(tensors, cos, sin));
    node->turn = kTurn;
    node->rope = find_rope(rope);
    node->count = tensors.size();
    node->token_dim = token_dim;
    node->table.add(cos);
    node->table.add(sin);
    if (table_needs_grad) node->tensors.add(tensors);
    ::torch::autograd::set_history(results, node);
  }
  set_tangents(tensors, results, [&](const at::Tensor& tangent) {
    return call_table(kTurn, tangent, cos, sin, rope, token_dim)[0];
  });
  return results;
}

/// The numbers of a rope depend on no tensor.
template <at::Tensor (*kCall)(const at::Tensor&, std::string_view)>
at::Tensor constant_like(const at::Tensor& like, std::string_view rope) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return kCall(like, rope);
}

template <Turn kTurn>
void implement_with_history(::torch::Library& m) {
  const std::string name = name_of(kTurn);
  m.impl(name.c_str(), turn_with_history<kTurn>);
  m.impl((name + "_").c_str(), turn_in_place_with_history<kTurn>);
}

void implement_autograd(::torch::Library& m) {
  implement_with_history<Turn::kRotate>(m);
  implement_with_history<Turn::kAdjoint>(m);
  implement_with_history<Turn::kUnrotate>(m);
  implement_with_history<Turn::kUnrotateAdjoint>(m);
  implement_with_history<Turn::kShift>(m);
  implement_with_history<Turn::kShiftAdjoint>(m);
  m.impl("rotate_table", turn_by_table_with_history<Turn::kRotate>);
  m.impl("adjoint_table", turn_by_table_with_history<Turn::kAdjoint>);
  m.impl("frequencies_like", constant_like<call_frequencies_like>);
  m.impl("growth_like", constant_like<call_growth_like>);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, Autograd, m) { rotary::torch::implement_autograd(m); }
