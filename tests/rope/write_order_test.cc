// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Write orders: their names, where they come from, what the engine takes, and calls of several
// tensors in every order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rope/on_every_target.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

constexpr const char* kVariable = "ROTARY_WRITE_ORDER";

/// Sets the environment variable until the end of the scope.
class ScopedVariable {
 public:
  explicit ScopedVariable(const char* value) { setenv(kVariable, value, 1); }
  ~ScopedVariable() { unsetenv(kVariable); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
};

Rope make_rope(std::int64_t head_dim, Pairing pairing, const RopeOptions& options = {}) {
  return Rope(make_frequencies({.rotary_dim = head_dim, .theta = 1e4}),
              {.head_dim = head_dim, .pairing = pairing}, options);
}

TEST(WriteOrder, NamesAreRead) {
  for (const HeadOrder heads :
       {HeadOrder::kAuto, HeadOrder::kColumns, HeadOrder::kLines, HeadOrder::kAddress}) {
    for (const std::int64_t block : {std::int64_t{0}, std::int64_t{1}, kMaxBlockTokens}) {
      const WriteOrder order{heads, block};
      EXPECT_EQ(parse_write_order(name_of(order)), order) << name_of(order);
    }
  }
  EXPECT_EQ(name_of(WriteOrder{HeadOrder::kLines, 64}), "lines:64");
  EXPECT_EQ(name_of(WriteOrder{HeadOrder::kAddress}), "address");
}

TEST(WriteOrder, OtherTextIsNone) {
  for (const char* text : {"", "line", "Lines", "lines:", "lines:0", "lines:257", "lines:-1",
                           "lines:64 ", "lines:x", ":64", "lines:64:1", "lines,64"}) {
    EXPECT_FALSE(parse_write_order(text)) << text;
  }
}

TEST(WriteOrder, RejectsBlocksOutOfRange) {
  for (const std::int64_t block : {std::int64_t{-1}, kMaxBlockTokens + 1}) {
    EXPECT_THROW(make_rope(64, Pairing::kHalf, {.order = {.block = block}}), std::invalid_argument);
    EXPECT_THROW(make_rope(64, Pairing::kHalf).with_order({.block = block}), std::invalid_argument);
  }
}

TEST(WriteOrder, TheEnvironmentSetsWhatARopeLeavesOpen) {
  std::vector<float> x(2 * 64);
  const auto view = TensorView::contiguous(x.data(), DType::kFloat32, {1, 2, 64});
  const ScopedVariable variable("address:7");
  const auto order_of = [&](const WriteOrder& order) {
    return make_rope(64, Pairing::kHalf, {.order = order}).write_order({view});
  };
  EXPECT_EQ(order_of({}), (WriteOrder{HeadOrder::kAddress, 7}));
  EXPECT_EQ(order_of({.heads = HeadOrder::kLines}), (WriteOrder{HeadOrder::kLines, 7}));
  EXPECT_EQ(order_of({.block = 3}), (WriteOrder{HeadOrder::kAddress, 3}));
  EXPECT_EQ(make_rope(64, Pairing::kHalf).options().order, WriteOrder{});
}

TEST(WriteOrder, RejectsAnEnvironmentThatIsNoOrder) {
  const ScopedVariable variable("sideways");
  try {
    make_rope(64, Pairing::kHalf);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(kVariable));
    EXPECT_THAT(error.what(), testing::HasSubstr("'sideways'"));
  }
  std::vector<float> table(64);
  const auto rows = ConstTensorView::contiguous(table.data(), DType::kFloat32, {1, 32});
  EXPECT_THROW(
      TableRope({rows, rows}, {.head_dim = 64, .pairing = Pairing::kHalf}, TableWidth::kPairs),
      std::invalid_argument);
}

TEST(WriteOrder, AnEmptyVariableIsNone) {
  const ScopedVariable variable("");
  EXPECT_NO_THROW(make_rope(64, Pairing::kHalf));
}

TEST(WriteOrder, TheEngineLeavesNothingOpen) {
  std::vector<float> x(2 * 64);
  const auto view = TensorView::contiguous(x.data(), DType::kFloat32, {1, 2, 64});
  const WriteOrder order = make_rope(64, Pairing::kHalf).write_order({view});
  EXPECT_EQ(order, (WriteOrder{HeadOrder::kColumns, 1}));  // what lies in cache
}

