// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

bool is_token_cache(const fs::path& path) {
  constexpr std::string_view kFirstBytes = "rotarytk";
  std::array<char, kFirstBytes.size()> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  return std::string_view(first.data(), first.size()) == kFirstBytes;
}

void add_texts_of_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".txt" || extension == ".jsonl")) {
      found.push_back(entry.path());
    }
  }
  if (found.empty()) {
    throw IoError(folder.string(), IoError::kNoOffset, "there is no .txt or .jsonl file in it");
  }
  std::ranges::sort(found);
  files.insert(files.end(), found.begin(), found.end());
}

std::vector<fs::path> find_texts(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      add_texts_of_folder(path, files);
    } else {
      files.emplace_back(path);
    }
  }
  return files;
}

DocumentFormat document_format_of(const RunConfig& config, const std::vector<fs::path>& files) {
  if (config.format == "paragraphs") return DocumentFormat::kBlankLines;
  if (config.format == "lines") return DocumentFormat::kLines;
  if (config.format == "jsonl") return DocumentFormat::kJsonl;
  const auto count = std::ranges::count(files, fs::path(".jsonl"), &fs::path::extension);
  if (count != 0 && count != static_cast<std::ptrdiff_t>(files.size())) {
    internal::reject("the corpus has .jsonl files and others: name their format");
  }
  return count == 0 ? DocumentFormat::kBlankLines : DocumentFormat::kJsonl;
}

TokenizerKind tokenizer_kind_of(const RunConfig& config) {
  if (config.tokenizer == "byte") return TokenizerKind::kByte;
  if (config.tokenizer == "character") return TokenizerKind::kCharacter;
  const bool plain = config.tokenizer == "auto" && config.dict.empty();
  return plain || config.tokenizer == "bert" ? TokenizerKind::kBert : TokenizerKind::kRoFormer;
}

}  // namespace

std::shared_ptr<const Tokenizer> open_run_tokenizer(const RunConfig& config) {
  const TokenizerOptions options{
      .kind = tokenizer_kind_of(config), .vocabulary = config.vocab, .dictionary = config.dict};
  if (options.kind != TokenizerKind::kByte && config.vocab.empty()) {
    internal::reject("there is no vocabulary: name one with vocab, or use the tokenizer byte");
  }
  if (options.kind == TokenizerKind::kRoFormer && config.dict.empty()) {
    internal::reject("the tokenizer roformer needs jieba's dictionary: name it with dict");
  }
  return load_tokenizer(options);
}

void copy_run_vocabulary(const RunConfig& config, const fs::path& folder) {
  constexpr auto kReplace = fs::copy_options::overwrite_existing;
  try {
    if (!config.vocab.empty()) fs::copy_file(config.vocab, folder / "vocab.txt", kReplace);
    if (!config.dict.empty()) fs::copy_file(config.dict, folder / "dict.txt", kReplace);
  } catch (const fs::filesystem_error& error) {
    throw IoError(error.path1().string(), IoError::kNoOffset,
                  "cannot be copied to " + folder.string() + ": " + error.code().message());
  }
}

bool CorpusFiles::needs_tokenizing() const {
  return !(paths.size() == 1 && is_token_cache(paths.front())) && !fs::exists(cache);
}

void CorpusFiles::tokenize(
    const Tokenizer& tokenizer,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress) const {
  const std::vector<fs::path> files = find_texts(paths);
  const auto threads = config.threads > 0
                           ? static_cast<std::size_t>(config.threads)
                           : std::max<std::size_t>(1, std::thread::hardware_concurrency());
  build_token_cache(
      {.files = files, .format = document_format_of(config, files), .field = config.field},
      tokenizer, cache, {.threads = threads, .progress = progress});
}

std::shared_ptr<const TokenCache> CorpusFiles::open(const Tokenizer& tokenizer) const {
  const bool given = paths.size() == 1 && is_token_cache(paths.front());
  auto opened = std::make_shared<const TokenCache>(given ? fs::path(paths.front()) : cache);
  opened->check_tokenizer(tokenizer);
  return opened;
}

BatchOptions batch_options_of(const RunConfig& config, const Stage& stage, std::int64_t rank,
                              std::int64_t num_ranks) {
  BatchOptions options;
  options.rows = config.micro_batch > 0 ? config.micro_batch : stage.batch / num_ranks;
  options.length = stage.length;
  options.packing = config.packed ? Packing::kPacked : Packing::kPadded;
  options.objective = config.objective == "causal" ? Objective::kCausal : Objective::kMasked;
  options.masking.rate = config.mask_rate;
  options.masking.unit = config.whole_words ? MaskUnit::kWord : MaskUnit::kToken;
  options.seed = config.seed;
  options.rank = static_cast<std::uint64_t>(rank);
  options.num_ranks = static_cast<std::uint64_t>(num_ranks);
  return options;
}

}  // namespace rotary::roformer
