// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/machine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "rotary/cpu.h"

namespace rotary::measure {
namespace {

/// The value of the first line "key : value"; empty without one.
std::string_view value_of(std::string_view cpuinfo, std::string_view key) {
  while (!cpuinfo.empty()) {
    const std::size_t end = std::min(cpuinfo.find('\n'), cpuinfo.size());
    const std::string_view line = cpuinfo.substr(0, end);
    cpuinfo.remove_prefix(std::min(end + 1, cpuinfo.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with(key)) continue;
    if (line.substr(key.size(), colon - key.size()).find_first_not_of(" \t") !=
        std::string_view::npos)
      continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string_view::npos ? std::string_view{} : line.substr(begin);
  }
  return {};
}

struct ArmPart {
  std::string_view implementer;
  std::string_view part;
  std::string_view name;
};

// Implementer and part number of the register MIDR_EL1, from the manuals of Arm and the vendors.
constexpr std::array<ArmPart, 14> kArmParts = {{{"0x41", "0xd08", "Cortex-A72"},
                                                {"0x41", "0xd0b", "Cortex-A76"},
                                                {"0x41", "0xd0c", "Neoverse-N1"},
                                                {"0x41", "0xd40", "Neoverse-V1"},
                                                {"0x41", "0xd41", "Cortex-A78"},
                                                {"0x41", "0xd49", "Neoverse-N2"},
                                                {"0x41", "0xd4f", "Neoverse-V2"},
                                                {"0x41", "0xd84", "Neoverse-V3"},
                                                {"0x41", "0xd8e", "Neoverse-N3"},
                                                {"0x46", "0x001", "Fujitsu A64FX"},
                                                {"0x48", "0xd01", "Kunpeng 920"},
                                                {"0x61", "0x022", "Apple M1"},
                                                {"0x61", "0x032", "Apple M2"},
                                                {"0xc0", "0xac3", "AmpereOne"}}};

std::string read_cpuinfo() {
  const std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr std::string_view kArchitecture =
#if defined(__x86_64__)
    "x86-64";
#elif defined(__aarch64__)
    "AArch64";
#else
    "unknown processor";
#endif

/// From the text of Linux's /proc/cpuinfo; empty where it does not say.
std::string processor_from(std::string_view cpuinfo) {
  const std::string_view model = value_of(cpuinfo, "model name");
  if (!model.empty()) return std::string(model);
  const std::string_view implementer = value_of(cpuinfo, "CPU implementer");
  const std::string_view number = value_of(cpuinfo, "CPU part");
  for (const ArmPart& part : kArmParts) {
    if (part.implementer == implementer && part.part == number) return std::string(part.name);
  }
  if (implementer.empty()) return {};
  return "AArch64 " + std::string(implementer) + "/" + std::string(number);
}

}  // namespace

std::string machine_name() {
  std::string processor = processor_from(read_cpuinfo());
  if (processor.empty()) processor = kArchitecture;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return processor + ", " + std::to_string(cores) + (cores == 1 ? " core, " : " cores, ") +
         std::string(cpu_target());
}

}  // namespace rotary::measure
