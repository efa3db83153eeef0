// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A cos/sin cache changes no bit and limits no position, whichever thread fills it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "rope/placed_tensor.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::cache_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Sizes kSizes{.batch = 2, .tokens = 6, .heads = 3, .head_dim = 40};
constexpr std::int64_t kCached = 200;  // not a multiple of the blocks

Rope make_rope(const Cache& cache, const AxisMap& axes = OneAxis{},
               const Scaling& scaling = Yarn{.factor = 4, .original_context = 64},
               Precision precision = Precision::kExact) {
  return Rope(make_frequencies({.rotary_dim = 34, .theta = 1e4, .scaling = scaling, .axes = axes}),
              {.head_dim = kSizes.head_dim,
               .rotary_offset = 3,
               .pairing = Pairing::kInterleaved,
               .output_pairing = Pairing::kHalf},
              {.precision = precision, .cache = cache});
}

using Bits = std::vector<std::uint64_t>;

/// Results of rotate, unrotate and adjoint on the same input.
std::vector<Bits> results(const Rope& rope, DType dtype, const Positions& positions) {
  std::vector<Bits> list;
  const PlacedTensor x(Layout::kHeadsFirst, dtype, kSizes, 1);
  rope.rotate(x.view(), positions);
  list.push_back(x.bits());
  rope.unrotate(x.view(), positions);
  list.push_back(x.bits());
  rope.adjoint(x.view(), positions);
  list.push_back(x.bits());
  rope.shift(x.view(), positions);
  list.push_back(x.bits());
  return list;
}

/// Positions inside the table, at its edges, across them and far away, in every form.
class ManyPositions {
 public:
  std::vector<std::pair<std::string, Positions>> list() const {
    return {{"inside", Positions::range(17)},
            {"from the start", Positions::range(0)},
            {"to the end", Positions::range(kCached - kSizes.tokens)},
            {"across the end", Positions::range(kCached - 2)},
            {"beyond", Positions::range(kCached)},
            {"across zero", Positions::range(-3)},
            {"far", Positions::range(std::int64_t{1} << 40)},
            {"far below", Positions::range(-(std::int64_t{1} << 40))},
            {"rows", Positions::range(rows_)},
            {"at rows", Positions::at(rows_)},
            {"at", Positions::at(kCached - 1)},
            {"ids", Positions::ids(ids_)},
            {"int32", Positions::ids(int32_)},
            {"whole reals", Positions::ids(whole_)},
            {"reals", Positions::ids(real_)},
            {"packed", Positions::packed(boundaries_)},
            {"packed, placed", Positions::packed(boundaries_, starts_)}};
  }

 private:
  std::vector<std::int64_t> rows_ = {3, kCached - 1};
  std::vector<std::int64_t> ids_ = {0, kCached - 1, kCached, -1, 64, 63};
  std::vector<std::int32_t> int32_ = {127, 128, 129, 127, 5, 199};
  std::vector<float> whole_ = {0.0f, 1.0f, 199.0f, 200.0f, 64.0f, -1.0f};
  std::vector<double> real_ = {0.0, 1.5, 199.5, 200.25, 63.99, -0.5};
  std::vector<std::int64_t> boundaries_ = {0, 2, 2, 6};
  std::vector<std::int64_t> starts_ = {198, 0, 62};
};

TEST(Cache, ChangesNoBit) {
  const ManyPositions positions;
  for (const Precision precision : {Precision::kExact, Precision::kReference}) {
    for (const Scaling& scaling :
         {Scaling(Plain{}), Scaling(Yarn{.factor = 4, .original_context = 64}), Scaling(Xpos{})}) {
      const Rope none = make_rope({}, OneAxis{}, scaling, precision);
      const Rope all = make_rope({CachePolicy::kAll, kCached}, OneAxis{}, scaling, precision);
      for (const DType dtype : kTypes) {
        for (const auto& [name, at] : positions.list()) {
          const auto wanted = results(none, dtype, at);
          EXPECT_EQ(results(all, dtype, at), wanted) << name << ' ' << name_of(dtype);
          // A new rope for each: the first call fills the cache, the second reads it.
          const Rope hybrid =
              make_rope({CachePolicy::kHybrid, kCached}, OneAxis{}, scaling, precision);
          EXPECT_EQ(results(hybrid, dtype, at), wanted) << name << ' ' << name_of(dtype);
          EXPECT_EQ(results(hybrid, dtype, at), wanted) << name << ' ' << name_of(dtype);
        }
      }
    }
  }
}

