// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/targets.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/rotate_armv86.h"
#include "engine/kernel.h"
#include "rotary/cpu.h"
#include "support/message.h"

#if ROTARY_CPU_ARMV86 && defined(__linux__)
#include <sys/auxv.h>
#elif ROTARY_CPU_ARMV86 && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace rotary::internal {

// What the compiler flags of rotate_armv86.cc allow (CMakeLists.txt). Not asked in that file, which
// only such a CPU can run.
#if ROTARY_CPU_ARMV86 && defined(__linux__)
bool has_armv86() noexcept {
  // Values, since older headers lack the names. Armv8.3: FPHP, ASIMDHP, ATOMICS, CRC32, ASIMDRDM,
  // JSCVT, FCMA, LRCPC; then ASIMDFHM and, in the second word, BF16.
  constexpr unsigned long kHwcap = 1ul << 9 | 1ul << 10 | 1ul << 8 | 1ul << 7 | 1ul << 12 |
                                   1ul << 13 | 1ul << 14 | 1ul << 15 | 1ul << 23;
  constexpr unsigned long kHwcap2 = 1ul << 14;
  static const bool kHas =
      (getauxval(AT_HWCAP) & kHwcap) == kHwcap && (getauxval(AT_HWCAP2) & kHwcap2) == kHwcap2;
  return kHas;
}
#elif ROTARY_CPU_ARMV86 && defined(__APPLE__)
bool has_armv86() noexcept {
  static const bool kHas = [] {
    const auto has_feature = [](const char* name) {
      int value = 0;
      std::size_t size = sizeof(value);
      return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
    };
    // Every Apple CPU with FEAT_BF16 has all of Armv8.6.
    return has_feature("hw.optional.arm.FEAT_FCMA") && has_feature("hw.optional.arm.FEAT_FHM") &&
           has_feature("hw.optional.arm.FEAT_BF16");
  }();
  return kHas;
}
#else
bool has_armv86() noexcept { return false; }
#endif

}  // namespace rotary::internal

namespace rotary {
namespace {

/// Selects the target of that name, or the best for any other name.
void choose(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t chosen = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) chosen = target;
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::string_view cpu_target() noexcept { return internal::target_in_use(); }

std::vector<std::string_view> cpu_targets() {
  // Computed once: use_cpu_target() calls this before it narrows what Highway reports.
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> list;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      list.emplace_back(hwy::TargetName(target));
    }
    return list;
  }();
  return kNames;
}

void use_cpu_target(std::string_view name) {
  const std::vector<std::string_view> known = cpu_targets();
  if (!name.empty()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      internal::reject("[use_cpu_target] this machine and build have no target '", name, "'");
    }
  }
  choose(name);
}

}  // namespace rotary
