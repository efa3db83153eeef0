// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/checkpoint/vocabulary_files.h"

#include "io/file_reader.h"
#include "roformer/checkpoint/tensor_files.h"

namespace rotary::roformer {
namespace {

constexpr std::size_t kMaxMebibytes = 256;

std::string contents_of(const std::filesystem::path& path) {
  return path.empty() ? std::string() : internal::read_small_file(path, kMaxMebibytes);
}

}  // namespace

VocabularyFiles VocabularyFiles::read(const std::filesystem::path& vocabulary,
                                      const std::filesystem::path& dictionary) {
  return {.vocabulary = contents_of(vocabulary), .dictionary = contents_of(dictionary)};
}

void VocabularyFiles::write(const std::filesystem::path& folder) const {
  if (!vocabulary.empty()) write_text(folder / "vocab.txt", vocabulary);
  if (!dictionary.empty()) write_text(folder / "dict.txt", dictionary);
}

}  // namespace rotary::roformer
