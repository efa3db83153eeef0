// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>

#include "roformer/data/ordered_workers.h"
#include "roformer/data/permutation.h"
#include "roformer/data/random.h"
#include "roformer/roformer_testing.h"

namespace rotary::roformer {
namespace {

/// Gives 0 ... count - 1.
std::function<bool(int&)> up_to(int count, std::atomic<int>* taken = nullptr) {
  return [count, next = 0, taken](int& out) mutable {
    if (next == count) return false;
    out = next++;
    if (taken != nullptr) ++*taken;
    return true;
  };
}

TEST(WorkersTest, ResultsAreInOrderWithAnyNumberOfThreads) {
  for (const std::size_t threads : {1u, 2u, 5u}) {
    OrderedWorkers<int, std::string> workers(
        up_to(1000), [](int& in, std::string& out) { out = std::to_string(in); }, threads, 7);
    std::string out;
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(workers.next(out));
      ASSERT_EQ(out, std::to_string(i));
    }
    EXPECT_FALSE(workers.next(out));
    EXPECT_FALSE(workers.next(out));
  }
}

TEST(WorkersTest, ReadsAheadAtMostTheWindow) {
  std::atomic<int> taken = 0;
  std::atomic<int> max_ahead = 0;
  std::atomic<int> returned = 0;
  OrderedWorkers<int, int> workers(
      up_to(500, &taken),
      [&](int& in, int& out) {
        out = in;
        const int ahead = in + 1 - returned;
        int before = max_ahead;
        while (ahead > before && !max_ahead.compare_exchange_weak(before, ahead)) {
        }
      },
      3, 5);
  for (int out = 0; workers.next(out);) ++returned;
  EXPECT_EQ(returned, 500);
  // `returned` is incremented after next() has released a slot.
  EXPECT_LE(max_ahead, 5 + 1);
}

TEST(WorkersTest, RethrowsInOrderAndThenEnds) {
  for (const bool in_read : {true, false}) {
    int number = 0;
    OrderedWorkers<int, int> workers(
        [&](int& out) {
          if (in_read && number == 10) throw std::runtime_error("broken");
          out = number++;
          return true;
        },
        [&](int& in, int& out) {
          if (!in_read && in == 10) throw std::runtime_error("broken");
          out = in;
        },
        3, 4);
    int out = 0;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(workers.next(out));
      EXPECT_EQ(out, i);
    }
    EXPECT_EQ(thrown([&] { workers.next(out); }), "broken");
    EXPECT_EQ(thrown([&] { workers.next(out); }), "broken");
  }
}

TEST(WorkersTest, DestructorStopsTheThreads) {
  std::atomic<int> taken = 0;
  {
    OrderedWorkers<int, int> workers(
        up_to(1 << 30, &taken), [](int& in, int& out) { out = in; }, 4, 8);
    int out = 0;
    EXPECT_TRUE(workers.next(out));
  }
  const int after = taken;
  EXPECT_LE(after, 9);
  Prefetch<int> ahead(up_to(3), 2);
  int out = 0;
  EXPECT_TRUE(ahead.next(out));
}

TEST(PermutationTest, IsABijectionForEverySize) {
  for (const std::uint64_t size : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 4097u}) {
    const Permutation order(size, 1, 2);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) {
      EXPECT_LT(order(i), size);
      seen.insert(order(i));
    }
    EXPECT_EQ(seen.size(), size);
  }
  const Permutation large((std::uint64_t{1} << 62) + 3, 1, 2);
  EXPECT_LE(large(5), std::uint64_t{1} << 62);
}

TEST(PermutationTest, SeedsAndStreamsChangeTheOrder) {
  constexpr std::uint64_t kSize = 1000;
  const Permutation order(kSize, 1, 0);
  for (const auto& other : {Permutation(kSize, 2, 0), Permutation(kSize, 1, 1)}) {
    int equal = 0;
    for (std::uint64_t i = 0; i < kSize; ++i) equal += order(i) == other(i) ? 1 : 0;
    EXPECT_LT(equal, 20);  // one is expected
  }
  // Adjacent indices are separated: their mean distance is a third of the range.
  double distance = 0;
  for (std::uint64_t i = 0; i + 1 < kSize; ++i) {
    distance += std::abs(static_cast<double>(order(i)) - static_cast<double>(order(i + 1)));
  }
  EXPECT_NEAR(distance / kSize, kSize / 3.0, kSize / 15.0);
}

TEST(RandomTest, IsAFunctionOfItsKeyAndUniform) {
  EXPECT_EQ(Random(1, 2).next(), Random(1, 2).next());
  EXPECT_NE(Random(1, 2).next(), Random(2, 1).next());
  std::array<int, 10> seen{};
  Random random(5, 6);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    ++seen[random.below(10)];
    sum += random.uniform();
  }
  for (const int count : seen) EXPECT_NEAR(count, 10000, 400);
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

}  // namespace
}  // namespace rotary::roformer
