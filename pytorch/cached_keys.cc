// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on keys that are in a cache (shift_cached_, rerotate_cached_), and rotation into
// groups of 8-bit elements with computed scales (rotate_quantized).

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

#include "pytorch/cache_store.h"
#include "pytorch/errors.h"
#include "pytorch/no_derivative.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"

namespace rotary::torch {
namespace {

/// The shape of the keys of some slots, as the library sees them: for positions.
ConstTensorView shape_of_keys(const CacheSlots& slots, const CacheStore& keys) {
  const at::Tensor& indices = slots.indices;
  const bool has_batch = indices.dim() == 2;
  ConstTensorView view{.rank = has_batch ? 4 : 3};
  std::size_t i = 0;
  for (const std::int64_t size : indices.sizes().slice(0, has_batch ? 2 : 1))
    view.shape[i++] = size;
  view.shape[i++] = keys.data.size(-2);
  view.shape[i] = keys.data.size(-1);
  return view;
}

void check_keys(std::string_view function, const at::Tensor& keys, const at::Tensor& slots) {
  TORCH_CHECK_VALUE(keys.dim() == 3 || keys.dim() == 4, "[", function,
                    "] keys must be [blocks, block_size, heads, head_dim] or [slots, heads, "
                    "head_dim], got ",
                    keys.sym_sizes());
  TORCH_CHECK_VALUE(slots.dim() == 1 || slots.dim() == 2, "[", function,
                    "] slots must be [tokens] or [batch, tokens], got ", slots.sym_sizes());
}

/// Keys [.., tokens, heads, head_dim] of those slots, changed by `work`, and back.
template <typename Work>
void by_operators(const CacheStore& keys, const CacheSlots& slots, const Work& work) {
  const at::Tensor& indices = slots.indices;
  const at::Tensor flat = flat_slots(slots, keys, indices.size(-1));
  const at::Tensor taken = take(keys, flat);
  at::Tensor x = indices.dim() == 2 ? taken.unflatten(0, indices.sizes()) : taken;
  x = work(x.to(keys.type == DType::kFloat64 ? at::kDouble : at::kFloat));
  if (!keys.is_quantized()) x = x.to(keys.data.scalar_type());
  put(keys, x.flatten(0, -3), flat);
}

void shift_cached(const at::Tensor& keys, const at::Tensor& slots, std::string_view rope,
                  const OptionalTensor& block_table, const OptionalTensor& sequences,
                  const OptionalTensor& delta, c10::SymInt first, const OptionalTensor& scale,
                  const OptionalTensor& scales, std::string_view scale_use,
                  std::string_view cache_type) {
  constexpr std::string_view kName = "shift_cached_";
  check_keys(kName, keys, slots);
  const CacheStore store = make_store(kName, keys, scale, scales, {cache_type, scale_use});
  if (keys.is_meta()) return;
  const CacheSlots at{slots, block_table, sequences};
  const OptionalTensor none;
  const TokenPositionsRef distances{delta, none, std::move(first), -3};
  if (keys.is_cpu()) {
    const auto shared = find_rope(rope);
    translate_errors([&] {
      shared->rope().shift_cached(
          view_of(kName, store), view_of(kName, at),
          make_positions(kName, *shared, distances, shape_of_keys(at, store),
                         PositionKind::kDistance));
    });
    return;
  }
  by_operators(store, at, [&](const at::Tensor& x) {
    return call(RotationOp::kShift, x, rope, distances)[0];
  });
}

void rerotate_cached(const at::Tensor& keys, const at::Tensor& slots, std::string_view from,
                     std::string_view to, const OptionalTensor& block_table,
                     const OptionalTensor& sequences, const OptionalTensor& positions,
                     c10::SymInt first, const OptionalTensor& scale, const OptionalTensor& scales,
                     std::string_view scale_use, std::string_view cache_type) {
  constexpr std::string_view kName = "rerotate_cached_";
  check_keys(kName, keys, slots);
  const CacheStore store = make_store(kName, keys, scale, scales, {cache_type, scale_use});
  if (keys.is_meta()) return;
  const CacheSlots at{slots, block_table, sequences};
  const OptionalTensor none;
  const TokenPositionsRef token_positions{positions, none, std::move(first), -3};
  if (keys.is_cpu()) {
    const auto source = find_rope(from);
    const auto target = find_rope(to);
    translate_errors([&] {
      rotary::rerotate_cached(
          view_of(kName, store), view_of(kName, at), source->rope(), target->rope(),
          make_positions(kName, *target, token_positions, shape_of_keys(at, store)));
    });
    return;
  }
  by_operators(store, at, [&](const at::Tensor& x) {
    const auto back = call(RotationOp::kUnrotate, x, from, token_positions);
    return call(RotationOp::kRotate, back, to, token_positions)[0];
  });
}

std::tuple<at::Tensor, at::Tensor> rotate_quantized(const at::Tensor& x, std::string_view rope,
                                                    std::int64_t group_size, std::string_view dtype,
                                                    std::string_view op,
                                                    const OptionalTensor& positions,
                                                    const OptionalTensor& cu_seqlens,
                                                    c10::SymInt first, std::string_view scale_use) {
  constexpr std::string_view kName = "rotate_quantized";
  TORCH_CHECK_VALUE(op == "rotate" || op == "unrotate",
                    "[rotate_quantized] op must be rotate or unrotate, got ", op);
  TORCH_CHECK_VALUE(dtype == "e4m3" || dtype == "e5m2" || dtype == "int8",
                    "[rotate_quantized] dtype must be e4m3, e5m2 or int8, got ", dtype);
  check_rank(kName, x, -3);
  const std::int64_t head_dim = find_rope(rope)->layout().head_dim;
  TORCH_CHECK_VALUE(x.sym_size(-1) == head_dim && group_size > 0 && head_dim % group_size == 0,
                    "[rotate_quantized] the last size must be head_dim ", head_dim,
                    ", a multiple of group_size, got ", x.sym_size(-1), " and ", group_size);
  const DType type = dtype == "e4m3"   ? DType::kFloat8E4M3
                     : dtype == "e5m2" ? DType::kFloat8E5M2
                                       : DType::kInt8;
  const std::int64_t groups = head_dim / group_size;
  c10::SymDimVector sizes(x.sym_sizes());
  const at::Tensor data = at::empty_symint(sizes, x.options().dtype(scalar_type_of(type)));
  sizes.back() = groups;
  const at::Tensor scales = at::empty_symint(sizes, x.options().dtype(at::kFloat));
  const CacheStore store = make_store(kName, data, {}, scales, {.use = scale_use});
  if (x.is_meta()) return {data, scales};
  const TokenPositionsRef token_positions{positions, cu_seqlens, std::move(first), -3};
  if (x.is_cpu() && x.dim() <= kMaxDimensions) {
    const auto shared = find_rope(rope);
    translate_errors([&] {
      const ConstTensorView in = heads_view(kName, x, -3);
      const Positions at = make_positions(kName, *shared, token_positions, in);
      const StoredTensor out = view_of(kName, store);
      op == "rotate" ? shared->rope().rotate_to(in, out, at)
                     : shared->rope().unrotate_to(in, out, at);
    });
    return {data, scales};
  }
  const RotationOp rotation = op == "rotate" ? RotationOp::kRotate : RotationOp::kUnrotate;
  const Quantized all =
      quantize_groups(call(rotation, x, rope, token_positions)[0], type, groups, store.use);
  return {all.data, all.scales};
}

void define_cached(::torch::Library& m) {
  const auto add = [&m](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  const std::string pages = "Tensor? block_table=None, Tensor? sequences=None, ";
  const std::string scales =
      "SymInt first=0, Tensor? scale=None, Tensor(b!)? scales=None, str scale_use='divide', "
      "str cache_type='auto') -> ()";
  add("shift_cached_(Tensor(a!) keys, Tensor slots, str rope, " + pages + "Tensor? delta=None, " +
      scales);
  add("rerotate_cached_(Tensor(a!) keys, Tensor slots, str source, str target, " + pages +
      "Tensor? positions=None, " + scales);
  add("rotate_quantized(Tensor x, str rope, int group_size=128, str dtype='e4m3', "
      "str op='unrotate', Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, "
      "str scale_use='divide') -> (Tensor, Tensor)");
}

void implement_cached(::torch::Library& m) {
  m.impl("shift_cached_", shift_cached);
  m.impl("rerotate_cached_", rerotate_cached);
  m.impl("rotate_quantized", rotate_quantized);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) { rotary::torch::define_cached(m); }
TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_cached(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_cached(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { rotary::torch::implement_cached(m); }
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  for (const char* name : {"shift_cached_", "rerotate_cached_", "rotate_quantized"}) {
    m.impl(name, rotary::torch::no_derivative());
  }
}
