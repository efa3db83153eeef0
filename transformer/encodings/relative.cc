// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Relative vectors of keys and values (Shaw et al. 2018) and Transformer-XL's scores, as functions
// and operators. Vectors belong to the queries + keys - 1 distances between tokens, never to each
// pair of tokens: products by distance are shifted into scores by pair, row by row.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rotary/transformer/encodings.h"

namespace rotary::transformer {
namespace {

/// Distances j - i between queries i, from `first` on, and keys j, from 0 on, in ascending order.
struct Distances {
  Distances(std::int64_t num_queries, std::int64_t num_keys, std::int64_t first)
      : queries(num_queries), keys(num_keys), lowest(1 - num_queries - first) {}
  std::int64_t count() const { return queries + keys - 1; }
  /// Of products by distance: those beyond count() belong to no pair of tokens. Products of
  /// matrices whose rows are not multiples of 16 bytes take PyTorch's slow kernels on CUDA.
  std::int64_t columns() const { return queries <= 1 ? count() : (count() + 7) / 8 * 8; }
  std::int64_t highest() const { return lowest + count() - 1; }

  std::int64_t queries;
  std::int64_t keys;
  std::int64_t lowest;
};

std::int64_t int_of(const c10::SymInt& x) { return x.guard_int(__FILE__, __LINE__); }

/// [.., queries, columns] to [.., queries, keys]: y[i, j] = x[i, j - i + queries - 1], which is a
/// view of the flat rows with one element less each.
at::Tensor shift_to_keys(const at::Tensor& x, const Distances& d) {
  if (d.queries <= 1) return x;
  const std::int64_t width = d.columns() - 1;
  return x.flatten(-2)
      .narrow(-1, d.queries - 1, d.queries * width)
      .unflatten(-1, {d.queries, width})
      .narrow(-1, 0, d.keys);
}

/// The transpose: [.., queries, keys] to [.., queries, columns], 0 for distances without a key.
at::Tensor shift_to_distances(const at::Tensor& x, const Distances& d) {
  if (d.queries <= 1) return x;
  const at::Tensor rows = at::constant_pad_nd(x, {0, d.columns() - 1 - d.keys});
  return at::constant_pad_nd(rows.flatten(-2), {d.queries - 1, 1})
      .unflatten(-1, {d.queries, d.columns()});
}

void check_vectors(std::string_view function, const at::Tensor& table,
                   const c10::SymInt& head_dim) {
  TORCH_CHECK_VALUE(table.dim() == 2 && table.sym_size(1) == head_dim &&
                        int_of(table.sym_size(0)) % 2 == 1 && table.is_floating_point(),
                    "[", function, "] table must be [2 max_distance + 1, head_dim ", head_dim,
                    "], got ", table.sym_sizes(), " of ", table.scalar_type());
}

/// The vector of each distance, then zeros: [columns, head_dim]. Repeated by expansion, whose
/// gradient is a sum in a fixed order.
at::Tensor vectors_of(const at::Tensor& table, const Distances& d) {
  const std::int64_t farthest = int_of(table.sym_size(0)) / 2;
  const auto repeated = [&](std::int64_t row, std::int64_t times) {
    return table.narrow(0, row, 1).expand({times, table.size(1)});
  };
  const std::int64_t below = std::clamp<std::int64_t>(-farthest - d.lowest, 0, d.count());
  const std::int64_t above = std::clamp<std::int64_t>(d.highest() - farthest, 0, d.count());
  std::vector<at::Tensor> parts;
  if (below > 0) parts.push_back(repeated(0, below));
  const std::int64_t between = d.count() - below - above;
  if (between > 0) parts.push_back(table.narrow(0, d.lowest + below + farthest, between));
  if (above > 0) parts.push_back(repeated(2 * farthest, above));
  const std::int64_t rest = d.columns() - d.count();
  if (rest > 0) parts.push_back(table.new_zeros({rest, table.size(1)}));
  return parts.size() == 1 ? parts[0] : at::cat(parts, 0);
}

void check_heads_first(std::string_view function, std::string_view name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 4 && x.is_floating_point(), "[", function, "] ", name,
                    " must have four dimensions of a floating-point type, got ", x.sym_sizes(),
                    " of ", x.scalar_type());
}

/// sum_c bias[h, c] k[b, h, j, c]: [batch, heads, 1, keys]. k may have fewer heads.
at::Tensor key_scores(const at::Tensor& bias, const at::Tensor& k) {
  const at::Tensor grouped = bias.unflatten(0, {k.size(1), -1});  // [kv_heads, group, head_dim]
  return at::matmul(grouped, k.transpose(-2, -1)).flatten(1, 2).unsqueeze(2);
}

}  // namespace

