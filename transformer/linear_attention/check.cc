// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/check.h"

#include <string>

#include "pytorch/rope_cache.h"
#include "transformer/linear_attention/step.h"

namespace rotary::transformer {
namespace {

/// Prefix of error messages.
constexpr const char* kName = "[linear_attend] ";

void check_projection(const at::Tensor& q, const LinearAttendOptions& o) {
  if (o.feature_map != FeatureMap::kFavor || o.variant == LinearVariant::kCosine) {
    TORCH_CHECK_VALUE(!o.projection.has_value(), kName, "projection is for feature_map favor");
    return;
  }
  TORCH_CHECK_VALUE(o.projection.has_value(), kName,
                    "feature_map favor needs a projection, as orthogonal_features() makes it");
  TORCH_CHECK_VALUE(o.projection->dim() == 2 && o.projection->sym_size(1) == q.sym_size(3), kName,
                    "projection must be [features, ", q.sym_size(3), "], got ",
                    o.projection->sym_sizes());
}

void check_rope(const at::Tensor& q, const LinearAttendOptions& o) {
  if (o.rope.empty()) {
    TORCH_CHECK_VALUE(!o.frequencies && !o.scale && !o.positions && !o.key_positions, kName,
                      "positions, frequencies and scale need a rope");
    return;
  }
  const auto rope = torch::find_rope(o.rope);
  TORCH_CHECK_VALUE(!rope->grows(), kName,
                    "a rope with growth (xPos) is for softmax attention only");
  const bool of_features =
      o.feature_map == FeatureMap::kFavor &&
      (o.variant == LinearVariant::kNumerator || o.variant == LinearVariant::kRotated);
  const c10::SymInt width = of_features ? o.projection->sym_size(0) : q.sym_size(3);
  TORCH_CHECK_VALUE(width == rope->layout().head_dim, kName, "the rope's head_dim must be ", width,
                    of_features ? ", the number of features" : "", ", got ",
                    rope->layout().head_dim);
}

void check_masks(const at::Tensor& q, const at::Tensor& k, const LinearAttendOptions& o) {
  if (o.padding.has_value()) {
    TORCH_CHECK_VALUE(o.padding->scalar_type() == at::kBool && o.padding->dim() == 2 &&
                          o.padding->sym_size(0) == k.sym_size(0) &&
                          o.padding->sym_size(1) == k.sym_size(2),
                      kName, "padding must be bool [", k.sym_size(0), ", ", k.sym_size(2),
                      "], got ", o.padding->scalar_type(), " ", o.padding->sym_sizes());
  }
  TORCH_CHECK_VALUE(!o.causal || q.sym_size(2) == k.sym_size(2), kName,
                    "causal attention needs as many queries as keys, got ", q.sym_size(2), " and ",
                    k.sym_size(2));
  if (o.cu_seqlens.has_value()) {
    TORCH_CHECK_VALUE(q.sym_size(0) == 1 && q.sym_size(2) == k.sym_size(2), kName,
                      "packed sequences need a batch of 1 and as many queries as keys, got ",
                      q.sym_sizes(), " and ", k.sym_sizes());
  }
}

void check_decay(const at::Tensor& q, const at::Tensor& k, const LinearAttendOptions& o) {
  if (!o.decay.has_value()) return;
  TORCH_CHECK_VALUE(o.decay->is_floating_point() && o.decay->dim() == 1 &&
                        o.decay->sym_size(0) == k.sym_size(1) && o.decay->device() == k.device(),
                    kName, "decay must be real numbers [", k.sym_size(1), "] on ", k.device(),
                    ", one per head of k, got ", o.decay->scalar_type(), " ", o.decay->sym_sizes(),
                    " on ", o.decay->device());
  TORCH_CHECK_VALUE(q.sym_size(2) == k.sym_size(2), kName,
                    "decay needs as many queries as keys, got ", q.sym_size(2), " and ",
                    k.sym_size(2));
}

}  // namespace

void check_linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const LinearAttendOptions& o) {
  for (const at::Tensor* x : {&q, &k, &v}) {
    TORCH_CHECK_VALUE(x->dim() == 4, kName,
                      "tensors must be [batch, heads, tokens, head_dim], got ", x->sym_sizes());
    TORCH_CHECK_VALUE(
        x->is_floating_point() && x->scalar_type() == q.scalar_type() && x->device() == q.device(),
        kName, "q, k and v must have one floating type and device, got ", q.scalar_type(), ", ",
        k.scalar_type(), " and ", v.scalar_type());
  }
  TORCH_CHECK_VALUE(q.sym_size(0) == k.sym_size(0) && q.sym_size(3) == k.sym_size(3), kName,
                    "q and k must have one batch and head_dim, got ", q.sym_sizes(), " and ",
                    k.sym_sizes());
  TORCH_CHECK_VALUE(v.sym_size(0) == k.sym_size(0) && v.sym_size(1) == k.sym_size(1) &&
                        v.sym_size(2) == k.sym_size(2),
                    kName, "k and v must have one batch, heads and tokens, got ", k.sym_sizes(),
                    " and ", v.sym_sizes());
  TORCH_CHECK_VALUE(k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0, kName,
                    "heads of k must divide those of q, got ", k.sym_size(1), " and ",
                    q.sym_size(1));
  TORCH_CHECK_VALUE(o.guard > 0.0, kName, "guard must be positive, got ", o.guard);
  check_projection(q, o);
  check_rope(q, o);
  check_masks(q, k, o);
  check_decay(q, k, o);
}

