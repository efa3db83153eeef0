// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a corpus or as labelled examples, in the format of the first byte.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "input_file.h"
#include "roformer/data/documents.h"
#include "roformer/data/examples.h"
#include "roformer/data/glue.h"
#include "roformer/data/question_windows.h"
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

/// Tables of every layout, and labels of every kind.
void read_glue_as_every_task(const std::filesystem::path& path) {
  rf::detect_glue_task(path);
  for (const rf::GlueTask& task : rf::glue_tasks()) {
    try {
      const rf::ExampleSet set = rf::read_glue(path, task);
      for (const rf::Example& example : set.examples) {
        require(set.label_kind != rf::LabelKind::kClass ||
                static_cast<std::size_t>(example.label) < set.labels.size());
        require(std::isfinite(example.number));
      }
    } catch (const rotary::IoError&) {
    }
  }
}

/// Every token of a context is in a window, and the answer where the targets say.
void read_windows(const rf::QuestionSet& questions) {
  static const std::shared_ptr<const rf::Tokenizer> kBytes =
      rf::load_tokenizer({.kind = rf::TokenizerKind::kByte});
  const rf::QuestionWindows windows(std::make_shared<const rf::QuestionSet>(questions), kBytes,
                                    {.max_length = 12});
  std::vector<std::size_t> end(questions.questions.size());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const rf::ExampleRow row = windows.read(w);
    const std::size_t size = row.encoding.ids.size();
    require(size <= 12 && row.targets.size() == 2);
    require(row.targets[0] <= row.targets[1] && static_cast<std::size_t>(row.targets[1]) < size);
    std::size_t& read = end[windows.question_of(w)];
    for (std::size_t t = 0; t < size; ++t) {
      if (!rf::is_of_context(row.encoding, t)) continue;
      require(row.encoding.spans[t].begin <= read);
      read = std::max<std::size_t>(read, row.encoding.spans[t].end);
    }
  }
  for (std::size_t i = 0; i < end.size(); ++i) {
    require(end[i] == questions.questions[i].context.size());
  }
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
      read_glue_as_every_task(path);
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
      const rf::QuestionSet questions = rf::read_questions(path);
      for (const rf::Question& question : questions.questions) {
        require(question.answers.empty() ||
                question.context.substr(question.begin).starts_with(question.answers.front()));
      }
      read_windows(questions);
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
