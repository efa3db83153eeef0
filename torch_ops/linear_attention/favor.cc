// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ of causal queries and keys as one operator, so that features need not be kept.

#include "linear_attention/favor.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <cmath>
#include <mutex>
#include <tuple>

#include "linear_attention/favor_cuda.h"
#include "linear_attention/sums.h"
#include "linear_attention/sums_device.h"
#include "rotation/node.h"
#include "rotation/rope_cache.h"

#ifdef ROTARY_TORCH_CUDA_KERNELS
#include "linear_attention/launch.h"
#endif

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

void check_favor(const FavorInputs& in) {
  const bool fits = in.q.dim() == 4 && in.k.sym_sizes() == in.q.sym_sizes() &&
                    in.projection.dim() == 2 && in.projection.sym_size(1) == in.q.sym_size(3) &&
                    in.q.scalar_type() == in.k.scalar_type();
  TORCH_CHECK_VALUE(fits, "[favor] q and k must be [batch, heads, tokens, head_dim] of one type, ",
                    "and the projection [features, head_dim], got ", in.q.sym_sizes(), ", ",
                    in.k.sym_sizes(), " and ", in.projection.sym_sizes());
  if (in.table.has_value()) {
    TORCH_CHECK_VALUE(
        in.table->dim() == 3 && in.table->sym_size(0) == in.q.sym_size(2) &&
            2 * in.table->sym_size(1) == in.projection.sym_size(0) && in.table->sym_size(2) == 2,
        "[favor] table must be [tokens, features / 2, 2], got ", in.table->sym_sizes());
  }
  if (!in.seen.has_value()) return;
  TORCH_CHECK_VALUE(in.seen->scalar_type() == at::kBool && in.seen->dim() == 2 &&
                        in.seen->sym_size(0) == in.q.sym_size(0) &&
                        in.seen->sym_size(1) == in.q.sym_size(2),
                    "[favor] seen must be bool [batch, tokens], got ", in.seen->sym_sizes());
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef ROTARY_TORCH_CUDA_KERNELS

bool has_favor_kernel(const at::Tensor& q, const at::Tensor& projection) {
  const c10::SymInt features = projection.sym_size(0);
  return q.is_cuda() && q.scalar_type() == at::kBFloat16 && q.sym_numel() > 0 &&
         q.sym_size(3) == cuda::kFavorHeadDim && features % 16 == 0 &&
         features <= cuda::kFavorMostFeatures;
}

/// What the kernels read: tensors without gaps.
struct FavorKernels {
  explicit FavorKernels(const FavorInputs& in)
      : q(dense(in.q)),
        k(dense(in.k)),
        weights(in_order(in.projection)),
        seen(in.seen ? OptionalTensor(in.seen->contiguous()) : std::nullopt),
        table(in.table ? dense(in.table->to(at::kHalf)) : at::Tensor()) {
    shape.rows = q.size(0) * q.size(1);
    shape.tokens = q.size(2);
    shape.heads = q.size(1);
    shape.features = static_cast<int>(weights.size(0));
    shape.root = 1.0F / std::sqrt(static_cast<float>(shape.features));
  }

  /// Feature 16 f + 4 a + 2 b + i goes to row 16 f + 8 b + 2 a + i, element 16 t + 4 s + 2 h + i to
  /// column 16 s + 8 h + 2 t + i: see favor.cuh.
  static at::Tensor in_order(const at::Tensor& projection) {
    const std::int64_t blocks = projection.size(0) / 16;
    return projection.to(at::kBFloat16)
        .reshape({blocks, 4, 2, 2, 4, 4, 2, 2})
        .permute({0, 2, 1, 3, 5, 6, 4, 7})
        .reshape({16 * blocks, cuda::kFavorHeadDim});
  }
  const void* turns() const { return table.defined() ? table.const_data_ptr() : nullptr; }
  const bool* padding() const { return seen ? seen->const_data_ptr<bool>() : nullptr; }
  at::Tensor wide(at::IntArrayRef sizes) const {
    return at::empty(sizes, q.options().dtype(at::kFloat));
  }
  at::Tensor features() const {
    return at::empty({q.size(0), q.size(1), q.size(2), shape.features}, q.options());
  }

  /// Sums before each tile: of the features of keys, or behind it, of those of queries times h.
  at::Tensor prefixes(const float* most, const float* h) const {
    const bool queries = h != nullptr;
    const at::Tensor sums = wide({shape.rows, shape.count(), shape.features});
    check_launch(cuda::launch_favor_totals(
        {.x = (queries ? q : k).const_data_ptr(),
         .weights = weights.const_data_ptr(),
         .side = queries ? cuda::FavorSide::kQuery : cuda::FavorSide::kKey,
         .padding = padding(),
         .most = most,
         .factors = h,
         .totals = sums.data_ptr<float>()},
        shape, stream_for(q)));
    exclusive_scan_(sums, /*reverse=*/queries);
    return sums;
  }

  at::Tensor q;
  at::Tensor k;
  at::Tensor weights;
  OptionalTensor seen;
  at::Tensor table;
  cuda::FavorShape shape{};
};

FavorResults favor_by_kernel(const FavorInputs& in) {
  const FavorKernels kernels(in);
  const at::Tensor prefixes = kernels.prefixes(nullptr, nullptr);
  const at::Tensor c = kernels.features();
  const at::Tensor e = kernels.features();
  const at::Tensor dots = kernels.wide({in.q.size(0), in.q.size(1), in.q.size(2)});
  const at::Tensor most = at::empty_like(dots);
  check_launch(cuda::launch_favor_forward({.q = kernels.q.const_data_ptr(),
                                           .k = kernels.k.const_data_ptr(),
                                           .weights = kernels.weights.const_data_ptr(),
                                           .padding = kernels.padding(),
                                           .table = kernels.turns(),
                                           .prefixes = prefixes.const_data_ptr<float>(),
                                           .c = c.data_ptr(),
                                           .e = e.data_ptr(),
                                           .dots = dots.data_ptr<float>(),
                                           .most = most.data_ptr<float>()},
                                          kernels.shape, stream_for(in.q)));
  return {c, e, dots, most, prefixes};
}

FavorGradients gradients_by_kernel(const FeatureGradients& g, const FavorInputs& in,
                                   const at::Tensor& most, const at::Tensor& sums) {
  const FavorKernels kernels(in);
  const at::Tensor h = g.dots ? g.dots->contiguous() : at::zeros_like(most);
  const at::Tensor stabilisers = most.contiguous();
  const auto* c = stabilisers.const_data_ptr<float>();
  const auto run = [&](cuda::FavorSide side, const OptionalTensor& gradient) {
    const bool query = side == cuda::FavorSide::kQuery;
    const at::Tensor& own = query ? kernels.q : kernels.k;
    const at::Tensor prefixes =
        query ? sums.contiguous() : kernels.prefixes(c, h.const_data_ptr<float>());
    const at::Tensor given = gradient ? dense(*gradient) : at::Tensor();
    at::Tensor out = at::empty_like(own);
    check_launch(
        cuda::launch_favor_backward({.own = own.const_data_ptr(),
                                     .other = (query ? kernels.k : kernels.q).const_data_ptr(),
                                     .weights = kernels.weights.const_data_ptr(),
                                     .padding = kernels.padding(),
                                     .most = c,
                                     .factors = h.const_data_ptr<float>(),
                                     .prefixes = prefixes.const_data_ptr<float>(),
                                     .table = kernels.turns(),
                                     .g = given.defined() ? given.const_data_ptr() : nullptr,
                                     .out = out.data_ptr()},
                                    side, kernels.shape, stream_for(own)));
    return out;
  };
  return {run(cuda::FavorSide::kQuery, g.queries), run(cuda::FavorSide::kKey, g.keys)};
}

#else

bool has_favor_kernel(const at::Tensor&, const at::Tensor&) { return false; }
FavorResults favor_by_kernel(const FavorInputs& in) { return favor_by_tensors(in); }
FavorGradients gradients_by_kernel(const FeatureGradients& g, const FavorInputs& in,
                                   const at::Tensor& most, const at::Tensor&) {
  return gradients_by_tensors(g, in, most);
}

#endif

// ---- The operators ------------------------------------------------------------------------------

FavorResults favor_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                      const OptionalTensor& seen, const OptionalTensor& table) {
  const FavorInputs in{q, k, projection, seen, table};
  check_favor(in);
  const at::OptionalDeviceGuard guard(q.device());
  return has_favor_kernel(q, projection) ? favor_by_kernel(in) : favor_by_tensors(in);
}

