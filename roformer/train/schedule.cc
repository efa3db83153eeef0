// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rotary::roformer {

double schedule_share(const ScheduleOptions& options, std::int64_t step, std::int64_t steps) {
  if (step < options.warmup_steps) {
    return static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  }
  if (options.shape == ScheduleShape::kConstant) return 1.0;
  const auto falling = static_cast<double>(std::max<std::int64_t>(steps - options.warmup_steps, 1));
  const double done =
      std::clamp(static_cast<double>(step - options.warmup_steps) / falling, 0.0, 1.0);
  const double share = options.shape == ScheduleShape::kLinear
                           ? 1.0 - done
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return options.final_share + (1.0 - options.final_share) * share;
}

}  // namespace rotary::roformer
