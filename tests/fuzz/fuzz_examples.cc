// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a corpus or as labelled examples, in the format of the first byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "input_file.h"
#include "roformer/data/documents.h"
#include "roformer/data/examples.h"
#include "roformer/data/token_examples.h"
#include "rotary/error.h"

namespace {

namespace rf = rotary::roformer;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_documents(const std::filesystem::path& path, rf::DocumentFormat format) {
  rf::DocumentReader reader({.files = {path}, .format = format, .max_document_bytes = 1 << 16});
  for (std::string document; reader.next(document);) require(!document.empty());
}

void read_as(std::uint8_t format, const std::filesystem::path& path) {
  switch (format % 9) {
    case 0:
      return read_documents(path, rf::DocumentFormat::kBlankLines);
    case 1:
      return read_documents(path, rf::DocumentFormat::kLines);
    case 2:
      return read_documents(path, rf::DocumentFormat::kJsonl);
    case 3:
      rf::read_tsv(path);
      return;
    case 4:
      rf::read_jsonl(path);
      return;
    case 5:
      rf::pairs_of(rf::read_triples(path));
      return;
    case 6:
      for (const rf::TaggedText& text : rf::read_conll(path).texts) {
        require(text.words.size() == text.tags.size());
      }
      return;
    case 7:
      rf::read_tags_jsonl(path);
      return;
    default:
      for (const rf::Question& question : rf::read_questions(path).questions) {
        require(question.answers.empty() ||
                question.context.substr(question.begin).starts_with(question.answers.front()));
      }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const rotary::fuzz::InputFile file({reinterpret_cast<const char*>(data) + 1, size - 1});
  try {
    read_as(data[0], file.path());
  } catch (const rotary::IoError&) {
  }
  return 0;
}
