// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope that a verb analyses: of a model, or plain RoPE of a width and a base.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "rotary/model.h"

namespace rotary::cli {

struct RopeArgument {
  std::string model{};
  std::string rope{};
  std::string context{};
  std::int64_t dim = 0;
  double base = 0.0;
};

/// Declares MODEL, --rope, --dim, --base and --context.
void add_rope_argument(CLI::App& verb, RopeArgument& argument);

/// The rope. Throws UsageError unless there is a model, or a width and a base.
ModelRope read_rope(const RopeArgument& argument);

/// The context of the argument, else the trained one, else 4096.
std::int64_t context_or_trained(const RopeArgument& argument, const ModelRope& rope);

/// "llama-3.1-8b.json, rope default" or "plain RoPE, 128 dims, base 10000".
std::string title_of(const RopeArgument& argument, const ModelRope& rope);

}  // namespace rotary::cli
