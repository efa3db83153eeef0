// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>
#include <torch/version.h>

namespace rotary::roformer {
namespace {

constexpr std::int64_t kKibi = 1024;

std::int64_t peak_of_process() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * kKibi;
}

}  // namespace

std::int64_t peak_memory(c10::Device device) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9
  if (!device.is_cpu()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    return stats.allocated_bytes[0].peak;
  }
#endif
  return peak_of_process();
}

void reset_peak_memory(c10::Device device) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9
  if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
#else
  (void)device;
#endif
}

}  // namespace rotary::roformer
