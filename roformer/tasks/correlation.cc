// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/correlation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace rotary::roformer {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double pearson(std::span<const double> x, std::span<const double> y) {
  if (x.empty()) return 0.0;
  const double mean_x = mean_of(x);
  const double mean_y = mean_of(y);
  double xx = 0.0;
  double yy = 0.0;
  double xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x;
    const double dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (!(xx > 0.0 && yy > 0.0)) return 0.0;
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    // Ranks begin + 1 to end.
    const double shared = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = shared;
  }
  return ranks;
}

double spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(average_ranks(x), average_ranks(y));
}

double matthews(const std::vector<std::vector<std::int64_t>>& table) {
  // (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)): s examples, c of them correct,
  // p_k predicted as class k, t_k of class k.
  double s = 0.0;
  double c = 0.0;
  std::vector<double> p(table.size());
  std::vector<double> t(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t k = 0; k < table.size(); ++k) {
      const auto count = static_cast<double>(table[i][k]);
      s += count;
      if (i == k) c += count;
      t[i] += count;
      p[k] += count;
    }
  }
  const double pt = std::inner_product(p.begin(), p.end(), t.begin(), 0.0);
  const double pp = std::inner_product(p.begin(), p.end(), p.begin(), 0.0);
  const double tt = std::inner_product(t.begin(), t.end(), t.begin(), 0.0);
  const double scale = std::sqrt(s * s - pp) * std::sqrt(s * s - tt);
  return scale > 0.0 ? (c * s - pt) / scale : 0.0;
}

}  // namespace rotary::roformer
