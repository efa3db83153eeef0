// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Correlation of predictions with labels, from -1 to 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rotary::roformer {

/// Pearson's coefficient of two lists of equal length; 0 if one of them is constant or empty, for
/// which it is not defined.
double pearson(std::span<const double> x, std::span<const double> y);

/// Ranks from 1; equal values share the mean of their ranks. Values must not be NaN.
std::vector<double> average_ranks(std::span<const double> values);
/// Spearman's coefficient: Pearson's of the ranks.
double spearman(std::span<const double> x, std::span<const double> y);

/// Matthews' coefficient of a confusion matrix, [true class][predicted class], for any number of
/// classes (Gorodkin 2004, R_K). 0 if all labels or all predictions are of one class.
double matthews(const std::vector<std::vector<std::int64_t>>& table);

}  // namespace rotary::roformer
