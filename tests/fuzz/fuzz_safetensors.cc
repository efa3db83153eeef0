// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a .safetensors file. Exceptions are expected; anything else is a
// finding.
//   fuzz_safetensors -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 found/
//       corpus/safetensors/
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "rotary/io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::size_t total = 0;
    for (const rotary::Tensor& tensor : rotary::parse_safetensors(bytes, "fuzz.safetensors")) {
      total += tensor.bytes.size();
      if (tensor.shape.size() <= rotary::kMaxRank) tensor.view();
    }
    if (total > size) __builtin_trap();  // Tensors do not overlap.
  } catch (const std::exception&) {
  }
  return 0;
}