at::Tensor shaw_bias(const at::Tensor& q, const at::Tensor& table, const c10::SymInt& keys,
                     const c10::SymInt& first) {
  check_heads_first("shaw_bias", "q", q);
  check_vectors("shaw_bias", table, q.sym_size(3));
  const Distances d(int_of(q.sym_size(2)), int_of(keys), int_of(first));
  if (d.queries == 0 || d.keys == 0) return q.new_zeros({q.size(0), q.size(1), d.queries, d.keys});
  const at::Tensor vectors = vectors_of(table.to(q.scalar_type()), d);
  return shift_to_keys(at::matmul(q, vectors.t()), d);
}

at::Tensor shaw_outputs(const at::Tensor& weights, const at::Tensor& table,
                        const c10::SymInt& first) {
  check_heads_first("shaw_outputs", "weights", weights);
  check_vectors("shaw_outputs", table, table.dim() == 2 ? table.sym_size(1) : c10::SymInt(0));
  const Distances d(int_of(weights.sym_size(2)), int_of(weights.sym_size(3)), int_of(first));
  if (d.queries == 0 || d.keys == 0) {
    return weights.new_zeros({weights.size(0), weights.size(1), d.queries, table.size(1)});
  }
  return at::matmul(shift_to_distances(weights, d), vectors_of(table.to(weights.scalar_type()), d));
}

at::Tensor transformer_xl_bias(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weight,
                               const at::Tensor& u, const at::Tensor& v, const c10::SymInt& first) {
  check_heads_first("transformer_xl_bias", "q", q);
  check_heads_first("transformer_xl_bias", "k", k);
  const std::int64_t heads = int_of(q.sym_size(1));
  const std::int64_t head_dim = int_of(q.sym_size(3));
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.sym_size(0) == heads * head_dim,
                    "[transformer_xl_bias] weight must be [", heads * head_dim,
                    ", model_dim], got ", weight.sym_sizes());
  for (const at::Tensor* bias : {&u, &v}) {
    TORCH_CHECK_VALUE(bias->dim() == 2 && bias->size(0) == heads && bias->size(1) == head_dim,
                      "[transformer_xl_bias] u and v must be [", heads, " heads, ", head_dim,
                      "], got ", bias->sym_sizes());
  }
  const Distances d(int_of(q.sym_size(2)), int_of(k.sym_size(2)), int_of(first));
  if (d.queries == 0 || d.keys == 0) return q.new_zeros({q.size(0), heads, d.queries, d.keys});
  // The paper's R_(i-j), from the largest i - j on.
  const at::Tensor i_minus_j =
      at::arange(-d.lowest, -d.lowest - d.columns(), -1, weight.options().dtype(at::kLong));
  const at::Tensor sinusoids = add_sinusoids(
      at::zeros({d.columns(), weight.size(1)}, weight.options()), {.positions = i_minus_j});
  const at::Tensor projected = at::matmul(sinusoids, weight.t())
                                   .unflatten(-1, {heads, head_dim})
                                   .transpose(0, 1)
                                   .to(q.scalar_type());  // [heads, columns, head_dim]
  const at::Tensor queries = q + v.to(q.scalar_type()).unsqueeze(1);
  return shift_to_keys(at::matmul(queries, projected.transpose(-2, -1)), d) +
         key_scores(u.to(k.scalar_type()), k);
}

namespace {

at::Tensor shaw_bias_op(const at::Tensor& q, const at::Tensor& table, c10::SymInt keys,
                        c10::SymInt first) {
  return shaw_bias(q, table, keys, first);
}

at::Tensor shaw_outputs_op(const at::Tensor& weights, const at::Tensor& table, c10::SymInt first) {
  return shaw_outputs(weights, table, first);
}

at::Tensor transformer_xl_bias_op(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& weight, const at::Tensor& u,
                                  const at::Tensor& v, c10::SymInt first) {
  return transformer_xl_bias(q, k, weight, u, v, first);
}

void implement_relative(::torch::Library& m) {
  m.impl("shaw_bias", shaw_bias_op);
  m.impl("shaw_outputs", shaw_outputs_op);
  m.impl("transformer_xl_bias", transformer_xl_bias_op);
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("shaw_bias(Tensor q, Tensor table, SymInt keys, SymInt first=0) -> Tensor");
  add("shaw_outputs(Tensor weights, Tensor table, SymInt first=0) -> Tensor");
  add("transformer_xl_bias(Tensor q, Tensor k, Tensor weight, Tensor u, Tensor v, "
      "SymInt first=0) -> Tensor");
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  rotary::transformer::implement_relative(m);
}
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  rotary::transformer::implement_relative(m);
}
