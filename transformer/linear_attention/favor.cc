// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ for causal attention as one operator, so that backward recomputes features.

#include "transformer/linear_attention/favor.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <cmath>
#include <mutex>
#include <tuple>

#include "pytorch/autograd_node.h"
#include "pytorch/rope_cache.h"
#include "transformer/linear_attention/favor_kernels.h"
#include "transformer/linear_attention/scans.h"
#include "transformer/linear_attention/scans_device.h"

#ifdef ROTARY_TORCH_CUDA_KERNELS
#include "transformer/linear_attention/launch.h"
#endif

namespace rotary::transformer {
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
  for (const OptionalTensor& other :
       {OptionalTensor(in.k), OptionalTensor(in.projection), in.cos_sin, in.padding}) {
    TORCH_CHECK_VALUE(!other || other->device() == in.q.device(),
                      "[favor] all tensors must be on the device of q, ", in.q.device(), ", got ",
                      other->device());
  }
  if (in.cos_sin.has_value()) {
    TORCH_CHECK_VALUE(in.cos_sin->dim() == 3 && in.cos_sin->sym_size(0) == in.q.sym_size(2) &&
                          2 * in.cos_sin->sym_size(1) == in.projection.sym_size(0) &&
                          in.cos_sin->sym_size(2) == 2,
                      "[favor] cos_sin must be [tokens, features / 2, 2], got ",
                      in.cos_sin->sym_sizes());
  }
  if (!in.padding.has_value()) return;
  TORCH_CHECK_VALUE(in.padding->scalar_type() == at::kBool && in.padding->dim() == 2 &&
                        in.padding->sym_size(0) == in.q.sym_size(0) &&
                        in.padding->sym_size(1) == in.q.sym_size(2),
                    "[favor] padding must be bool [batch, tokens], got ", in.padding->sym_sizes());
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef ROTARY_TORCH_CUDA_KERNELS

bool has_favor_kernel(const at::Tensor& q, const at::Tensor& projection) {
  const c10::SymInt features = projection.sym_size(0);
  return q.is_cuda() && q.scalar_type() == at::kBFloat16 && q.sym_numel() > 0 &&
         q.sym_size(3) == cuda::kFavorHeadDim && features % 16 == 0 &&
         features <= cuda::kFavorMaxFeatures;
}

/// Inputs of the kernels: contiguous tensors, with the projection permuted.
struct FavorKernelInputs {
  explicit FavorKernelInputs(const FavorInputs& in)
      : q(dense(in.q)),
        k(dense(in.k)),
        projection(permute_projection(in.projection)),
        padding(in.padding ? OptionalTensor(in.padding->contiguous()) : std::nullopt),
        cos_sin(in.cos_sin ? dense(in.cos_sin->to(at::kHalf)) : at::Tensor()) {
    shape.batch_heads = q.size(0) * q.size(1);
    shape.tokens = q.size(2);
    shape.heads = q.size(1);
    shape.features = static_cast<int>(projection.size(0));
    shape.feature_scale = 1.0F / std::sqrt(static_cast<float>(shape.features));
  }

  /// Feature 16 f + 4 a + 2 b + i goes to row 16 f + 8 b + 2 a + i, element 16 t + 4 s + 2 h + i to
  /// column 16 s + 8 h + 2 t + i: see favor.cuh.
  static at::Tensor permute_projection(const at::Tensor& projection) {
    const std::int64_t blocks = projection.size(0) / 16;
    return projection.to(at::kBFloat16)
        .reshape({blocks, 4, 2, 2, 4, 4, 2, 2})
        .permute({0, 2, 1, 3, 5, 6, 4, 7})
        .reshape({16 * blocks, cuda::kFavorHeadDim});
  }
  const void* cos_sin_data() const { return data_or_null(cos_sin); }
  const bool* padding_data() const { return padding ? padding->const_data_ptr<bool>() : nullptr; }
  at::Tensor empty_float(at::IntArrayRef sizes) const {
    return at::empty(sizes, q.options().dtype(at::kFloat));
  }
  at::Tensor empty_features() const {
    return at::empty({q.size(0), q.size(1), q.size(2), shape.features}, q.options());
  }

  /// Exclusive scan over tiles: of phi(k) before each tile or, with h, of h phi(q) after it.
  at::Tensor prefixes(const float* row_max, const float* h) const {
    const bool queries = h != nullptr;
    const at::Tensor sums = empty_float({shape.batch_heads, shape.tiles(), shape.features});
    check_launch("linear_attention",
                 cuda::launch_favor_tile_sums(
                     {.x = (queries ? q : k).const_data_ptr(),
                      .projection = projection.const_data_ptr(),
                      .side = queries ? cuda::FavorSide::kQuery : cuda::FavorSide::kKey,
                      .padding = padding_data(),
                      .row_max = row_max,
                      .scale = h,
                      .sums = sums.data_ptr<float>()},
                     shape, stream_for(q)));
    exclusive_scan_(sums, /*reverse=*/queries);
    return sums;
  }

