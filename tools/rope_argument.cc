// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/rope_argument.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "explain/format.h"
#include "explain/text_layout.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace rotary::cli {

void add_rope_argument(CLI::App& verb, RopeArgument& argument) {
  verb.add_option("MODEL", argument.model, "config.json, model folder or .gguf file")
      ->type_name("");
  verb.add_option("--rope", argument.rope, "The rope of this name")->type_name("NAME");
  verb.add_option("--dim", argument.dim, "Without a model: dims of plain RoPE")->type_name("N");
  verb.add_option("--base", argument.base, "Without a model: its base")->type_name("THETA");
  verb.add_option("--context", argument.context, "Context length; default: the trained one")
      ->type_name("N");
}

ModelRope read_rope(const RopeArgument& argument) {
  const bool has_width = argument.dim != 0 || argument.base != 0.0;
  if (argument.model.empty() != has_width) {
    throw UsageError("give either a MODEL or --dim and --base");
  }
  const std::int64_t context = parse_context(argument.context);
  if (!argument.model.empty()) {
    const Model model = Model::read(argument.model);
    return model.rope(argument.rope);
  }
  if (argument.dim < 2 || argument.dim % 2 != 0 || argument.dim > 1 << 20) {
    throw UsageError(fmt::format("--dim must be an even number of dims, got {}", argument.dim));
  }
  if (!(argument.base > 0.0)) {
    throw UsageError(fmt::format("--base must be positive, got {}", argument.base));
  }
  ModelRope rope;
  rope.recipe = {.rotary_dim = argument.dim, .theta = argument.base};
  rope.layout = {.head_dim = argument.dim, .pairing = Pairing::kHalf};
  rope.context = {.trained = context, .extended = context};
  return rope;
}

std::int64_t context_or_trained(const RopeArgument& argument, const ModelRope& rope) {
  const std::int64_t given = parse_context(argument.context);
  if (given > 0) return given;
  return rope.context.trained > 0 ? rope.context.trained : 4096;
}

std::string title_of(const RopeArgument& argument, const ModelRope& rope) {
  if (argument.model.empty()) {
    return fmt::format("plain RoPE, {} dims, base {}", rope.recipe.rotary_dim,
                       explain::format_number(rope.recipe.theta));
  }
  return explain::printable(fmt::format("{}, rope {}", argument.model, rope.name));
}

}  // namespace rotary::cli
