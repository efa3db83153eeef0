// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a GGUF file, read as a container and as a model. Exceptions are
// expected; anything else is a finding.
//   fuzz_gguf -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 found/ corpus/gguf/
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "model/gguf_file.h"
#include "rotary/model.h"

namespace {

template <typename Call>
void ignore_exceptions(Call&& call) {
  try {
    call();
  } catch (const std::exception&) {
  }
}

void read_container(std::string_view bytes) {
  const rotary::internal::GgufFile file(bytes, "fuzz.gguf");
  for (const std::string_view key : file.keys()) {
    ignore_exceptions([&] { file.number(key); });
    ignore_exceptions([&] { file.integer(key); });
    ignore_exceptions([&] { file.boolean(key); });
    ignore_exceptions([&] { file.string(key); });
    ignore_exceptions([&] { file.numbers(key); });
  }
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "t"}) {
    ignore_exceptions([&] { file.tensor(name); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ignore_exceptions([&] { read_container(bytes); });
  ignore_exceptions([&] {
    for (const auto& rope : rotary::Model::from_gguf(bytes).ropes) rope.make_frequencies();
  });
  return 0;
}