  at::Tensor q;
  at::Tensor k;
  at::Tensor projection;
  OptionalTensor padding;
  at::Tensor cos_sin;
  cuda::FavorShape shape{};
};

FavorResults favor_by_kernel(const FavorInputs& in) {
  const FavorKernelInputs inputs(in);
  const at::Tensor prefixes = inputs.prefixes(nullptr, nullptr);
  const at::Tensor phi_q = inputs.empty_features();
  const at::Tensor phi_k = inputs.empty_features();
  const at::Tensor dots = inputs.empty_float({in.q.size(0), in.q.size(1), in.q.size(2)});
  const at::Tensor row_max = at::empty_like(dots);
  check_launch("linear_attention",
               cuda::launch_favor_forward({.q = inputs.q.const_data_ptr(),
                                           .k = inputs.k.const_data_ptr(),
                                           .projection = inputs.projection.const_data_ptr(),
                                           .padding = inputs.padding_data(),
                                           .cos_sin = inputs.cos_sin_data(),
                                           .prefixes = prefixes.const_data_ptr<float>(),
                                           .phi_q = phi_q.data_ptr(),
                                           .phi_k = phi_k.data_ptr(),
                                           .dots = dots.data_ptr<float>(),
                                           .row_max = row_max.data_ptr<float>()},
                                          inputs.shape, stream_for(in.q)));
  return {phi_q, phi_k, dots, row_max, prefixes};
}

FavorGradients favor_gradients_by_kernel(const FeatureGradients& g, const FavorInputs& in,
                                         const at::Tensor& row_max,
                                         const at::Tensor& key_prefixes) {
  const FavorKernelInputs inputs(in);
  const at::Tensor h = g.dots ? g.dots->contiguous() : at::zeros_like(row_max);
  const at::Tensor row_max_dense = row_max.contiguous();
  const auto* row_max_data = row_max_dense.const_data_ptr<float>();
  const auto run = [&](cuda::FavorSide side, const OptionalTensor& gradient) {
    const bool query = side == cuda::FavorSide::kQuery;
    const at::Tensor& own = query ? inputs.q : inputs.k;
    const at::Tensor prefixes = query ? key_prefixes.contiguous()
                                      : inputs.prefixes(row_max_data, h.const_data_ptr<float>());
    const at::Tensor given = gradient ? dense(*gradient) : at::Tensor();
    at::Tensor out = at::empty_like(own);
    check_launch("linear_attention", cuda::launch_favor_backward(
                                         {.own = own.const_data_ptr(),
                                          .other = (query ? inputs.k : inputs.q).const_data_ptr(),
                                          .projection = inputs.projection.const_data_ptr(),
                                          .padding = inputs.padding_data(),
                                          .row_max = row_max_data,
                                          .d_dots = h.const_data_ptr<float>(),
                                          .prefixes = prefixes.const_data_ptr<float>(),
                                          .cos_sin = inputs.cos_sin_data(),
                                          .g = data_or_null(given),
                                          .out = out.data_ptr()},
                                         side, inputs.shape, stream_for(own)));
    return out;
  };
  return {run(cuda::FavorSide::kQuery, g.queries), run(cuda::FavorSide::kKey, g.keys)};
}

#else

bool has_favor_kernel(const at::Tensor&, const at::Tensor&) { return false; }
FavorResults favor_by_kernel(const FavorInputs& in) { return favor_by_tensors(in); }
FavorGradients favor_gradients_by_kernel(const FeatureGradients& g, const FavorInputs& in,
                                         const at::Tensor& row_max, const at::Tensor&) {
  return favor_gradients_by_tensors(g, in, row_max);
}

#endif

// ---- Operators ----------------------------------------------------------------------------------

FavorResults favor_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                      const OptionalTensor& padding, const OptionalTensor& cos_sin) {
  const FavorInputs in{q, k, projection, padding, cos_sin};
  check_favor(in);
  const at::OptionalDeviceGuard guard(q.device());
  return has_favor_kernel(q, projection) ? favor_by_kernel(in) : favor_by_tensors(in);
}

FavorGradients favor_backward_op(const OptionalTensor& queries, const OptionalTensor& keys,
                                 const OptionalTensor& dots, const at::Tensor& q,
                                 const at::Tensor& k, const at::Tensor& projection,
                                 const OptionalTensor& padding, const OptionalTensor& cos_sin,
                                 const at::Tensor& row_max, const at::Tensor& key_prefixes) {
  const FavorInputs in{q, k, projection, padding, cos_sin};
  const FeatureGradients g{queries, keys, dots};
  const at::OptionalDeviceGuard guard(q.device());
  return has_favor_kernel(q, projection) ? favor_gradients_by_kernel(g, in, row_max, key_prefixes)
                                         : favor_gradients_by_tensors(g, in, row_max);
}

