// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The output of `rotary bench --orders`, as JSON and as text.
#pragma once

#include <string>
#include <vector>

#include "explain/terminal.h"
#include "tools/measure/order_measurement.h"

namespace rotary::cli {

/// {"machine": .., "version": .., "target": .., "orders": [..]}, one row per line: an order of a
/// call. "times_copy" and "times_best" are its time over that of the copy and of the best order,
/// "is_chosen" marks the order that the library takes, "is_best" the best.
std::string orders_json(const std::vector<measure::OrderMeasurement>& calls);

/// A table per shape and number of threads, then the calls whose order is not the best.
std::string orders_text(const std::vector<measure::OrderMeasurement>& calls,
                        const explain::Terminal& terminal);

}  // namespace rotary::cli
