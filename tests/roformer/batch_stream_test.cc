// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/batch_stream.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "roformer/data/ordered_workers.h"
#include "roformer/data/token_cache.h"
#include "roformer/roformer_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kDocuments = 57;

/// Documents of different lengths that repeat their index: "17 17 17 ...".
class BatchStreamTest : public ScratchTest {
 protected:
  void SetUp() override {
    ScratchTest::SetUp();
    std::vector<std::string> tokens(special_tokens().begin(), special_tokens().end());
    std::string corpus;
    for (int i = 0; i < kDocuments; ++i) {
      tokens.push_back(std::to_string(i));
      tokens.push_back("##" + std::to_string(i));
      for (int k = 0; k < 1 + i * 7 % 40; ++k) corpus += std::to_string(i) + " ";
      corpus += "\n\n";
    }
    tokenizer_ = make_tokenizer({.kind = TokenizerKind::kBert}, Vocabulary(std::move(tokens)));
    corpus_ = {.files = {file("corpus.txt", corpus)}};
    build_token_cache(corpus_, *tokenizer_, path("corpus.tokens"));
    cache_ = std::make_shared<const TokenCache>(path("corpus.tokens"));
  }

  BatchStream from_cache(const BatchOptions& options,
                         const StreamOptions& order = {.seed = 3, .epochs = 2}) {
    return {open_stream(cache_, order), tokenizer_->vocabulary(), options};
  }

  BatchStream from_text(const BatchOptions& options, std::size_t threads = 2) {
    return {open_text_stream(corpus_, tokenizer_,
                             {.stream = {.seed = 3, .epochs = 2}, .block = 10, .threads = threads}),
            tokenizer_->vocabulary(), options};
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TokenCache> cache_;
  Corpus corpus_;
};

std::vector<Batch> all_of(BatchStream stream) {
  std::vector<Batch> out;
  for (Batch batch; stream.next(batch);) out.push_back(batch);
  return out;
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.lengths, b.lengths);
  EXPECT_EQ(a.cu_seqlens, b.cu_seqlens);
  EXPECT_EQ(a.next, b.next);
}

/// Counts of tokens, without special ones.
std::map<std::int64_t, int> tokens_of(const std::vector<Batch>& batches) {
  std::map<std::int64_t, int> out;
  for (const Batch& batch : batches) {
    for (const std::int64_t id : batch.ids) out[id] += id >= 5 ? 1 : 0;
  }
  std::erase_if(out, [](const auto& entry) { return entry.second == 0; });
  return out;
}

const BatchOptions kPlain{
    .rows = 4, .length = 16, .objective = Objective::kNone, .last = LastBatch::kFill};

TEST_F(BatchStreamTest, PackedRowsAreFullAndSequencesAreFramed) {
  const std::vector<Batch> batches = all_of(from_cache(kPlain));
  ASSERT_GT(batches.size(), 20u);
  for (const Batch& batch : batches) {
    ASSERT_EQ(batch.ids.size(), 64u);
    EXPECT_EQ(batch.cu_seqlens.front(), 0);
    EXPECT_EQ(batch.cu_seqlens.back(), 64);
    for (std::size_t i = 0; i + 1 < batch.cu_seqlens.size(); ++i) {
      const auto begin = static_cast<std::size_t>(batch.cu_seqlens[i]);
      const auto end = static_cast<std::size_t>(batch.cu_seqlens[i + 1]);
      ASSERT_LT(begin, end);
      EXPECT_EQ(begin / 16, (end - 1) / 16) << "a sequence in two rows";
      if (batch.ids[begin] == 0) {  // padding
        EXPECT_TRUE(std::all_of(batch.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                batch.ids.begin() + static_cast<std::ptrdiff_t>(end),
                                [](std::int64_t id) { return id == 0; }));
        continue;
      }
      EXPECT_EQ(batch.ids[begin], 2);
      EXPECT_EQ(batch.ids[end - 1], 3);
      // one document each
      for (std::size_t k = begin + 2; k + 1 < end; ++k) EXPECT_EQ(batch.ids[k], batch.ids[k - 1]);
    }
    if (&batch == &batches.back()) continue;
    for (const std::int64_t length : batch.lengths) EXPECT_GE(length, 14);
    EXPECT_THAT(batch.types, Each(0));
    EXPECT_THAT(batch.labels, IsEmpty());
  }
}

