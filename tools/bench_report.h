// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The output of `rotary bench`, as JSON and as text.
#pragma once

#include <string>
#include <vector>

#include "explain/terminal.h"
#include "tools/measure/measurement.h"

namespace rotary::cli {

/// {"machine": .., "version": .., "target": .., "rows": [..]}, one row per line. "tokens" is the
/// sum over the batch, "heads" the sum of q and k. "ns", "copy_ns" and "scale_ns" are medians of
/// the rotation, of memcpy and of a multiplication by a scalar, all to the row's destination.
/// "spread" is the interquartile range over the median, "ratio" is ns over copy_ns. "times_copy",
/// "times_scale", "times_half" and "times_ready" are medians of the ratios within each repetition;
/// null where they do not apply.
std::string bench_json(const std::vector<measure::Measurement>& rows);

/// A table per shape and number of threads, then the performance targets.
std::string bench_text(const std::vector<measure::Measurement>& rows,
                       const explain::Terminal& terminal);

}  // namespace rotary::cli
