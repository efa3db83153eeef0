// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Encodings as functions and operators. Formulas and papers: rotary/transformer/encodings.h.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <cmath>
#include <utility>

#include "pytorch/learned.h"
#include "rotary/transformer/encodings.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_positions(std::string_view function, const ScorePositions& positions) {
  const auto check = [&](std::string_view name, const OptionalTensor& x,
                         const c10::SymInt& tokens) {
    if (!x) return;
    TORCH_CHECK_VALUE((x->dim() == 1 || x->dim() == 2) && x->sym_size(-1) == tokens, "[", function,
                      "] ", name, " must be [", tokens, " tokens] or [batch, tokens], got ",
                      x->sym_sizes());
  };
  check("query_positions", positions.query_positions, positions.queries);
  check("key_positions", positions.key_positions, positions.keys);
}

at::Tensor range(const c10::SymInt& first, const c10::SymInt& tokens, const at::Tensor& like) {
  return at::arange(first, first + tokens, like.options().dtype(at::kLong));
}

/// values(i - j) for all queries i and keys j: [heads, queries, keys], or [batch, heads, queries,
/// keys]. `values` maps distances [..] to [heads, ..].
template <typename Values>
at::Tensor over_distances(std::string_view function, const ScorePositions& positions,
                          const at::Tensor& like, const Values& values) {
  check_positions(function, positions);
  if (positions.query_positions || positions.key_positions) {
    const at::Tensor queries = positions.query_positions
                                   ? *positions.query_positions
                                   : range(positions.first, positions.queries, like);
    const at::Tensor keys =
        positions.key_positions ? *positions.key_positions : range(0, positions.keys, like);
    const at::Tensor all = values(queries.unsqueeze(-1) - keys.unsqueeze(-2));
    return all.dim() == 4 ? all.transpose(0, 1) : all;
  }
  // Toeplitz: there are queries + keys - 1 distances, and each row of the result is a window of
  // their values, shifted by one element from that of the next row.
  const c10::SymInt farthest = positions.first + positions.queries - 1;
  const at::Tensor each = values(farthest - range(0, positions.queries + positions.keys - 1, like));
  if (positions.queries == 1) return each.unsqueeze(1);
  return each.unfold(-1, positions.keys.guard_int(__FILE__, __LINE__), 1).flip(-2);
}

/// x [heads] reshaped to broadcast over distances [heads, ..].
at::Tensor by_head(const at::Tensor& x, const at::Tensor& distances) {
  std::vector<c10::SymInt> shape(static_cast<std::size_t>(distances.dim()) + 1, 1);
  shape[0] = x.sym_size(0);
  return x.view_symint(shape);
}

void check_integral(std::string_view function, const at::Tensor& distances) {
  TORCH_CHECK_VALUE(!distances.is_floating_point(), "[", function,
                    "] positions must be integers, got ", distances.scalar_type());
}

void check_by_head(std::string_view function, std::string_view name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 1 && x.is_floating_point(), "[", function, "] ", name,
                    " must be [heads] of a floating-point type, got ", x.sym_sizes(), " of ",
                    x.scalar_type());
}

void check_table(std::string_view function, std::string_view name, const at::Tensor& x,
                 std::int64_t rows) {
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(0) >= rows, "[", function, "] ", name,
                    " must be a matrix of at least ", rows, " rows, got ", x.sym_sizes());
}

/// Rows of table [rows, heads] as [heads, ..], contiguous: kernels of attention take no bias whose
/// keys are strided.
at::Tensor look_up(const at::Tensor& table, const at::Tensor& rows) {
  return at::embedding(table, rows).movedim(-1, 0).contiguous();
}

}  // namespace

at::Tensor token_positions(const torch::TokenPositions& positions, const c10::SymInt& tokens,
                           const at::Tensor& like) {
  at::Tensor x = torch::position_matrix(positions, tokens, like.options());
  TORCH_CHECK_VALUE(x.sym_size(0) == 1, "[token_positions] positions must have one axis, got ",
                    x.sym_size(0));
  TORCH_CHECK_VALUE(x.sym_size(2) == tokens, "[token_positions] positions must be those of ",
                    tokens, " tokens, got ", x.sym_size(2));
  x = x.select(0, 0);
  if (x.sym_size(0) == 1) x = x.squeeze(0);
  const bool real = positions.positions && positions.positions->is_floating_point();
  return real ? x : x.to(at::kLong);
}

