// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/targets.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rope/kernel.h"
#include "rotary/cpu.h"
#include "support/message.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace rotary::internal {

bool has_armv86() noexcept {
#if defined(__aarch64__) && defined(__linux__)
  // By value: older headers lack the names.
  constexpr unsigned long kFirst = 1ul << 14 | 1ul << 23;  // HWCAP_FCMA, HWCAP_ASIMDFHM
  constexpr unsigned long kSecond = 1ul << 14;             // HWCAP2_BF16
  static const bool has =
      (getauxval(AT_HWCAP) & kFirst) == kFirst && (getauxval(AT_HWCAP2) & kSecond) != 0;
  return has;
#elif defined(__aarch64__) && defined(__APPLE__)
  static const bool has = [] {
    const auto has_feature = [](const char* name) {
      int value = 0;
      std::size_t size = sizeof(value);
      return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
    };
    return has_feature("hw.optional.arm.FEAT_FCMA") && has_feature("hw.optional.arm.FEAT_FHM") &&
           has_feature("hw.optional.arm.FEAT_BF16");
  }();
  return has;
#else
  return false;
#endif
}

}  // namespace rotary::internal

namespace rotary {
namespace {

/// The target of that name; the best for any other.
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
  // Once, before use_cpu_target() narrows what Highway reports: it asks for this list first.
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      list.emplace_back(hwy::TargetName(target));
    }
    return list;
  }();
  return names;
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