TEST_F(BatchStreamTest, EveryTokenOccursOncePerEpochInEveryMode) {
  std::map<std::int64_t, int> expected;
  TokenDocument document;
  for (std::uint64_t i = 0; i < cache_->num_documents(); ++i) {
    cache_->read(i, document);
    for (const std::int32_t id : document.ids) expected[id] += 2;
  }
  BatchOptions padded = kPlain;
  padded.packing = Packing::kPadded;
  BatchOptions bare = kPlain;
  bare.framing = Framing::kNone;
  for (const BatchOptions& options : {kPlain, padded, bare}) {
    EXPECT_EQ(tokens_of(all_of(from_cache(options))), expected);
    EXPECT_EQ(tokens_of(all_of(from_text(options))), expected);
  }
}

TEST_F(BatchStreamTest, PaddedRowsHaveOneDocument) {
  BatchOptions options = kPlain;
  options.packing = Packing::kPadded;
  for (const Batch& batch : all_of(from_cache(options))) {
    EXPECT_THAT(batch.cu_seqlens, IsEmpty());
    for (std::size_t row = 0; row < 4; ++row) {
      const auto length = static_cast<std::size_t>(batch.lengths[row]);
      for (std::size_t i = length; i < 16; ++i) EXPECT_EQ(batch.ids[16 * row + i], 0);
      if (length == 0) continue;  // fills the last batch
      EXPECT_EQ(batch.ids[16 * row], 2);
      EXPECT_EQ(batch.ids[16 * row + length - 1], 3);
    }
  }
}

TEST_F(BatchStreamTest, ResumesFromEveryBatchBitForBit) {
  for (const bool text : {false, true}) {
    for (const Packing packing : {Packing::kPacked, Packing::kPadded}) {
      const BatchOptions options{.rows = 3, .length = 16, .packing = packing, .seed = 9};
      const auto open = [&] { return text ? from_text(options) : from_cache(options); };
      const std::vector<Batch> batches = all_of(open());
      ASSERT_GT(batches.size(), 10u);
      for (std::size_t i = 0; i < batches.size(); i += text ? 7 : 1) {
        BatchStream stream = open();
        stream.restore(stream_state_from_json(to_json(batches[i].next)));
        EXPECT_EQ(stream.state(), batches[i].next);
        Batch batch;
        for (std::size_t k = i + 1; k < batches.size(); ++k) {
          ASSERT_TRUE(stream.next(batch));
          expect_equal(batch, batches[k]);
        }
        EXPECT_FALSE(stream.next(batch));
      }
    }
  }
}

TEST_F(BatchStreamTest, PrefetchedBatchesHaveTheirOwnState) {
  const BatchOptions options{.rows = 3, .length = 16};
  BatchStream stream = from_cache(options);
  const std::vector<Batch> expected = all_of(from_cache(options));
  Prefetch<Batch> ahead([&](Batch& batch) { return stream.next(batch); }, 5);
  std::size_t count = 0;
  for (Batch batch; ahead.next(batch); ++count) expect_equal(batch, expected[count]);
  EXPECT_EQ(count, expected.size());
}

TEST_F(BatchStreamTest, RanksTogetherGetTheRowsOfOneRank) {
  const std::vector<Batch> whole = all_of(from_cache({.rows = 6, .length = 16, .seed = 4}));
  for (const std::uint64_t ranks : {2u, 3u, 6u}) {
    std::vector<std::vector<Batch>> parts;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      parts.push_back(all_of(from_cache({.rows = static_cast<std::int64_t>(6 / ranks),
                                         .length = 16,
                                         .seed = 4,
                                         .rank = rank,
                                         .num_ranks = ranks})));
      ASSERT_EQ(parts.back().size(), whole.size());
    }
    for (std::size_t step = 0; step < whole.size(); ++step) {
      for (std::size_t row = 0; row < 6; ++row) {
        const Batch& part = parts[row % ranks][step];
        const auto at = [](const std::vector<std::int64_t>& values, std::size_t r) {
          const auto first = values.begin() + static_cast<std::ptrdiff_t>(16 * r);
          return std::vector(first, first + 16);
        };
        EXPECT_EQ(at(part.ids, row / ranks), at(whole[step].ids, row));
        EXPECT_EQ(at(part.labels, row / ranks), at(whole[step].labels, row));
        EXPECT_EQ(part.next, whole[step].next);
      }
    }
  }
}

