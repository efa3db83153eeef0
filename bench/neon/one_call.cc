// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One rotation of some tokens between two marks, for model.py:
//   one_call fp32|bf16|fp16 half|interleaved ready|on_the_fly TOKENS
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "bench/measure/workbench.h"

namespace measure = rotary::measure;

// Found by their names in a trace.
extern "C" {
[[gnu::noinline]] void mark_begin() { asm volatile(""); }
[[gnu::noinline]] void mark_end() { asm volatile(""); }
}

int main(int argc, char** argv) {
  const std::optional<rotary::DType> dtype =
      argc == 5 ? measure::parse_dtype(argv[1]) : std::nullopt;
  if (!dtype) {
    std::fputs("usage: one_call fp32|bf16|fp16 half|interleaved ready|on_the_fly TOKENS\n", stderr);
    return 2;
  }
  const std::string_view pairing = argv[2];
  const std::string_view tables = argv[3];
  const int tokens = std::atoi(argv[4]);
  const measure::Workbench bench({.tokens = tokens, .q_heads = 32, .k_heads = 8, .head_dim = 128},
                                 *dtype);
  const measure::Rotation rotate(
      bench,
      {.pairing = pairing == "half" ? rotary::Pairing::kHalf : rotary::Pairing::kInterleaved,
       .tables = tables == "ready" ? measure::Tables::kReady : measure::Tables::kOnTheFly},
      /*threads=*/1);
  for (int i = 0; i < 2 && tokens == 1; ++i) rotate();  // what is made once is made
  mark_begin();
  rotate();
  mark_end();
}
