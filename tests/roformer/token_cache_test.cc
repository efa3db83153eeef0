// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/token_cache.h"

#include <sys/resource.h>

#include <csignal>
#include <random>

#include "roformer/roformer_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::HasSubstr;

/// A vocabulary of any size, for synthetic documents.
std::unique_ptr<const Tokenizer> tokenizer_of(int size) {
  std::vector<std::string> tokens(special_tokens().begin(), special_tokens().end());
  for (int i = 5; i < size; ++i) tokens.push_back("t" + std::to_string(i));
  return make_tokenizer({.kind = TokenizerKind::kBert}, Vocabulary(std::move(tokens)));
}

std::vector<TokenDocument> documents_of(int count, int vocabulary_size) {
  std::mt19937 random(3);
  std::vector<TokenDocument> out(static_cast<std::size_t>(count));
  for (TokenDocument& document : out) {
    for (std::size_t i = 1 + random() % 400; i > 0; --i) {
      document.ids.push_back(
          static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary_size)));
      document.begins.push_back(document.begins.empty() ? 1 : random() % 2);
    }
  }
  return out;
}

class TokenCacheTest : public ScratchTest {
 protected:
  std::filesystem::path write(const std::vector<TokenDocument>& documents,
                              const Tokenizer& tokenizer) {
    TokenCacheWriter writer(path("c.tokens"), tokenizer);
    for (const TokenDocument& document : documents) writer.add(document);
    writer.finish();
    return path("c.tokens");
  }
};

TEST_F(TokenCacheTest, RoundTripInBothTokenSizes) {
  for (const int size : {300, 0x10000, 0x10001}) {
    const auto tokenizer = tokenizer_of(size);
    std::vector<TokenDocument> documents = documents_of(1000, size);
    documents[7].ids[0] = size - 1;
    documents.push_back(
        {std::vector<std::int32_t>(200000, 7), std::vector<std::uint8_t>(200000, 1)});
    const TokenCache cache(write(documents, *tokenizer));
    cache.check_tokenizer(*tokenizer);
    EXPECT_EQ(cache.vocabulary_size(), size);
    ASSERT_EQ(cache.num_documents(), documents.size());
    std::uint64_t tokens = 0;
    TokenDocument got;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      cache.read(i, got);
      ASSERT_EQ(got.ids, documents[i].ids);
      ASSERT_EQ(got.begins, documents[i].begins);
      tokens += got.size();
    }
    EXPECT_EQ(cache.num_tokens(), tokens);
    EXPECT_THROW(cache.read(documents.size(), got), std::invalid_argument);
  }
}

TEST_F(TokenCacheTest, DetectsEveryChangedByte) {
  const auto tokenizer = tokenizer_of(300);
  const std::string good = read_file(write(documents_of(500, 300), *tokenizer));
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 400) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    const auto target = file("bad.tokens", bad);
    EXPECT_THAT(thrown([&] { TokenCache(target).verify(); }), HasSubstr("bad.tokens: ")) << at;
  }
}

TEST_F(TokenCacheTest, DetectsTruncation) {
  const auto tokenizer = tokenizer_of(300);
  const std::string good = read_file(write(documents_of(500, 300), *tokenizer));
  for (std::size_t size = 0; size < good.size(); size += 1 + good.size() / 100) {
    const auto target = file("cut.tokens", good.substr(0, size));
    EXPECT_THROW(TokenCache{target}, IoError) << size;
  }
  EXPECT_THAT(thrown([&] { TokenCache(file("cut.tokens", good.substr(0, 5000))); }),
              HasSubstr("cut.tokens: a truncated token cache"));
}

TEST_F(TokenCacheTest, ErrorsNameTheDamagedDocuments) {
  const auto tokenizer = tokenizer_of(300);
  std::string bytes = read_file(write(documents_of(500, 300), *tokenizer));
  bytes[bytes.size() - 10000] ^= 1;
  const TokenCache cache(file("bad.tokens", bytes));
  TokenDocument document;
  EXPECT_NO_THROW(cache.read(0, document));
  EXPECT_THAT(thrown([&] { cache.verify(); }),
              HasSubstr("bad.tokens: a damaged token cache: documents "));
}

