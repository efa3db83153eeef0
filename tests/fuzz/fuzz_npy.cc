// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a .npy file. Exceptions are expected; anything else is a finding.
//   fuzz_npy -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 found/ corpus/npy/
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "rotary/io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const rotary::Tensor tensor = rotary::parse_npy(bytes, "fuzz.npy");
    if (tensor.bytes.size() > size) __builtin_trap();
    if (tensor.shape.size() <= rotary::kMaxRank) tensor.view();
  } catch (const std::exception&) {
  }
  return 0;
}
