// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The Autograd kernel of operators without derivatives.
#pragma once

#include <torch/library.h>

namespace rotary::torch {

/// Throws if a gradient would be lost; else runs the operator, and tells autograd what it wrote.
::torch::CppFunction no_derivative();

}  // namespace rotary::torch
