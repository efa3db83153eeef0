// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/machine.h"

#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "rotary_commit.h"  // written by the build

namespace rotary::roformer::lab {
namespace {

/// The value of the first line "key : value"; empty if there is none.
std::string value_in(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::string gpu_name(c10::Device device) {
  // The driver lists the GPUs by their PCI addresses, as CUDA orders them with
  // CUDA_DEVICE_ORDER=PCI_BUS_ID; machines with several kinds are rare.
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::string name = value_in(gpu.path() / "information", "Model");
    if (!name.empty()) return name;
  }
  return device.str();
}

}  // namespace

std::string machine_name(c10::Device device) {
  if (device.is_cuda()) return gpu_name(device);
  std::string name = value_in("/proc/cpuinfo", "model name");
  if (name.empty()) {
    utsname system{};
    name = ::uname(&system) == 0 ? std::string(system.machine) + " CPU" : "CPU";
  }
  return name + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
}

std::string commit_name() { return ROTARY_COMMIT_NAME; }

}  // namespace rotary::roformer::lab
