// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <thread>

#include "io/output_target.h"
#include "io/pending_file.h"
#include "json/json.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::Json;

bool is_token_cache(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;  // a pipe would be waited for
  constexpr std::string_view kFirstBytes = "rotarytk";
  std::array<char, kFirstBytes.size()> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  return std::string_view(first.data(), first.size()) == kFirstBytes;
}

/// Not by a recursive iterator: see checkpoint/folder.h. Links to folders are not followed: they
/// may form a circle.
void add_texts_of_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  for (const fs::path& entry : entries) {
    const fs::path extension = entry.extension();
    if (fs::is_directory(entry)) {
      if (!fs::is_symlink(entry)) add_texts_of_folder(entry, files);
    } else if (fs::is_regular_file(entry) && (extension == ".txt" || extension == ".jsonl")) {
      files.push_back(entry);
    }
  }
}

std::vector<fs::path> find_texts(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    const std::size_t before = files.size();
    if (fs::is_directory(path)) {
      add_texts_of_folder(path, files);
    } else if (fs::exists(path) && !fs::is_regular_file(path)) {
      throw IoError(path, IoError::kNoOffset, "is not a regular file");
    } else {
      files.emplace_back(path);
    }
    if (files.size() == before) {
      throw IoError(path, IoError::kNoOffset, "there is no .txt or .jsonl file in it");
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

/// Everything that a cache of these texts depends on.
std::string description_of(const CorpusFiles& corpus, const Tokenizer& tokenizer) {
  Json json;
  const std::vector<fs::path> files = find_texts(corpus.paths);
  for (const fs::path& file : files) {
    std::error_code missing;
    const auto size = fs::file_size(file, missing);
    const auto time = fs::last_write_time(file, missing).time_since_epoch().count();
    if (!missing) json["files"].push_back(Json::Array{file.string(), size, time});
  }
  json["format"] = static_cast<int>(document_format_of(corpus.config, files));
  json["field"] = corpus.config.field;
  json["tokenizer"] = tokenizer.fingerprint();
  return json.dump() + "\n";
}

fs::path beside_cache(const fs::path& cache) { return cache.string() + ".json"; }

std::string read_whole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
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

bool CorpusFiles::needs_tokenizing(const Tokenizer& tokenizer) const {
  if (paths.size() == 1 && is_token_cache(paths.front())) return false;
  if (!fs::exists(cache)) return true;
  const std::string made_of = read_whole(beside_cache(cache));
  return !made_of.empty() && made_of != description_of(*this, tokenizer);
}

void CorpusFiles::tokenize(
    const Tokenizer& tokenizer,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress) const {
  const std::vector<fs::path> files = find_texts(paths);
  // The old cache must not be mistaken for the new one, nor the new one be there without its
  // description: first the old one is gone, then the new description is there, each on the disk.
  fs::remove(cache);
  internal::sync_folder(cache.parent_path());
  internal::PendingFile made_of(beside_cache(cache));
  const std::string text = description_of(*this, tokenizer);
  made_of.append(text.data(), text.size());
  made_of.commit_durably();
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
