// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command rotary: inspects, compares, applies and measures the rotation of a model.
#include "console/command.h"
#include "tools/commands.h"

namespace {

constexpr const char* kFooter = R"(Examples:
  rotary inspect config.json            frequencies, layout, scaling and assumptions
  rotary inspect Qwen2.5-7B/ --json     the same as JSON
  rotary diff base.json long.json       differences between two models
  rotary bounds config.json             which contexts the base serves
  rotary plan config.json --context 131072
  rotary permute Llama-3.1-8B/ --to interleaved -o Llama-3.1-8B-interleaved/
  rotary explore config.json            the same and more, as a page in the browser
  rotary rotate config.json q.npy out.npy --positions 0:4096
  rotary bench                          speed of the rotation on this machine

Exit codes: 0 done, 1 failed, 2 wrong usage. `rotary VERB --help` describes a verb.)";

}  // namespace

int main(int argc, char** argv) {
  namespace cli = rotary::cli;
  return rotary::console::run_command(
      {.name = "rotary",
       .about = "rotary: the rotary position embedding (RoPE) of any model",
       .footer = kFooter,
       .verbs = {cli::add_inspect, cli::add_rotate, cli::add_diff, cli::add_bounds, cli::add_decay,
                 cli::add_map, cli::add_plan, cli::add_permute, cli::add_export, cli::add_precision,
                 cli::add_explore, cli::add_bench, cli::add_models, cli::add_completion}},
      argc, argv);
}
