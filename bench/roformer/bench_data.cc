// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Throughput of tokenisation, token cache and batches:
//
//   bench_data VOCABULARY DICTIONARY CORPUS [THREADS]
//
// CORPUS has documents separated by blank lines. The token cache is written to the folder for
// temporary files, and removed.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "roformer/data/batch_stream.h"
#include "roformer/data/ordered_workers.h"
#include "roformer/data/token_cache.h"
#include "roformer/text/tokenizer.h"

namespace {

namespace rf = rotary::roformer;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Tokenises the text repeatedly for a second, on one thread.
void measure_tokenizer(const char* name, const rf::Tokenizer& tokenizer, const std::string& text) {
  rf::Tokens tokens;
  double bytes = 0;
  double count = 0;
  const double begin = seconds();
  while (seconds() < begin + 1) {
    tokenizer.tokenize(text, tokens);
    bytes += static_cast<double>(text.size());
    count += static_cast<double>(tokens.size());
  }
  const double time = seconds() - begin;
  std::printf("%-28s %7.1f MB/s  %6.2f M tokens/s\n", name, bytes / time / 1e6, count / time / 1e6);
}

void run(char** arguments, std::size_t threads) {
  const double begin = seconds();
  const auto tokenizer =
      rf::load_tokenizer({.vocabulary = arguments[1], .dictionary = arguments[2]});
  std::printf("%-28s %7.2f s\n", "load", seconds() - begin);
  const auto bert =
      rf::load_tokenizer({.kind = rf::TokenizerKind::kBert, .vocabulary = arguments[1]});
  const rf::Corpus corpus{.files = {arguments[3]}};
  rf::DocumentReader reader(corpus);
  std::string text;
  for (std::string document; text.size() < 4'000'000 && reader.next(document);) text += document;
  measure_tokenizer("RoFormer, one thread", *tokenizer, text);
  measure_tokenizer("BERT, one thread", *bert, text);

  const auto path = std::filesystem::temp_directory_path() /
                    ("bench_data-" + std::to_string(::getpid()) + ".tokens");
  const double build = seconds();
  rf::build_token_cache(corpus, *tokenizer, path, {.threads = threads});
  const double built = seconds() - build;
  std::printf("%-28s %7.1f MB/s  (%zu threads, peak memory %.0f MB)\n", "token cache",
              static_cast<double>(std::filesystem::file_size(arguments[3])) / built / 1e6, threads,
              peak_megabytes());
  {
    const auto cache = std::make_shared<const rf::TokenCache>(path);
    rf::BatchStream batches(rf::open_stream(cache, {}), tokenizer->vocabulary(),
                            {.rows = 64, .length = 512});
    rf::Prefetch<rf::Batch> ahead([&](rf::Batch& b) { return batches.next(b); }, 4);
    double tokens = 0;
    const double first = seconds();
    for (rf::Batch batch; seconds() < first + 1 && ahead.next(batch);) {
      tokens += static_cast<double>(batch.ids.size());
    }
    std::printf("%-28s %7s       %6.2f M tokens/s\n", "masked batches of 64 x 512", "",
                tokens / (seconds() - first) / 1e6);
    std::printf("%-28s %.1f M tokens in %llu documents, %.2f bytes of text per token\n", "corpus",
                static_cast<double>(cache->num_tokens()) / 1e6,
                static_cast<unsigned long long>(cache->num_documents()),
                static_cast<double>(std::filesystem::file_size(arguments[3])) /
                    static_cast<double>(cache->num_tokens()));
  }
  std::filesystem::remove(path);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || count > 5) {
    std::fputs("usage: bench_data VOCABULARY DICTIONARY CORPUS [THREADS]\n", stderr);
    return 2;
  }
  try {
    run(arguments, count == 5 ? std::strtoul(arguments[4], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_data: %s\n", error.what());
    return 1;
  }
  return 0;
}