TEST_F(BatchStreamTest, IsIndependentOfTheNumberOfThreads) {
  const BatchOptions options{.rows = 3, .length = 16};
  const std::vector<Batch> one = all_of(from_text(options, 1));
  const std::vector<Batch> four = all_of(from_text(options, 4));
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i) expect_equal(one[i], four[i]);
}

TEST_F(BatchStreamTest, EpochsAndSeedsChangeTheOrder) {
  const auto order_of = [&](const StreamOptions& options) {
    std::vector<std::int32_t> out;
    const auto stream = open_stream(cache_, options);
    for (TokenDocument document; stream->next(document);) out.push_back(document.ids[0]);
    return out;
  };
  const std::vector<std::int32_t> two = order_of({.seed = 1, .epochs = 2});
  ASSERT_EQ(two.size(), 2u * kDocuments);
  const std::vector<std::int32_t> first(two.begin(), two.begin() + kDocuments);
  const std::vector<std::int32_t> second(two.begin() + kDocuments, two.end());
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin()));
  EXPECT_NE(first, order_of({.seed = 2, .epochs = 1}));
  std::vector<std::int32_t> in_order = order_of({.order = Order::kInOrder, .epochs = 1});
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST_F(BatchStreamTest, MasksHaveTheRequestedShares) {
  BatchOptions options{.rows = 4, .length = 64, .seed = 1};
  int words = 0, chosen = 0, masked = 0, kept = 0, other = 0;
  BatchStream stream = from_cache(options, {.epochs = 0});
  BatchOptions bare = options;
  bare.objective = Objective::kNone;
  BatchStream plain = from_cache(bare, {.epochs = 0});
  Batch batch;
  Batch original;
  for (int step = 0; step < 400; ++step) {
    ASSERT_TRUE(stream.next(batch));
    ASSERT_TRUE(plain.next(original));
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const std::int64_t id = original.ids[i];
      words += id >= 5 ? 1 : 0;
      if (batch.labels[i] == kIgnoreIndex) {
        EXPECT_EQ(batch.ids[i], id);
        continue;
      }
      EXPECT_GE(id, 5) << "a frame was masked";
      EXPECT_EQ(batch.labels[i], id);
      EXPECT_NE(batch.ids[i], 0);
      ++chosen;
      masked += batch.ids[i] == 4 ? 1 : 0;
      kept += batch.ids[i] == id ? 1 : 0;
      other += batch.ids[i] != 4 && batch.ids[i] != id ? 1 : 0;
    }
  }
  const double n = chosen;
  EXPECT_NEAR(n / words, 0.15, 0.005);
  EXPECT_NEAR(masked / n, 0.8, 0.01);
  EXPECT_NEAR(kept / n, 0.1, 0.01);
  EXPECT_NEAR(other / n, 0.1, 0.01);
}

TEST_F(BatchStreamTest, MasksWholeWords) {
  std::string corpus;
  for (int i = 0; i < 200; ++i) corpus += "今天天气 ";
  const Corpus given{.files = {file("zh.txt", corpus)}};
  build_token_cache(given, roformer_tokenizer(), path("zh.tokens"));
  for (const MaskUnit unit : {MaskUnit::kWord, MaskUnit::kToken}) {
    BatchStream stream(
        open_stream(std::make_shared<const TokenCache>(path("zh.tokens")), {}),
        roformer_tokenizer().vocabulary(),
        {.rows = 1,
         .length = 802,
         .masking = {.rate = 0.3, .mask_share = 1, .random_share = 0, .unit = unit}});
    Batch batch;
    ASSERT_TRUE(stream.next(batch));
    int parts = 0;
    for (std::size_t word = 0; word < 200; ++word) {
      int masked = 0;
      for (std::size_t i = 0; i < 4; ++i) masked += batch.ids[1 + 4 * word + i] == 103 ? 1 : 0;
      parts += masked % 4 != 0 ? 1 : 0;
    }
    if (unit == MaskUnit::kWord) {
      EXPECT_EQ(parts, 0);
    } else {
      EXPECT_GT(parts, 100);
    }
  }
}

