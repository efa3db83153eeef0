// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/targets.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>

#include "rope/kernel.h"
#include "rotary/cpu.h"
#include "support/message.h"

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