/// The results of q and k.
struct Results {
  std::vector<std::uint64_t> q;
  std::vector<std::uint64_t> k;
  friend bool operator==(const Results&, const Results&) = default;
};

struct CallCase {
  const char* name;
  std::int64_t head_dim;
  std::int64_t rotary_dim;
  Sizes sizes;  // of q; k has one head
  bool is_in_place;
  CachePolicy cache;
};

Results rotate(const Rope& rope, const CallCase& c, DType q_type, DType k_type) {
  Sizes q_sizes = c.sizes;
  q_sizes.head_dim = c.head_dim;
  Sizes k_sizes = q_sizes;
  k_sizes.heads = 1;
  const PlacedTensor q(Layout::kContiguous, q_type, q_sizes, 1);
  const PlacedTensor k(Layout::kContiguous, k_type, k_sizes, 2);
  if (c.is_in_place) {
    rope.rotate({q.view(), k.view()}, Positions::range(5));
    return {q.bits(), k.bits()};
  }
  const PlacedTensor q_out(Layout::kContiguous, q_type, q_sizes, 3, 0);
  const PlacedTensor k_out(Layout::kContiguous, k_type, k_sizes, 4, 2);
  rope.rotate({{q.view(), q_out.view()}, {k.view(), k_out.view()}}, Positions::range(5));
  return {q_out.bits(), k_out.bits()};
}

constexpr std::pair<DType, DType> kTypesOfTwo[] = {{DType::kFloat32, DType::kFloat32},
                                                   {DType::kBFloat16, DType::kFloat16},
                                                   {DType::kFloat16, DType::kBFloat16},
                                                   {DType::kFloat64, DType::kFloat32}};

class SeveralTensorsTest : public testing::TestWithParam<CallCase> {};

// Blocks end within a batch row, at its end and past it, and are cut where rows of cos and sin do
// not fit into the buffer of a call.
TEST_P(SeveralTensorsTest, EveryOrderGivesTheSameBits) {
  const CallCase& c = GetParam();
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    for (const std::pair<DType, DType>& types : kTypesOfTwo) {
      const DType q_type = types.first;
      const DType k_type = types.second;
      RopeOptions options;
      options.cache = {.policy = c.cache, .positions = 60};  // ends within the call
      options.threads.count = 1;
      const Rope rope(make_frequencies({.rotary_dim = c.rotary_dim, .theta = 1e4}),
                      {.head_dim = c.head_dim, .pairing = pairing}, options);
      const Results expected = rotate(rope.with_order({HeadOrder::kColumns, 1}), c, q_type, k_type);
      on_every_target([&](std::string_view) {
        for (const HeadOrder heads :
             {HeadOrder::kAuto, HeadOrder::kColumns, HeadOrder::kLines, HeadOrder::kAddress}) {
          for (const std::int64_t block : {1, 2, 7, 16, 64, 256}) {
            const WriteOrder order{heads, block};
            ASSERT_EQ(rotate(rope.with_order(order), c, q_type, k_type), expected)
                << name_of(order);
          }
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SeveralTensorsTest,
    testing::Values(CallCase{"whole_lines", 128, 128, {1, 70, 3, 0}, false, CachePolicy::kNone},
                    CallCase{"whole_lines_cached", 64, 64, {1, 70, 3, 0}, false, CachePolicy::kAll},
                    CallCase{"hybrid", 64, 64, {2, 50, 2, 0}, true, CachePolicy::kHybrid},
                    CallCase{"batch", 96, 96, {3, 9, 9, 0}, false, CachePolicy::kNone},
                    CallCase{"batch_of_few_heads", 64, 64, {5, 3, 2, 0}, true, CachePolicy::kNone},
                    CallCase{"some_vectors", 80, 80, {2, 20, 3, 0}, false, CachePolicy::kNone},
                    CallCase{"odd", 90, 90, {2, 20, 3, 0}, false, CachePolicy::kNone},
                    CallCase{"part_of_a_head", 100, 64, {1, 40, 2, 0}, false, CachePolicy::kAll},
                    CallCase{"many_pairs", 500, 500, {1, 12, 2, 0}, false, CachePolicy::kNone},
                    CallCase{"on_the_heap", 600, 600, {1, 20, 2, 0}, false, CachePolicy::kNone}),
    [](const testing::TestParamInfo<CallCase>& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace rotary