FavorResults favor_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                        const OptionalTensor& padding, const OptionalTensor& cos_sin) {
  const FavorInputs in{q, k, projection, padding, cos_sin};
  check_favor(in);
  const auto type = q.scalar_type() == at::kHalf ? at::kFloat : q.scalar_type();
  c10::SymDimVector sizes(q.sym_sizes());
  sizes.back() = projection.sym_size(0);
  const auto features = [&] { return at::empty_symint(sizes, q.options().dtype(type)); };
  const auto empty_accum = [&](c10::SymIntArrayRef shape) {
    return at::empty_symint(shape, q.options().dtype(accum_type(q.scalar_type())));
  };
  const auto tokens = q.sym_sizes().slice(0, 3);
  return {features(), features(), empty_accum(tokens), empty_accum(tokens),
          empty_accum(favor_prefix_sizes(in))};
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
  return handle.call(in.q, in.k, in.projection, in.padding, in.cos_sin);
}

FavorGradients call_favor_backward(const FeatureGradients& g, const FavorInputs& in,
                                   const at::Tensor& row_max, const at::Tensor& key_prefixes) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("rotary::favor_backward", "")
                                 .typed<decltype(favor_backward_op)>();
  return handle.call(g.queries, g.keys, g.dots, in.q, in.k, in.projection, in.padding, in.cos_sin,
                     row_max, key_prefixes);
}

struct FavorBackward : ::torch::autograd::Node {
  torch::SavedTensors tensors{};  // q, k, projection, row_max, key_prefixes
  torch::SavedTensors padding{};  // none or one
  torch::SavedTensors cos_sin{};  // none or one

  std::string name() const override { return "Rotary_favor_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensors.release();
    padding.release();
    cos_sin.release();
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
    const at::Tensor row_max = tensors.get(3);
    const OptionalTensor key_padding = padding.maybe();
    const OptionalTensor rotation = cos_sin.maybe();
    const FavorInputs in{q, k, projection, key_padding, rotation};
    auto [dq, dk] = at::GradMode::is_enabled()
                        ? favor_gradients_by_tensors(g, in, row_max)
                        : call_favor_backward(g, in, row_max, tensors.get(4));
    return {dq, dk};
  }
};

FavorResults favor_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                            const OptionalTensor& padding, const OptionalTensor& cos_sin) {
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::has_tangent(q) && !torch::has_tangent(k),
                              "[linear_attend] has no forward-mode derivative");
  FavorResults out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_favor_op({q, k, projection, padding, cos_sin});
  }
  if (::torch::autograd::compute_requires_grad(q, k)) {
    auto node = torch::make_node<FavorBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(q, k));
    for (const at::Tensor& x : {q, k, projection, std::get<3>(out), std::get<4>(out)}) {
      node->tensors.add(x);
    }
    node->padding.add(padding);
    node->cos_sin.add(cos_sin);
    ::torch::autograd::set_history({std::get<0>(out), std::get<1>(out), std::get<2>(out)}, node);
  }
  return out;
}

}  // namespace

FavorFeatures call_favor(const FavorInputs& in) {
  auto [queries, keys, dots, row_max, prefixes] = call_favor_op(in);
  return {queries, keys, dots};
}

bool favor_can_rotate(const at::Tensor& q, const LinearAttendOptions& o) {
  const bool constant = !o.frequencies.has_value() && !o.scale.has_value();
  const bool shared_positions =
      !o.positions.has_value() || (o.positions->dim() == 1 && !o.positions->requires_grad());
  if (!constant || !shared_positions || !has_favor_kernel(q, *o.projection)) return false;
  const auto rope = torch::find_rope(o.rope);
  const HeadLayout& layout = rope->layout();
  return rope->frequencies().rotary_dim() == layout.head_dim && layout.rotary_offset == 0 &&
         layout.output_pairing.value_or(*layout.pairing) == *layout.pairing;
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "favor(Tensor q, Tensor k, Tensor projection, Tensor? padding=None, Tensor? cos_sin=None) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "favor_backward(Tensor? queries, Tensor? keys, Tensor? dots, Tensor q, Tensor k, "
      "Tensor projection, Tensor? padding, Tensor? cos_sin, Tensor row_max, Tensor prefixes) -> "
      "(Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("favor", rotary::transformer::favor_op);
  m.impl("favor_backward", rotary::transformer::favor_backward_op);
}
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("favor", rotary::transformer::favor_op);
  m.impl("favor_backward", rotary::transformer::favor_backward_op);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("favor", rotary::transformer::favor_meta);
  m.impl("favor_backward", rotary::transformer::favor_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) { m.impl("favor", rotary::transformer::favor_autograd); }
