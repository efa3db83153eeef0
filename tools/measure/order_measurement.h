// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Measurements of every write order: the rows of `rotary bench --orders`.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "rotary/write_order.h"
#include "tools/measure/interleaved_timing.h"
#include "tools/measure/shape.h"
#include "tools/measure/workload.h"

namespace rotary::measure {

struct OrderTiming {
  WriteOrder order{};
  Timing rotate{};
  double times_copy = 0.0;  // medians of the ratios within each repetition
  double times_best = 0.0;
};

/// All orders of one call, with ready tables.
struct OrderMeasurement {
  Shape shape{};
  DType dtype = DType::kFloat32;
  int threads = 1;
  Variant variant{};
  Timing copy{};  // as in Measurement
  std::vector<OrderTiming> orders{};
  std::size_t chosen = 0;  // index of the order that the library takes
  std::size_t best = 0;    // of the one with the shortest time

  /// Time of the library's order over that of the best, at least 1.
  double times_best() const { return orders[chosen].times_best; }
};

/// The orders that differ for such a call: blocks of up to its number of tokens, and
/// HeadOrder::kAddress only where a head has two halves.
std::vector<WriteOrder> orders_of(const Shape& shape, Pairing pairing);

/// The calls that are measured for a type: every pairing and placement.
std::vector<Variant> order_variants_of(DType dtype);

/// Times the copy and every order, interleaved.
OrderMeasurement measure_orders(const Workload& workload, const Variant& variant, int threads,
                                const Effort& effort,
                                const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
