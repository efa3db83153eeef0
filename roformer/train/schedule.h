// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The learning rate over the steps of a run.
#pragma once

#include <cstdint>

namespace rotary::roformer {

///   kConstant  1 --------      kLinear  1 \            kCosine  1 -\         after the warm-up,
///                                          \                        \        a line from 0 to 1
///                                            \ final                  \- final
enum class ScheduleShape : std::uint8_t { kConstant, kLinear, kCosine };

struct ScheduleOptions {
  ScheduleShape shape = ScheduleShape::kLinear;
  std::int64_t warmup_steps = 0;
  /// Share of the learning rate at the last step, for kLinear and kCosine.
  double final_share = 0.0;
};

/// The share of the learning rate at step `step` of `steps`; the first step is 1.
double schedule_share(const ScheduleOptions& options, std::int64_t step, std::int64_t steps);

}  // namespace rotary::roformer