TEST_F(TokenCacheTest, RejectsOtherFilesVersionsAndTokenizers) {
  const auto tokenizer = tokenizer_of(300);
  const auto target = write(documents_of(3, 300), *tokenizer);
  EXPECT_THAT(thrown([&] { TokenCache(file("x", "hello")); }), HasSubstr("x: not a token cache"));
  EXPECT_THAT(thrown([&] { TokenCache(path("none")); }), HasSubstr("none: "));
  std::string newer = read_file(target);
  newer[8] = 2;
  EXPECT_THAT(thrown([&] { TokenCache(file("new", newer)); }),
              HasSubstr("new: a token cache of version 2, this program reads 1"));
  EXPECT_THAT(thrown([&] { TokenCache(target).check_tokenizer(*tokenizer_of(301)); }),
              HasSubstr("made by another tokenizer (vocabulary of 300 tokens, here 301"));
}

TEST_F(TokenCacheTest, UnfinishedFilesDoNotExist) {
  const auto tokenizer = tokenizer_of(300);
  {
    TokenCacheWriter writer(path("c.tokens"), *tokenizer);
    for (const TokenDocument& document : documents_of(900, 300)) writer.add(document);
    EXPECT_FALSE(std::filesystem::exists(path("c.tokens")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
  EXPECT_THAT(thrown([&] { TokenCacheWriter(path("c.tokens"), *tokenizer).finish(); }),
              HasSubstr("c.tokens: no document to write"));
  EXPECT_THROW(TokenCacheWriter(path("no/such/folder"), *tokenizer), IoError);
}

/// Limits the file size of the process: a larger write fails as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : before_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  void (*before_)(int);
  rlimit limit_{};
};

TEST_F(TokenCacheTest, FullDiskThrowsAndLeavesNoFile) {
  const auto tokenizer = tokenizer_of(300);
  const std::vector<TokenDocument> documents = documents_of(900, 300);
  const SmallDisk disk(100000);
  EXPECT_THAT(thrown([&] { write(documents, *tokenizer); }),
              HasSubstr("c.tokens: cannot write: File too large"));
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
}

TEST_F(TokenCacheTest, FileIsIndependentOfTheNumberOfThreads) {
  std::string corpus;
  for (int i = 0; i < 3000; ++i) {
    corpus += "今天天气非常好，第" + std::to_string(i) + "次。\nhello world\n\n";
  }
  const Corpus given{.files = {file("zh.txt", corpus)}};
  std::uint64_t documents = 0;
  build_token_cache(
      given, roformer_tokenizer(), path("one"),
      {.threads = 1, .progress = [&](std::uint64_t d, std::uint64_t) { documents = d; }});
  build_token_cache(given, roformer_tokenizer(), path("four"), {.threads = 4});
  EXPECT_EQ(documents, 3000u);
  EXPECT_EQ(read_file(path("one")), read_file(path("four")));
  TokenDocument document;
  TokenCache(path("four")).read(2999, document);
  const Tokens expected =
      roformer_tokenizer().tokenize("今天天气非常好，第2999次。\nhello world\n");
  EXPECT_EQ(document.ids, expected.ids);
}

TEST_F(TokenCacheTest, InvalidCorpusFailsTheBuild) {
  const Corpus corpus{.files = {file("a.jsonl", "{\"text\": \"x\"}\nnot json\n")},
                      .format = DocumentFormat::kJsonl};
  EXPECT_THAT(
      thrown([&] { build_token_cache(corpus, roformer_tokenizer(), path("c"), {.threads = 2}); }),
      HasSubstr("a.jsonl: expected a JSON object"));
  EXPECT_FALSE(std::filesystem::exists(path("c")));
}

}  // namespace
}  // namespace rotary::roformer
