// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What `rotary bench` prints.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/rows.h"
#include "tools/terminal.h"

namespace rotary::cli {

/// {"machine": .., "version": .., "target": .., "rows": [..]}. "tokens" counts those of all batch
/// rows, "heads" those of q and k. "ns" is the rotation, "copy_ns" a memcpy, "scale_ns" a
/// multiplication by a number to where the row writes; medians. "spread" is the distance of the
/// quartiles over the median, "ratio" is ns over copy_ns. "times_copy" and its like are medians of
/// ratios within a repetition; null where there is nothing to compare with. A row is a line, so
/// that files that are kept can be compared.
std::string bench_json(const std::vector<measure::Row>& rows);

/// A table for each shape and number of threads, then the targets.
std::string bench_text(const std::vector<measure::Row>& rows, const Terminal& terminal);

}  // namespace rotary::cli
