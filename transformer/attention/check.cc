// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <c10/util/Exception.h>

#include "transformer/attention/select_kernel.h"

namespace rotary::transformer {
namespace {

void check_heads(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                 const at::Tensor& v) {
  TORCH_CHECK_VALUE(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "[", function,
                    "] q, k and v must be [batch, heads, tokens, head_dim], got ", q.dim(), ", ",
                    k.dim(), " and ", v.dim(), " dimensions");
  TORCH_CHECK_VALUE(q.sym_size(0) == k.sym_size(0) && k.sym_size(0) == v.sym_size(0), "[", function,
                    "] q, k and v must share their batch, got ", q.sym_size(0), ", ", k.sym_size(0),
                    " and ", v.sym_size(0));
  TORCH_CHECK_VALUE(k.sym_size(1) == v.sym_size(1) && k.sym_size(2) == v.sym_size(2), "[", function,
                    "] k and v must share heads and tokens, got ", k.sym_sizes(), " and ",
                    v.sym_sizes());
  TORCH_CHECK_VALUE(k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0, "[", function,
                    "] heads of k must divide those of q, got ", k.sym_size(1), " and ",
                    q.sym_size(1));
  TORCH_CHECK_VALUE(q.sym_size(3) == k.sym_size(3), "[", function,
                    "] q and k must share head_dim, got ", q.sym_size(3), " and ", k.sym_size(3));
}

void check_boundaries(std::string_view function, std::string_view name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 1 && x.sym_size(0) > 1 &&
                        (x.scalar_type() == at::kInt || x.scalar_type() == at::kLong),
                    "[", function, "] ", name, " must be [sequences + 1] of int32 or int64, got ",
                    x.sym_sizes(), " of ", x.scalar_type());
}

void check_packed(std::string_view function, const AttendOptions& options) {
  if (!options.cu_seqlens) {
    TORCH_CHECK_VALUE(!options.cu_seqlens_k, "[", function, "] cu_seqlens_k needs cu_seqlens");
    return;
  }
  check_boundaries(function, "cu_seqlens", *options.cu_seqlens);
  TORCH_CHECK_VALUE(options.first == 0, "[", function,
                    "] first must be 0 for packed sequences, got ", options.first);
  if (!options.cu_seqlens_k) return;
  check_boundaries(function, "cu_seqlens_k", *options.cu_seqlens_k);
  TORCH_CHECK_VALUE(options.cu_seqlens->sym_size(0) == options.cu_seqlens_k->sym_size(0), "[",
                    function, "] cu_seqlens and cu_seqlens_k must be as long as each other, got ",
                    options.cu_seqlens->sym_size(0), " and ", options.cu_seqlens_k->sym_size(0));
}

void check_bias(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                const at::Tensor& bias) {
  const std::array<c10::SymInt, 4> whole = {q.sym_size(0), q.sym_size(1), q.sym_size(2),
                                            k.sym_size(2)};
  bool fits = bias.dim() <= 4 && bias.dim() >= 2 && bias.is_floating_point();
  for (std::int64_t i = 1; fits && i <= bias.dim(); ++i) {
    const c10::SymInt size = bias.sym_size(-i);
    fits = size == 1 || size == whole[static_cast<std::size_t>(4 - i)];
  }
  TORCH_CHECK_VALUE(fits, "[", function, "] bias must broadcast to [batch ", whole[0], ", heads ",
                    whole[1], ", queries ", whole[2], ", keys ", whole[3], "], got ",
                    bias.sym_sizes(), " of ", bias.scalar_type());
}

void check_value_vectors(std::string_view function, const at::Tensor& v,
                         const AttendOptions& options) {
  const at::Tensor& x = *options.value_vectors;
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(0) % 2 == 1 && x.sym_size(1) == v.sym_size(3), "[",
                    function, "] value_vectors must be [2 max_distance + 1, ", v.sym_size(3),
                    "], got ", x.sym_sizes());
  TORCH_CHECK_VALUE(!options.cu_seqlens_k, "[", function,
                    "] value_vectors support no cu_seqlens_k");
}

}  // namespace

void check_attend(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, const AttendOptions& options) {
  check_heads(function, q, k, v);
  TORCH_CHECK_VALUE(q.scalar_type() == k.scalar_type() && k.scalar_type() == v.scalar_type(), "[",
                    function, "] q, k and v must have one type, got ", q.scalar_type(), ", ",
                    k.scalar_type(), " and ", v.scalar_type());
  TORCH_CHECK_VALUE(options.first >= 0, "[", function, "] first must not be negative, got ",
                    options.first);
  if (options.window) {
    TORCH_CHECK_VALUE(*options.window >= 1, "[", function, "] window must be positive, got ",
                      *options.window);
  }
  TORCH_CHECK_VALUE(options.dropout >= 0.0 && options.dropout < 1.0, "[", function,
                    "] dropout must be at least 0 and below 1, got ", options.dropout);
  if (options.padding) {
    const at::Tensor& x = *options.padding;
    TORCH_CHECK_VALUE(x.dim() == 2 && x.scalar_type() == at::kBool &&
                          (x.sym_size(0) == q.sym_size(0) || x.sym_size(0) == 1) &&
                          x.sym_size(1) == k.sym_size(2),
                      "[", function, "] padding must be [batch ", q.sym_size(0), ", keys ",
                      k.sym_size(2), "] of bool, got ", x.sym_sizes(), " of ", x.scalar_type());
  }
  check_packed(function, options);
  if (options.bias) check_bias(function, q, k, *options.bias);
  if (options.value_vectors) check_value_vectors(function, v, options);
}

}  // namespace rotary::transformer
