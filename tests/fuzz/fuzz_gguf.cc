// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a GGUF file, read as a container and as a model. An exception is an
// answer; everything else is a finding.
//   fuzz_gguf -max_total_time=60 -rss_limit_mb=512 -malloc_limit_mb=64 found/ corpus/gguf/
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "model/gguf_file.h"
#include "rotary/model.h"

namespace {

template <typename Call>
void try_to(Call&& call) {
  try {
    call();
  } catch (const std::exception&) {
  }
}

void read_container(std::string_view bytes) {
  const rotary::internal::GgufFile file(bytes, "fuzz.gguf");
  for (const std::string_view key : file.keys()) {
    try_to([&] { file.number(key); });
    try_to([&] { file.integer(key); });
    try_to([&] { file.boolean(key); });
    try_to([&] { file.string(key); });
    try_to([&] { file.numbers(key); });
  }
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "t"}) {
    try_to([&] { file.tensor(name); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try_to([&] { read_container(bytes); });
  try_to([&] {
    for (const auto& rope : rotary::Model::from_gguf(bytes).ropes) rope.make_frequencies();
  });
  return 0;
}