FavorGradients favor_backward_op(const OptionalTensor& queries, const OptionalTensor& keys,
                                 const OptionalTensor& dots, const at::Tensor& q,
                                 const at::Tensor& k, const at::Tensor& projection,
                                 const OptionalTensor& seen, const OptionalTensor& table,
                                 const at::Tensor& most, const at::Tensor& sums) {
  const FavorInputs in{q, k, projection, seen, table};
  const FeatureGradients g{queries, keys, dots};
  const at::OptionalDeviceGuard guard(q.device());
  return has_favor_kernel(q, projection) ? gradients_by_kernel(g, in, most, sums)
                                         : gradients_by_tensors(g, in, most);
}

FavorResults favor_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                        const OptionalTensor& seen, const OptionalTensor& table) {
  const FavorInputs in{q, k, projection, seen, table};
  check_favor(in);
  const auto type = q.scalar_type() == at::kHalf ? at::kFloat : q.scalar_type();
  c10::SymDimVector sizes(q.sym_sizes());
  sizes.back() = projection.sym_size(0);
  const auto features = [&] { return at::empty_symint(sizes, q.options().dtype(type)); };
  const auto numbers = [&](c10::SymIntArrayRef shape) {
    return at::empty_symint(shape, q.options().dtype(wide_type(q.scalar_type())));
  };
  const auto tokens = q.sym_sizes().slice(0, 3);
  return {features(), features(), numbers(tokens), numbers(tokens), numbers(favor_sums_sizes(in))};
}

