// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/layers/dropout_mask.h"

#include <ATen/Parallel.h>

namespace rotary::transformer {

void fill_dropout_mask(float* mask, std::int64_t size, std::uint64_t seed, const Dropout& rule) {
  constexpr std::int64_t kOutputsOfTask = 1024;
  const std::int64_t outputs = (size + kPhiloxValues - 1) / kPhiloxValues;
  at::parallel_for(0, outputs, kOutputsOfTask, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t n = from; n < to; ++n) {
      const Philox4x32 random = philox4x32(seed, static_cast<std::uint64_t>(n));
      for (int i = 0; i < kPhiloxValues && n * kPhiloxValues + i < size; ++i) {
        mask[n * kPhiloxValues + i] = random.value(i) >= rule.threshold ? rule.scale : 0.0F;
      }
    }
  });
}

}  // namespace rotary::transformer