// Text tokens of M-RoPE use the table; image tokens, with a position per axis, do not.
TEST(Cache, SeveralAxes) {
  const ManyPositions positions;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 3 * kSizes.tokens; ++i) ids.push_back((i * 71) % 211 - 3);
  const Positions image =
      Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {3, kSizes.tokens}));
  const Mrope mrope{{6, 6, 5}, MropeOrder::kInterleaved};
  const Rope none = make_rope({}, mrope);
  for (const CachePolicy policy : {CachePolicy::kAll, CachePolicy::kHybrid}) {
    const Rope rope = make_rope({policy, kCached}, mrope);
    for (const DType dtype : kTypes) {
      for (const auto& [name, at] : positions.list()) {
        EXPECT_EQ(results(rope, dtype, at.on_all_axes()), results(none, dtype, at.on_all_axes()))
            << name << ' ' << name_of(dtype);
      }
      EXPECT_EQ(results(rope, dtype, image), results(none, dtype, image)) << name_of(dtype);
    }
  }
}

// Sizes 0, 1, and just below and above the blocks; options() returns them.
TEST(Cache, AnySize) {
  const Rope none = make_rope({});
  for (const std::int64_t n : {0, 1, 2, 63, 64, 65, 127, 128, 129}) {
    for (const CachePolicy policy : {CachePolicy::kNone, CachePolicy::kAll, CachePolicy::kHybrid}) {
      const Rope rope = make_rope({policy, n});
      EXPECT_EQ(rope.options().cache.policy, policy);
      EXPECT_EQ(rope.options().cache.positions, n);
      for (const std::int64_t first : {std::int64_t{0}, n - 3, n}) {
        const Positions at = Positions::range(first);
        EXPECT_EQ(results(rope, DType::kFloat32, at), results(none, DType::kFloat32, at)) << n;
      }
    }
  }
}

// A hybrid cache of a million positions commits only the memory in use.
TEST(Cache, HybridUsesMemoryOnDemand) {
  const Rope rope = make_rope({CachePolicy::kHybrid, 1 << 20});
  const Rope none = make_rope({});
  for (const std::int64_t first : {0, 1 << 19, (1 << 20) - 3}) {
    const Positions at = Positions::range(first);
    EXPECT_EQ(results(rope, DType::kBFloat16, at), results(none, DType::kBFloat16, at)) << first;
  }
}

// Many threads use the same and other blocks of a new rope at once.
TEST(Cache, ConcurrentFirstUse) {
  constexpr int kThreads = 8;
  const Rope none = make_rope({});
  std::vector<Bits> wanted;
  for (int i = 0; i < 3 * kThreads; ++i) {
    wanted.push_back(results(none, DType::kFloat32, Positions::range(32 * i)).back());
  }
  for (int round = 0; round < 5; ++round) {
    const Rope rope = make_rope({CachePolicy::kHybrid, 700});
    std::atomic<int> waiting = kThreads;
    std::vector<int> wrong(kThreads, 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        for (int j = 0; j < 3 * kThreads; ++j) {
          const int part = (j + 3 * (i / 2)) % (3 * kThreads);  // two threads on each
          const Rope copy = rope.with_threads({.count = 1, .run = {}});
          if (results(copy, DType::kFloat32, Positions::range(32 * part)).back() !=
              wanted[static_cast<std::size_t>(part)]) {
            ++wrong[static_cast<std::size_t>(i)];
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  }
}

TEST(Cache, RejectsInvalidSizes) {
  const auto rejects = [](CachePolicy policy, std::int64_t positions, const std::string& value) {
    expect_rejected([&] { make_rope({policy, positions}); }, "Rope", "cache", value);
  };
  for (const CachePolicy policy : {CachePolicy::kAll, CachePolicy::kHybrid}) {
    rejects(policy, -1, "got -1");
    rejects(policy, kMax, "got 9223372036854775807");
    rejects(policy, -kMax - 1, "got -9223372036854775808");
    // 17 pairs of 8 bytes: 2^40 bytes hold 8,084,644,321 positions.
    rejects(policy, 8084644322, "got 8084644322");
  }
}

}  // namespace
}  // namespace rotary::cache_test
