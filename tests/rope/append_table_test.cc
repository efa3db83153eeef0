// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::append, bit for bit against norm_rotate() followed by a plain store: every norm with every
// kind of store, and properties of slots, pages and strides.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "rope/append_fixture.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"

namespace rotary::append_table_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr DType kQuantized[] = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8};
constexpr ScaleKind kScales[] = {ScaleKind::kTensor, ScaleKind::kHead, ScaleKind::kComputed};
constexpr ScaleUse kUses[] = {ScaleUse::kDivide, ScaleUse::kMultiply};

std::vector<HeadNorm> all_norms() {
  std::vector<HeadNorm> norms;
  for (const NormRotation rotation : {NormRotation::kForward, NormRotation::kInverse}) {
    norms.push_back({.kind = NormKind::kNone, .rotation = rotation});
    for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus, NormKind::kLayer}) {
      for (const NormScope scope : {NormScope::kHead, NormScope::kAllHeads}) {
        for (const NormOrder order : {NormOrder::kBeforeRotation, NormOrder::kAfterRotation}) {
          for (const NormRounding rounding :
               {NormRounding::kTensor, NormRounding::kFloat32, NormRounding::kEveryStep}) {
            if (rounding == NormRounding::kEveryStep && kind != NormKind::kRms) continue;
            norms.push_back({.kind = kind,
                             .eps = 1e-5,
                             .rounding = rounding,
                             .scope = scope,
                             .order = order,
                             .rotation = rotation});
          }
        }
      }
    }
  }
  return norms;
}

struct Store {
  std::optional<DType> quantized{};
  ScaleKind scale = ScaleKind::kNone;
  ScaleUse use = ScaleUse::kDivide;
};

std::vector<Store> all_stores() {
  std::vector<Store> stores = {{}};
  for (const DType type : kQuantized) {
    for (const ScaleKind scale : kScales) {
      for (const ScaleUse use : kUses) stores.push_back({type, scale, use});
    }
  }
  return stores;
}

/// What the tables do not go through, at random.
class Choices {
 public:
  explicit Choices(unsigned seed) : random_(seed) {}

  template <typename List>
  auto one_of(const List& choices) {
    return choices[random_() % std::size(choices)];
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution(low, high)(random_);
  }

  void placement(AppendCase& c) {
    constexpr CacheLayout kLayouts[] = {CacheLayout::kTokenMajor, CacheLayout::kHeadMajor,
                                        CacheLayout::kInterleaved};
    constexpr QueryKind kQueries[] = {QueryKind::kNone, QueryKind::kInPlace, QueryKind::kApart};
    constexpr SlotKind kSlots[] = {SlotKind::kInt32, SlotKind::kInt64, SlotKind::kPaged,
                                   SlotKind::kSequences, SlotKind::kShort};
    constexpr InputLayout kInputs[] = {InputLayout::kContiguous, InputLayout::kGaps,
                                       InputLayout::kHeadsFirst};
    constexpr std::int64_t kBlockSizes[] = {3, 4, 16};
    constexpr DType kTables[] = {DType::kInt32, DType::kInt64};
    constexpr Pairing kPairings[] = {Pairing::kHalf, Pairing::kInterleaved};
    constexpr std::int64_t kAxes[] = {0, 1, 3};
    constexpr int kLanes[] = {4, 8, 16, 32};
    c.layout = one_of(kLayouts);
    c.query = one_of(kQueries);
    c.slots = one_of(kSlots);
    c.inputs = one_of(kInputs);
    c.block_size = one_of(kBlockSizes);
    c.table_type = one_of(kTables);
    c.pairing = one_of(kPairings);
    c.axes = one_of(kAxes);
    c.norm.sum_lanes = one_of(kLanes);
    c.weight_type = one_of(kTypes);
    c.batch = between(1, 3);
    c.tokens = between(2, 9);
    c.seed = static_cast<unsigned>(random_());
  }

 private:
  std::mt19937 random_;
};

void expect_chain(const AppendCase& c) {
  AppendFixture fixture(c);
  const Elements k = fixture.k();
  const Elements v = fixture.v();
  fixture.run();
  EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << to_string(c);
  EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << to_string(c);
  EXPECT_EQ(fixture.computed(), fixture.expected_computed()) << to_string(c);
  EXPECT_TRUE(fixture.k() == k && fixture.v() == v) << to_string(c);
}

TEST(AppendTable, EveryNormWithEveryStore) {
  Choices choices(3);
  for (const HeadNorm& norm : all_norms()) {
    for (const Store& store : all_stores()) {
      for (const DType type : kTypes) {
        AppendCase c{.type = type,
                     .quantized = store.quantized,
                     .scale = store.scale,
                     .use = store.use,
                     .norm = norm};
        choices.placement(c);
        expect_chain(c);
      }
    }
  }
}

