// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Where results come from.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace rotary::roformer::lab {

/// "NVIDIA H200", or the CPU's name and its number of cores.
std::string machine_name(c10::Device device);
/// The commit that was built, with "+" for a changed tree; "unknown" without git.
std::string commit_name();

}  // namespace rotary::roformer::lab