FavorGradients favor_backward_meta(const OptionalTensor&, const OptionalTensor&,
                                   const OptionalTensor&, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                                   const at::Tensor&, const at::Tensor&) {
  return {at::empty_symint(q.sym_sizes(), q.options()),
          at::empty_symint(k.sym_sizes(), k.options())};
}

FavorResults call_favor_op(const FavorInputs& in) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("rotary::favor", "")
                                 .typed<decltype(favor_op)>();
  return handle.call(in.q, in.k, in.projection, in.seen, in.table);
}

FavorGradients call_favor_backward(const FeatureGradients& g, const FavorInputs& in,
                                   const at::Tensor& most, const at::Tensor& sums) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("rotary::favor_backward", "")
                                 .typed<decltype(favor_backward_op)>();
  return handle.call(g.queries, g.keys, g.dots, in.q, in.k, in.projection, in.seen, in.table, most,
                     sums);
}

struct FavorNode : ::torch::autograd::Node {
  Saved tensors{};  // q, k, projection, most, sums
  Saved seen{};     // none or one
  Saved table{};    // none or one

  std::string name() const override { return "Rotary_favor_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensors.release();
    seen.release();
    table.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto given = [&](std::size_t i) {
      return grads[i].defined() ? OptionalTensor(grads[i]) : std::nullopt;
    };
    const OptionalTensor all[] = {given(0), given(1), given(2)};
    if (!all[0] && !all[1] && !all[2]) return variable_list(2);
    const FeatureGradients g{all[0], all[1], all[2]};
    const at::Tensor q = tensors.get(0);
    const at::Tensor k = tensors.get(1);
    const at::Tensor projection = tensors.get(2);
    const at::Tensor most = tensors.get(3);
    const OptionalTensor keys = seen.maybe();
    const OptionalTensor turns = table.maybe();
    const FavorInputs in{q, k, projection, keys, turns};
    auto [dq, dk] = at::GradMode::is_enabled() ? gradients_by_tensors(g, in, most)
                                               : call_favor_backward(g, in, most, tensors.get(4));
    return {dq, dk};
  }
};

FavorResults favor_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                            const OptionalTensor& seen, const OptionalTensor& table) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(q) && !has_tangent(k),
                              "[linear_attend] has no forward-mode derivative");
  FavorResults out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_favor_op({q, k, projection, seen, table});
  }
  if (::torch::autograd::compute_requires_grad(q, k)) {
    auto node = make_node<FavorNode>();
    node->set_next_edges(::torch::autograd::collect_next_edges(q, k));
    for (const at::Tensor& x : {q, k, projection, std::get<3>(out), std::get<4>(out)}) {
      node->tensors.add(x);
    }
    node->seen.add(seen);
    node->table.add(table);
    ::torch::autograd::set_history({std::get<0>(out), std::get<1>(out), std::get<2>(out)}, node);
  }
  return out;
}

}  // namespace

Favor call_favor(const FavorInputs& in) {
  auto [queries, keys, dots, most, sums] = call_favor_op(in);
  return {queries, keys, dots};
}

bool favor_turns(const at::Tensor& q, const LinearAttendOptions& o) {
  const bool constant = !o.frequencies.has_value() && !o.scale.has_value();
  const bool one_place =
      !o.positions.has_value() || (o.positions->dim() == 1 && !o.positions->requires_grad());
  if (!constant || !one_place || !has_favor_kernel(q, *o.projection)) return false;
  const auto rope = find_rope(o.rope);
  const HeadLayout& layout = rope->layout();
  return rope->frequencies().rotary_dim() == layout.head_dim && layout.rotary_offset == 0 &&
         layout.output_pairing.value_or(*layout.pairing) == *layout.pairing;
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "favor(Tensor q, Tensor k, Tensor projection, Tensor? seen=None, Tensor? table=None) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "favor_backward(Tensor? queries, Tensor? keys, Tensor? dots, Tensor q, Tensor k, "
      "Tensor projection, Tensor? seen, Tensor? table, Tensor most, Tensor sums) -> "
      "(Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("favor", rotary::torch::favor_op);
  m.impl("favor_backward", rotary::torch::favor_backward_op);
}
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("favor", rotary::torch::favor_op);
  m.impl("favor_backward", rotary::torch::favor_backward_op);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("favor", rotary::torch::favor_meta);
  m.impl("favor_backward", rotary::torch::favor_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) { m.impl("favor", rotary::torch::favor_autograd); }
