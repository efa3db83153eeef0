// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of a rotation by a cos/sin table of learned frequencies and scale.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <mutex>

#include "pytorch/autograd_node.h"
#include "pytorch/learned.h"
#include "pytorch/pairs.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

struct LearnedBackward : ::torch::autograd::Node {
  std::shared_ptr<const SharedRope> rope{};
  std::size_t count = 0;
  SavedTokenPositions saved_positions{};
  SavedTensors table{};        // cos and sin
  SavedTensors tensors{};      // before the rotation
  SavedTensors frequencies{};  // one
  SavedTensors scale{};        // none or one

  std::string name() const override { return "Rotary_learned_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_positions.release();
    for (SavedTensors* saved : {&table, &tensors, &frequencies, &scale}) saved->release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 2);
    const DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    const variable_list ins = tensors.get(defined.indices);
    const TokenPositions token_positions = saved_positions.get();
    const bool create_graph = at::GradMode::is_enabled();
    const auto [cos, sin] =
        create_graph ? differentiable_table(token_positions, ins[0]) : saved_table();
    const auto input_grads = call_table(RotationOp::kAdjoint, defined.tensors, cos, sin,
                                        rope->text(), token_positions.token_dim);
    defined.scatter(input_grads, results);
    if (!task_should_compute_output({{count, count + 2}})) return results;

    const auto [frequency_grad, log_scale_grad] =
        create_graph ? differentiable_gradient(ins, input_grads, token_positions)
                     : call_frequency_gradient(ins, input_grads, rope->text(), token_positions);
    const at::Tensor f = frequencies.get(0);
    results[count] = frequency_grad.reshape_symint(f.sym_sizes()).to(f.scalar_type());
    if (const OptionalTensor s = scale.maybe()) {
      results[count + 1] =
          (log_scale_grad.reshape_symint(s->sym_sizes()) / s->to(at::kDouble)).to(s->scalar_type());
    }
    return results;
  }

 private:
  std::tuple<at::Tensor, at::Tensor> saved_table() const { return {table.get(0), table.get(1)}; }

  std::tuple<at::Tensor, at::Tensor> differentiable_table(const TokenPositionsRef& token_positions,
                                                          const at::Tensor& x) const {
    return learned_cos_sin(frequencies.get(0), rope->text(), x.sym_size(token_positions.token_dim),
                           scale.maybe(), token_positions, table.get(0).scalar_type());
  }

  /// frequency_gradient by PyTorch's operators.
  std::tuple<at::Tensor, at::Tensor> differentiable_gradient(
      at::TensorList ins, at::TensorList input_grads,
      const TokenPositionsRef& token_positions) const {
    const PhaseGradient phases =
        phase_gradient(ins, input_grads, *rope->layout().pairing, *rope, token_positions.token_dim);
    const c10::SymInt batch = phases.angle.sym_size(0);
    const c10::SymInt tokens = phases.angle.sym_size(1);
    const std::int64_t axes = rope->frequencies().axes;
    const at::Tensor x = position_matrix(token_positions, tokens, phases.angle.options())
                             .expand_symint({axes, batch, tokens})
                             .reshape_symint({axes, batch * tokens});
    const at::Tensor frequency_grad = at::matmul(x, phases.angle.flatten(0, 1)).t();
    return {frequency_grad, phases.length.sum().reshape({1})};
  }
};

std::vector<at::Tensor> rotate_learned_table(at::TensorList tensors, const at::Tensor& cos,
                                             const at::Tensor& sin,
                                             const at::Tensor& /*frequencies*/,
                                             const OptionalTensor& /*scale*/, std::string_view rope,
                                             const OptionalTensor& /*positions*/,
                                             const OptionalTensor& /*cu_seqlens*/,
                                             c10::SymInt /*first*/, std::int64_t token_dim) {
  return call_table(RotationOp::kRotate, tensors, cos, sin, rope, token_dim);
}

std::vector<at::Tensor> rotate_learned_table_autograd(
    at::TensorList tensors, const at::Tensor& cos, const at::Tensor& sin,
    const at::Tensor& frequencies, const OptionalTensor& scale, std::string_view rope,
    const OptionalTensor& positions, const OptionalTensor& cu_seqlens, c10::SymInt first,
    std::int64_t token_dim) {
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), token_dim};
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_learned_table(tensors, cos, sin, {frequencies, scale}, rope, token_positions);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, frequencies, scale)) return results;
  auto node = make_node<LearnedBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, frequencies, scale));
  node->rope = find_rope(rope);
  node->count = tensors.size();
  node->saved_positions.set(token_positions);
  node->table.add(cos);
  node->table.add(sin);
  node->tensors.add(tensors);
  node->frequencies.add(frequencies);
  node->scale.add(scale);
  ::torch::autograd::set_history(results, node);
  return results;
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CompositeExplicitAutograd, m) {
  m.impl("rotate_learned_table", rotary::torch::rotate_learned_table);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("rotate_learned_table", rotary::torch::rotate_learned_table_autograd);
}
