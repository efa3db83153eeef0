// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/order_measurement.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace rotary::measure {

std::vector<WriteOrder> orders_of(const Shape& shape, Pairing pairing) {
  std::vector<WriteOrder> orders;
  for (const HeadOrder heads : {HeadOrder::kColumns, HeadOrder::kLines, HeadOrder::kAddress}) {
    if (heads == HeadOrder::kAddress && pairing == Pairing::kInterleaved) continue;
    for (const std::int64_t block : {1, 16, 64, 256}) {
      if (block == 1 || block <= shape.all_tokens()) orders.push_back({heads, block});
    }
  }
  return orders;
}

std::vector<Variant> order_variants_of(DType dtype) {
  std::vector<Variant> variants;
  const Tables tables = dtype == DType::kFloat64 ? Tables::kOnTheFly : Tables::kReady;
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    for (const Placement placement : kPlacements) {
      variants.push_back({pairing, placement, tables});
    }
  }
  return variants;
}

OrderMeasurement measure_orders(const Workload& workload, const Variant& variant, int threads,
                                const Effort& effort, const std::function<void(double)>& progress) {
  std::vector<WriteOrder> orders = orders_of(workload.shape(), variant.pairing);
  const WriteOrder chosen = RotateCall(workload, variant, threads).order();
  auto found = std::find(orders.begin(), orders.end(), chosen);
  if (found == orders.end()) found = orders.insert(orders.end(), chosen);
  OrderMeasurement result{.shape = workload.shape(),
                          .dtype = workload.dtype(),
                          .threads = threads,
                          .variant = variant,
                          .chosen = static_cast<std::size_t>(std::distance(orders.begin(), found))};

  const bool in_place = variant.placement == Placement::kInPlace;
  const Placement copied = in_place ? Placement::kOutOfPlace : variant.placement;
  std::vector<std::function<void()>> calls;
  calls.emplace_back([&workload, copied, threads] { workload.copy(copied, threads); });
  for (const WriteOrder& order : orders) {
    calls.emplace_back(RotateCall(workload, variant, threads, order));
  }
  const InterleavedTimings timings = time_interleaved(calls, effort, progress);

  result.copy = timings.timing(0);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    result.orders.push_back({.order = orders[i],
                             .rotate = timings.timing(i + 1),
                             .times_copy = timings.ratio(i + 1, 0)});
    if (result.orders[i].rotate.ns < result.orders[result.best].rotate.ns) result.best = i;
  }
  for (std::size_t i = 0; i < orders.size(); ++i) {
    result.orders[i].times_best = std::max(1.0, timings.ratio(i + 1, result.best + 1));
  }
  return result;
}

}  // namespace rotary::measure
