// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command rotary: what a model's rotation is, and the rotation itself.
#include "tools/cli.h"
#include "tools/command.h"

namespace {

constexpr const char* kFooter = R"(Examples:
  rotary inspect config.json            what turns, how fast, and what was assumed
  rotary inspect Qwen2.5-7B/ --json     the same for a program
  rotary diff base.json long.json       where two models part
  rotary rotate config.json q.npy out.npy --positions 0:4096
  rotary bench                          how fast this machine rotates

Exit codes: 0 done, 1 failed, 2 wrong usage. `rotary VERB --help` tells more about a verb.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace rotary::cli;
  return run_command(
      {.name = "rotary",
       .about = "rotary: the rotary position embedding (RoPE) of any model",
       .footer = kFooter,
       .verbs = {add_inspect, add_rotate, add_diff, add_bench, add_models, add_completion}},
      argc, argv);
}
