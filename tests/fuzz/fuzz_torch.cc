// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a file of torch.save(), as an archive or as five pickles.
//   fuzz_torch -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 -dict=torch.dict found/
//       corpus/torch/
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/torch_file.h"
#include "rotary/error.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::size_t total = 0;
    for (const auto& entry : rotary::internal::parse_torch_file(bytes, "fuzz.bin")) {
      std::size_t count = 1;
      std::size_t last = 0;
      for (std::size_t i = 0; i < entry.shape.size(); ++i) {
        count *= static_cast<std::size_t>(entry.shape[i]);
        last += static_cast<std::size_t>((entry.shape[i] - 1) * entry.strides[i]);
      }
      if (count == 0) continue;
      // Every element lies in the file.
      require(entry.begin <= size && (last + 1) * entry.element_size <= size - entry.begin);
      total += count * entry.element_size;
    }
    require(total <= 17 * size);
  } catch (const rotary::IoError&) {
  }
  return 0;
}