TEST_F(BatchStreamTest, CausalLabelsAreTheNextTokenOfTheSameSequence) {
  BatchOptions options{
      .rows = 2, .length = 16, .framing = Framing::kSep, .objective = Objective::kCausal};
  for (const Batch& batch : all_of(from_cache(options))) {
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const bool last = std::ranges::count(batch.cu_seqlens, static_cast<std::int32_t>(i + 1)) > 0;
      if (last || batch.ids[i] == 0) {
        EXPECT_EQ(batch.labels[i], kIgnoreIndex);
      } else {
        EXPECT_EQ(batch.labels[i], batch.ids[i + 1]);
      }
    }
  }
}

TEST_F(BatchStreamTest, LengthAndRowsMayChangeBetweenStages) {
  BatchStream stream = from_cache(kPlain, {.seed = 3, .epochs = 1});
  std::vector<Batch> batches(1);
  ASSERT_TRUE(stream.next(batches[0]));
  BatchOptions longer = kPlain;
  longer.rows = 2;
  longer.length = 40;
  BatchStream next = from_cache(longer, {.seed = 3, .epochs = 1});
  next.restore(batches[0].next);
  for (Batch batch; next.next(batch);) batches.push_back(batch);
  EXPECT_EQ(tokens_of(batches), tokens_of(all_of(from_cache(kPlain, {.seed = 3, .epochs = 1}))));
}

TEST_F(BatchStreamTest, RejectsStatesOfOtherData) {
  BatchStream stream = from_cache({});
  StreamState state = from_cache({}, {.seed = 4}).state();
  EXPECT_EQ(thrown([&] { stream.restore(state); }),
            "[BatchStream] the saved position belongs to other data, another tokenizer, order or "
            "seed");
  state = stream.state();
  state.position.index = 1000;
  EXPECT_THAT(thrown([&] { stream.restore(state); }), HasSubstr("document 1000 of 57"));
  state = stream.state();
  state.offset = 1000;
  EXPECT_THAT(thrown([&] { stream.restore(state); }), HasSubstr("beyond its document"));
  EXPECT_THAT(thrown([] { stream_state_from_json("{}"); }), HasSubstr("the number \"epoch\""));
  EXPECT_THROW(stream_state_from_json("nonsense"), std::invalid_argument);
  EXPECT_THROW(stream_state_from_json("[]"), std::invalid_argument);
}

TEST_F(BatchStreamTest, ErrorsOfTheCorpusReachTheCaller) {
  corpus_.files.push_back(path("gone.txt"));
  BatchStream stream = from_text({.rows = 1, .length = 16});
  Prefetch<Batch> ahead([&](Batch& batch) { return stream.next(batch); }, 2);
  EXPECT_THAT(thrown([&] {
                for (Batch batch; ahead.next(batch);) {
                }
              }),
              HasSubstr("gone.txt: No such file"));
  corpus_.files = {file("empty.txt", "\n \n")};
  EXPECT_THAT(thrown([&] {
                Batch batch;
                from_text({}).next(batch);
              }),
              HasSubstr("empty.txt: no document in the corpus"));
  corpus_.files = {file("control.txt", "\x01\x02\n")};
  EXPECT_THAT(thrown([&] {
                Batch batch;
                BatchStream(open_text_stream(corpus_, tokenizer_, {}), tokenizer().vocabulary(), {})
                    .next(batch);
              }),
              HasSubstr("control.txt: no token in the corpus"));
}

TEST_F(BatchStreamTest, RejectsInvalidOptions) {
  const auto error_of = [&](const BatchOptions& options) {
    return thrown([&] { from_cache(options); });
  };
  EXPECT_EQ(error_of({.rows = 0}), "[BatchStream] rows must be positive, got 0");
  EXPECT_EQ(error_of({.length = 2}), "[BatchStream] length must be at least 3, got 2");
  EXPECT_EQ(error_of({.rank = 2, .num_ranks = 2}),
            "[BatchStream] rank must be below num_ranks, got 2 of 2");
  EXPECT_THAT(error_of({.masking = {.rate = 1.5}}), HasSubstr("within 0 and 1"));
  EXPECT_THAT(error_of({.masking = {.mask_share = 0.8, .random_share = 0.3}}),
              HasSubstr("within 0 and 1"));
  EXPECT_THAT(error_of({.rows = 1 << 20, .length = 1 << 12}), HasSubstr("fewer than 2^31"));
  const Vocabulary bare({"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, "v.txt");
  EXPECT_EQ(thrown([&] { BatchStream(open_stream(cache_, {}), bare, {}); }),
            "v.txt: the vocabulary has no [MASK]");
}

}  // namespace
}  // namespace rotary::roformer
