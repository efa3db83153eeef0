// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The program docs_examples. Without an argument it lists the blocks that it was built from, with a
// hash of their text; with the name of a block it runs that one.

#include "docs/examples.h"

#include <cstdio>
#include <exception>
#include <string_view>

namespace rotary::docs {
namespace {

const Example* all = nullptr;

}  // namespace

Example::Example(const char* page_and_line, const char* hash_of_text, void (*function)()) noexcept
    : name(page_and_line), hash(hash_of_text), run(function), next(all) {
  all = this;
}

}  // namespace rotary::docs

int main(int count, char** arguments) {
  using rotary::docs::Example;
  if (count < 2) {
    for (const Example* example = rotary::docs::all; example; example = example->next) {
      std::printf("%s %s\n", example->name, example->hash);
    }
    return 0;
  }
  for (const Example* example = rotary::docs::all; example; example = example->next) {
    if (std::string_view(arguments[1]) != example->name || !example->run) continue;
    try {
      example->run();
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", example->name, error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "%s: no block of this name can be run\n", arguments[1]);
  return 2;
}