at::Tensor add_sinusoids(const at::Tensor& x, const torch::TokenPositions& positions,
                         double theta) {
  TORCH_CHECK_VALUE(
      x.dim() >= 2 && x.is_floating_point(),
      "[add_sinusoids] x must be [.., tokens, model_dim] of a floating-point type, got ",
      x.sym_sizes(), " of ", x.scalar_type());
  const at::Tensor p = token_positions(positions, x.sym_size(-2), x).to(at::kDouble);
  const std::int64_t dim = x.sym_size(-1).guard_int(__FILE__, __LINE__);
  const at::Tensor exponent = at::arange(0, dim, 2, p.options()) / static_cast<double>(-dim);
  const at::Tensor phase = p.unsqueeze(-1) * at::pow(at::Scalar(theta), exponent);
  const at::Tensor both = at::stack({phase.sin(), phase.cos()}, -1).flatten(-2);
  return x + both.narrow(-1, 0, dim).to(x.scalar_type());
}

at::Tensor t5_bias(const at::Tensor& weight, const ScorePositions& positions, bool causal,
                   std::int64_t max_distance) {
  check_table("t5_bias", "weight", weight, causal ? 2 : 4);
  const std::int64_t all = weight.sym_size(0).guard_int(__FILE__, __LINE__);
  const std::int64_t buckets = causal ? all : all / 2;
  const std::int64_t exact = buckets / 2;
  TORCH_CHECK_VALUE(max_distance > exact, "[t5_bias] max_distance must be more than ", exact,
                    " for ", all, " buckets, got ", max_distance);
  return over_distances("t5_bias", positions, weight, [&](const at::Tensor& i_minus_j) {
    check_integral("t5_bias", i_minus_j);
    const at::Tensor n = causal ? i_minus_j.clamp_min(0) : i_minus_j.abs();
    // In float32, as in the published code, so that bucket edges are those that models were trained
    // on.
    const double step = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    const at::Tensor log_bucket =
        (n.clamp_min(1).to(at::kFloat) / exact).log() / step * (buckets - exact);
    const at::Tensor far = (log_bucket.to(at::kLong) + exact).clamp_max(buckets - 1);
    at::Tensor bucket = at::where(n < exact, n, far);
    if (!causal) bucket = bucket + (i_minus_j < 0).to(at::kLong) * buckets;
    return look_up(weight, bucket);
  });
}

at::Tensor alibi_slopes(std::int64_t heads, const at::Tensor& like) {
  TORCH_CHECK_VALUE(heads > 0, "[alibi_slopes] heads must be positive, got ", heads);
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto ladder = [&like](std::int64_t n, std::int64_t count, std::int64_t step) {
    const at::Tensor h = at::arange(1, 1 + count * step, step, like.options().dtype(at::kDouble));
    return (h * (-8.0 / static_cast<double>(n))).exp2();
  };
  at::Tensor slopes = ladder(power, power, 1);
  if (power < heads) slopes = at::cat({slopes, ladder(2 * power, heads - power, 2)});
  return slopes.to(at::kFloat);
}

at::Tensor alibi_bias(const at::Tensor& slopes, const ScorePositions& positions) {
  check_by_head("alibi_bias", "slopes", slopes);
  return over_distances("alibi_bias", positions, slopes, [&](const at::Tensor& i_minus_j) {
    const at::Tensor distance = i_minus_j.abs();
    return -by_head(slopes, distance) * distance.to(slopes.scalar_type());
  });
}

at::Tensor kerple_bias(const at::Tensor& r1, const at::Tensor& r2, const ScorePositions& positions,
                       std::string_view kind) {
  check_by_head("kerple_bias", "r1", r1);
  check_by_head("kerple_bias", "r2", r2);
  TORCH_CHECK_VALUE(kind == "log" || kind == "power",
                    "[kerple_bias] kind must be log or power, got ", kind);
  return over_distances("kerple_bias", positions, r1, [&](const at::Tensor& i_minus_j) {
    const at::Tensor distance = i_minus_j.abs().to(r1.scalar_type());
    const at::Tensor a = by_head(r1, distance);
    const at::Tensor b = by_head(r2, distance);
    return kind == "log" ? -a * at::log1p(b * distance) : -a * at::pow(distance, b);
  });
}

