// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of a rotation by a table that was made of frequencies and a scale.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <mutex>

#include "rotation/learned.h"
#include "rotation/node.h"
#include "rotation/pairs.h"
#include "rotation/rope_cache.h"
#include "rotation/turn.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

struct LearnedBackward : ::torch::autograd::Node {
  std::shared_ptr<const SharedRope> rope{};
  std::size_t count = 0;
  c10::SymInt first = 0;
  std::int64_t token_dim = -3;
  Saved table{};        // cos and sin
  Saved tensors{};      // as they were before
  Saved frequencies{};  // one
  Saved scale{};        // none or one
  Saved positions{};    // none or one
  Saved cu_seqlens{};   // none or one

  std::string name() const override { return "Rotary_learned_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Saved* saved : {&table, &tensors, &frequencies, &scale, &positions, &cu_seqlens}) {
      saved->release();
    }
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 2);
    const Defined defined(grads);
    if (defined.places.empty()) return results;
    const variable_list ins = tensors.get(defined.places);
    const Where where{positions.maybe(), cu_seqlens.maybe(), first, token_dim};
    const bool again = at::GradMode::is_enabled();
    const auto [cos, sin] = again ? differentiable_table(where, ins[0]) : saved_table();
    const auto back =
        call_table(Turn::kAdjoint, defined.tensors, cos, sin, rope->text(), token_dim);
    for (std::size_t i = 0; i < back.size(); ++i) results[defined.places[i]] = back[i];
    if (!task_should_compute_output({{count, count + 2}})) return results;

    const auto [turning, length] =
        again ? sums(ins, back, where) : call_frequency_gradient(ins, back, rope->text(), where);
    const at::Tensor f = frequencies.get(0);
    results[count] = turning.reshape_symint(f.sym_sizes()).to(f.scalar_type());
    if (const OptionalTensor s = scale.maybe()) {
      results[count + 1] =
          (length.reshape_symint(s->sym_sizes()) / s->to(at::kDouble)).to(s->scalar_type());
    }
    return results;
  }

 private:
  std::tuple<at::Tensor, at::Tensor> saved_table() const { return {table.get(0), table.get(1)}; }

  std::tuple<at::Tensor, at::Tensor> differentiable_table(const Where& where,
                                                          const at::Tensor& x) const {
    return learned_cos_sin(frequencies.get(0), rope->text(), x.sym_size(token_dim), scale.maybe(),
                           where.positions, where.cu_seqlens, where.first,
                           table.get(0).scalar_type());
  }

  /// frequency_gradient in PyTorch's operators.
  std::tuple<at::Tensor, at::Tensor> sums(at::TensorList ins, at::TensorList back,
                                          const Where& where) const {
    const PhaseGradient phases =
        phase_gradient(ins, back, *rope->layout().pairing, *rope, token_dim);
    const c10::SymInt batch = phases.angle.sym_size(0);
    const c10::SymInt tokens = phases.angle.sym_size(1);
    const std::int64_t axes = rope->frequencies().axes;
    const at::Tensor x = position_matrix(where, tokens, phases.angle.options())
                             .expand_symint({axes, batch, tokens})
                             .reshape_symint({axes, batch * tokens});
    const at::Tensor turning = at::matmul(x, phases.angle.flatten(0, 1)).t();
    return {turning, phases.length.sum().reshape({1})};
  }
};

std::vector<at::Tensor> rotate(at::TensorList tensors, const at::Tensor& cos, const at::Tensor& sin,
                               const at::Tensor& /*frequencies*/, const OptionalTensor& /*scale*/,
                               std::string_view rope, const OptionalTensor& /*positions*/,
                               const OptionalTensor& /*cu_seqlens*/, c10::SymInt /*first*/,
                               std::int64_t token_dim) {
  return call_table(Turn::kRotate, tensors, cos, sin, rope, token_dim);
}

std::vector<at::Tensor> rotate_with_history(at::TensorList tensors, const at::Tensor& cos,
                                            const at::Tensor& sin, const at::Tensor& frequencies,
                                            const OptionalTensor& scale, std::string_view rope,
                                            const OptionalTensor& positions,
                                            const OptionalTensor& cu_seqlens, c10::SymInt first,
                                            std::int64_t token_dim) {
  const Where where{positions, cu_seqlens, std::move(first), token_dim};
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_learned_table(tensors, cos, sin, {frequencies, scale}, rope, where);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, frequencies, scale)) return results;
  auto node = make_node<LearnedBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, frequencies, scale));
  node->rope = find_rope(rope);
  node->count = tensors.size();
  node->first = where.first;
  node->token_dim = token_dim;
  node->table.add(cos);
  node->table.add(sin);
  node->tensors.add(tensors);
  node->frequencies.add(frequencies);
  node->scale.add(scale);
  node->positions.add(positions);
  node->cu_seqlens.add(cu_seqlens);
  ::torch::autograd::set_history(results, node);
  return results;
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CompositeExplicitAutograd, m) {
  m.impl("rotate_learned_table", rotary::torch::rotate);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("rotate_learned_table", rotary::torch::rotate_with_history);
}