void check_state(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const RecurrentState& state, const LinearAttendOptions& o) {
  TORCH_CHECK_VALUE(o.causal, kName, "a state is for causal attention");
  TORCH_CHECK_VALUE(!o.cu_seqlens.has_value() && !o.key_positions.has_value(), kName,
                    "a state is for one sequence a row");
  if (!state.kv.defined()) return;
  const bool favor = o.feature_map == FeatureMap::kFavor && o.projection.has_value();
  const c10::SymInt features = favor ? o.projection->sym_size(0) : q.sym_size(3);
  const std::int64_t one = o.variant == LinearVariant::kCosine ? 1 : 0;
  const c10::SymInt width = o.variant == LinearVariant::kRotated ? 2 * features : features + one;
  const c10::SymInt kv[] = {k.sym_size(0), k.sym_size(1), features + one, v.sym_size(3)};
  const c10::SymInt ks[] = {k.sym_size(0), k.sym_size(1), width};
  TORCH_CHECK_VALUE(state.kv.sym_sizes() == c10::SymIntArrayRef(kv) &&
                        state.k.sym_sizes() == c10::SymIntArrayRef(ks),
                    kName, "the state has the shape of another attention: ", state.kv.sym_sizes(),
                    " and ", state.k.sym_sizes());
}

std::vector<std::int64_t> read_boundaries(const at::Tensor& cu_seqlens, std::int64_t tokens) {
  TORCH_CHECK_VALUE(cu_seqlens.dim() == 1 && cu_seqlens.numel() > 0, kName,
                    "cu_seqlens must be [sequences + 1], got ", cu_seqlens.sizes());
  const at::Tensor host = cu_seqlens.to(at::kCPU, at::kLong).contiguous();
  const auto* data = host.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> all(data, data + host.numel());
  bool increasing = all.front() == 0 && all.back() == tokens;
  for (std::size_t i = 1; i < all.size(); ++i) increasing = increasing && all[i - 1] <= all[i];
  TORCH_CHECK_VALUE(increasing, kName, "cu_seqlens must rise from 0 to the number of tokens, ",
                    tokens, ", got ", all);
  return all;
}

LinearVariant variant_of(std::string_view name) {
  for (const auto each : {LinearVariant::kNumerator, LinearVariant::kCosine,
                          LinearVariant::kRotated, LinearVariant::kBefore}) {
    if (name == name_of(each)) return each;
  }
  TORCH_CHECK_VALUE(false, kName, "variant must be numerator, cosine, rotated or before, got ",
                    std::string(name));
}

FeatureMap feature_map_of(std::string_view name) {
  for (const auto each : {FeatureMap::kElu, FeatureMap::kRelu, FeatureMap::kFavor}) {
    if (name == name_of(each)) return each;
  }
  TORCH_CHECK_VALUE(false, kName, "feature_map must be elu, relu or favor, got ",
                    std::string(name));
}

const char* name_of(LinearVariant variant) {
  switch (variant) {
    case LinearVariant::kNumerator:
      return "numerator";
    case LinearVariant::kCosine:
      return "cosine";
    case LinearVariant::kRotated:
      return "rotated";
    case LinearVariant::kBefore:
      break;
  }
  return "before";
}

const char* name_of(FeatureMap map) {
  switch (map) {
    case FeatureMap::kElu:
      return "elu";
    case FeatureMap::kRelu:
      return "relu";
    case FeatureMap::kFavor:
      break;
  }
  return "favor";
}

}  // namespace rotary::transformer
