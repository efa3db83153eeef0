// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The C++ and C blocks of the pages, as make_examples.py writes them.

#pragma once

namespace rotary::docs {

// One block, added to the list of all by its constructor. `run` is null for a block that is only
// compiled.
struct Example {
  Example(const char* page_and_line, const char* hash_of_text, void (*function)()) noexcept;

  const char* name;
  const char* hash;
  void (*run)();
  const Example* next;
};

}  // namespace rotary::docs