TEST(AppendTable, KeysAndValuesOfTwoTypes) {
  Choices choices(4);
  for (const HeadNorm& norm : {HeadNorm{.kind = NormKind::kNone}, HeadNorm{}}) {
    for (const DType type : kTypes) {
      for (const DType keys : {type, kQuantized[0], kQuantized[1], kQuantized[2]}) {
        for (const DType values : kQuantized) {
          for (const ScaleKind scale : kScales) {
            AppendCase c{.type = type, .quantized_values = values, .scale = scale, .norm = norm};
            if (keys != type) c.quantized = keys;
            choices.placement(c);
            expect_chain(c);
          }
        }
      }
    }
  }
}

/// Cases of any sizes.
AppendCase any_case(Choices& choices) {
  AppendCase c{.type = choices.one_of(kTypes)};
  choices.placement(c);
  c.shape.rotary_dim = 2 * choices.between(1, 40);
  c.shape.rotary_offset = choices.between(0, 9);
  c.shape.head_dim =
      (c.shape.rotary_offset + c.shape.rotary_dim + choices.between(0, 9) + 3) / 4 * 4;
  c.shape.value_dim = 4 * choices.between(1, 30);
  c.heads = choices.between(1, 5);
  c.query_heads = choices.between(1, 9);
  c.batch = choices.between(1, 4);
  c.tokens = choices.between(2, 80);
  c.blocks = choices.between(5, 40);
  c.block_size = choices.between(1, 33);
  if (choices.between(0, 2) != 0) {
    c.quantized = choices.one_of(kQuantized);
    c.scale = choices.one_of(kScales);
    c.use = choices.one_of(kUses);
  }
  if (choices.between(0, 1) != 0) c.norm.kind = NormKind::kRms;
  return c;
}

TEST(AppendProperties, AnySlotsPagesAndStrides) {
  Choices choices(5);
  for (int i = 0; i < 100; ++i) expect_chain(any_case(choices));
}

/// Tokens first and on of a view [tokens, heads, head_dim].
template <typename View>
View tokens_of(View x, std::int64_t first, std::int64_t count) {
  const auto offset = first * x.strides[0] * static_cast<std::int64_t>(size_of(x.dtype));
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(x.data)>>,
                                  const std::byte, std::byte>;
  x.data = static_cast<Byte*>(x.data) + offset;
  x.shape[0] = count;
  return x;
}

/// Columns first and on of [1, tokens].
ConstTensorView columns_of(const ConstTensorView& x, std::int64_t first, std::int64_t count) {
  if (x.rank == 0) return x;
  return {
      static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(first) * size_of(x.dtype),
      x.dtype,
      2,
      {1, count},
      x.strides};
}

TEST(AppendProperties, TheSameBitsHoweverTokensAreSplit) {
  Choices choices(6);
  for (int i = 0; i < 40; ++i) {
    AppendCase c = any_case(choices);
    c.batch = 1;
    c.axes = 0;
    if (c.slots == SlotKind::kShort) c.slots = SlotKind::kInt64;
    AppendFixture fixture(c);
    const KvAppend whole = fixture.arguments();
    for (std::int64_t first = 0; first < c.tokens;) {
      const std::int64_t count = choices.between(1, c.tokens - first);
      KvAppend part = whole;
      if (part.q) {
        part.q =
            Operand(tokens_of(whole.q->in, first, count), tokens_of(whole.q->out, first, count));
      }
      part.k = tokens_of(whole.k, first, count);
      part.v = tokens_of(whole.v, first, count);
      const ConstTensorView indices = columns_of(whole.slots.indices(), first, count);
      const ConstTensorView& table = whole.slots.block_table();
      part.slots =
          table.rank == 0
              ? Slots::flat(indices)
              : Slots::paged(table, indices, columns_of(whole.slots.sequences(), first, count));
      fixture.rope().append(part, Positions::range(fixture.positions().start() + first));
      first += count;
    }
    EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << to_string(c);
    EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << to_string(c);
    EXPECT_EQ(fixture.computed(), fixture.expected_computed()) << to_string(c);
  }
}

TEST(AppendProperties, TheSameBitsOnManyThreads) {
  for (const HeadNorm& norm : {HeadNorm{}, HeadNorm{.scope = NormScope::kAllHeads}}) {
    for (const int threads : {1, 3}) {
      const AppendCase c{.type = DType::kBFloat16,
                         .norm = norm,
                         .shape = kWholeHead128,
                         .heads = 8,
                         .batch = 2,
                         .tokens = 300,
                         .blocks = 60,
                         .block_size = 16};
      AppendFixture fixture(c);
      fixture.rope()
          .with_threads({.count = threads})
          .append(fixture.arguments(), fixture.positions());
      EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << threads;
      EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << threads;
    }
  }
}

}  // namespace
}  // namespace rotary::append_table_test
