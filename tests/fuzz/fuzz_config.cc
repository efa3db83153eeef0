// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any text as a config.json. Exceptions are expected; anything else is a finding.
//   fuzz_config -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 -dict=config.dict
//       found/ corpus/config/
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "rotary/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const rotary::Model model =
        rotary::Model::from_config({reinterpret_cast<const char*>(data), size});
    for (const rotary::ModelRope& rope : model.ropes) rope.make_frequencies();
  } catch (const std::exception&) {
  }
  return 0;
}