at::Tensor distance_bias(const at::Tensor& table, const ScorePositions& positions, bool causal) {
  check_table("distance_bias", "table", table, 1);
  const std::int64_t rows = table.sym_size(0).guard_int(__FILE__, __LINE__);
  TORCH_CHECK_VALUE(causal || rows % 2 == 1,
                    "[distance_bias] table must have an odd number of rows, got ", rows);
  const std::int64_t zero = causal ? 0 : rows / 2;
  return over_distances("distance_bias", positions, table, [&](const at::Tensor& i_minus_j) {
    check_integral("distance_bias", i_minus_j);
    return look_up(table, (i_minus_j.to(at::kLong) + zero).clamp(0, rows - 1));
  });
}

namespace {

at::Tensor token_positions_op(const at::Tensor& like, c10::SymInt tokens,
                              const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                              c10::SymInt first) {
  return token_positions(
      {.positions = positions, .cu_seqlens = cu_seqlens, .first = std::move(first)}, tokens, like);
}

at::Tensor add_sinusoids_op(const at::Tensor& x, const OptionalTensor& positions, c10::SymInt first,
                            double theta) {
  return add_sinusoids(x, {.positions = positions, .first = std::move(first)}, theta);
}

at::Tensor t5_bias_op(const at::Tensor& weight, c10::SymInt queries, c10::SymInt keys,
                      c10::SymInt first, const OptionalTensor& query_positions,
                      const OptionalTensor& key_positions, bool causal, std::int64_t max_distance) {
  return t5_bias(
      weight,
      {std::move(queries), std::move(keys), std::move(first), query_positions, key_positions},
      causal, max_distance);
}

at::Tensor alibi_slopes_op(const at::Tensor& like, std::int64_t heads) {
  return alibi_slopes(heads, like);
}

at::Tensor alibi_bias_op(const at::Tensor& slopes, c10::SymInt queries, c10::SymInt keys,
                         c10::SymInt first, const OptionalTensor& query_positions,
                         const OptionalTensor& key_positions) {
  return alibi_bias(slopes, {std::move(queries), std::move(keys), std::move(first), query_positions,
                             key_positions});
}

at::Tensor kerple_bias_op(const at::Tensor& r1, const at::Tensor& r2, std::string_view kind,
                          c10::SymInt queries, c10::SymInt keys, c10::SymInt first,
                          const OptionalTensor& query_positions,
                          const OptionalTensor& key_positions) {
  return kerple_bias(
      r1, r2,
      {std::move(queries), std::move(keys), std::move(first), query_positions, key_positions},
      kind);
}

at::Tensor distance_bias_op(const at::Tensor& table, c10::SymInt queries, c10::SymInt keys,
                            c10::SymInt first, const OptionalTensor& query_positions,
                            const OptionalTensor& key_positions, bool causal) {
  return distance_bias(
      table,
      {std::move(queries), std::move(keys), std::move(first), query_positions, key_positions},
      causal);
}

void implement_encodings(::torch::Library& m) {
  m.impl("token_positions", token_positions_op);
  m.impl("add_sinusoids", add_sinusoids_op);
  m.impl("t5_bias", t5_bias_op);
  m.impl("alibi_slopes", alibi_slopes_op);
  m.impl("alibi_bias", alibi_bias_op);
  m.impl("kerple_bias", kerple_bias_op);
  m.impl("distance_bias", distance_bias_op);
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const std::string& schema) {
    m.def((schema + " -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
  };
  const std::string score_positions =
      "SymInt queries, SymInt keys, SymInt first=0, Tensor? query_positions=None, "
      "Tensor? key_positions=None";
  add("token_positions(Tensor like, SymInt tokens, Tensor? positions=None, "
      "Tensor? cu_seqlens=None, SymInt first=0)");
  add("add_sinusoids(Tensor x, Tensor? positions=None, SymInt first=0, float theta=10000.0)");
  add("t5_bias(Tensor weight, " + score_positions +
      ", *, bool causal=False, int max_distance=128)");
  add("alibi_slopes(Tensor like, int heads)");
  add("alibi_bias(Tensor slopes, " + score_positions + ")");
  add("kerple_bias(Tensor r1, Tensor r2, str kind, " + score_positions + ")");
  add("distance_bias(Tensor table, " + score_positions + ", *, bool causal=False)");
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  rotary::transformer::implement_encodings(m);
}
TORCH_LIBRARY_IMPL(rotary, FuncTorchBatchedDecomposition, m) {
  rotary::transformer::implement_encodings(m);
}
