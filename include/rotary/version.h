// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The version of the library. CMake, the command and the packages read it from here.
#pragma once

#define ROTARY_VERSION_MAJOR 0
#define ROTARY_VERSION_MINOR 1
#define ROTARY_VERSION_PATCH 0
#define ROTARY_VERSION_STRING "0.1.0"
