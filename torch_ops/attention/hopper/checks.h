// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the operators' implementations share.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <optional>

#include "attention/hopper/hopper.h"

namespace rotary::torch {

/// Of kKeepSteps weights; all of them where the probability is less than half a step.
inline int keep_of(double dropout) {
  return hopper::kKeepSteps - static_cast<int>(std::lround(dropout * hopper::kKeepSteps));
}
inline bool drops(double dropout) { return keep_of(dropout) < hopper::kKeepSteps; }
/// Of what is left the mean is what it was.
inline double kept_scale_of(double dropout) {
  return static_cast<double>(hopper::kKeepSteps) / keep_of(dropout);
}

inline void check_seed(const at::Tensor& seed) {
  TORCH_CHECK_VALUE(seed.numel() == 1 && seed.scalar_type() == at::kLong,
                    "[fused_attention] seed must be one number of int64, got ", seed.sizes(),
                    " of ", seed.scalar_type());
}

inline void check_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const std::optional<at::Tensor>& seed, double dropout) {
  TORCH_CHECK_VALUE(q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes() &&
                        q.size(0) == k.size(0) && q.size(1) == k.size(1) &&
                        q.size(3) == k.size(3) && k.size(2) > 0,
                    "[fused_attention] q, k and v must be [batch, heads, tokens, head_dim], got ",
                    q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  TORCH_CHECK_VALUE(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type() &&
                        q.device() == k.device() && q.device() == v.device(),
                    "[fused_attention] q, k and v must be of one type, on one device");
  TORCH_CHECK_VALUE(dropout >= 0.0 && keep_of(dropout) > 0,
                    "[fused_attention] dropout must be at least 0 and below 1, got ", dropout);
  if (!drops(dropout)) return;
  TORCH_CHECK_VALUE(seed.has_value() && seed->device() == q.device(),
                    "[fused_attention] dropout needs a seed, beside q");
  check_seed(*seed);
}

/// [batch, heads, tokens, head_dim] as x, a token's heads side by side.
inline at::Tensor heads_like(const at::Tensor& x) {
  return at::empty_symint({x.sym_size(0), x.sym_size(2), x.sym_size(1), x.sym_size(3)}, x.options())
      .transpose(1, 2);
}

}  // namespace rotary::torch
