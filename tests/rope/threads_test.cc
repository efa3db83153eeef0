// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Threads change no bit of a result: any count, any pool, any order, many callers.

#include "rotary/threads.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "cpu/parallel.h"
#include "reference/elements.h"
#include "rope/placed_tensor.h"
#include "rope/pools.h"
#include "rope/rejects.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr std::int64_t kHeadDim = 64;
/// Large enough for five threads with any type: 1.3 MB with k. No thread count divides it.
Sizes large(DType dtype) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  return {.batch = 3, .tokens = 803 / size, .heads = 5, .head_dim = kHeadDim};
}

Rope make_rope(const Threads& threads, const Cache& cache = {}) {
  return Rope(
      make_frequencies(
          {.rotary_dim = 48, .theta = 1e4, .scaling = Yarn{.factor = 4, .original_context = 64}}),
      {.head_dim = kHeadDim,
       .rotary_offset = 8,
       .pairing = Pairing::kHalf,
       .output_pairing = Pairing::kInterleaved},
      {.cache = cache, .threads = threads});
}

using Bits = std::vector<std::uint64_t>;
using Call = std::function<void(const Rope&, const Operands&)>;

/// Every call that uses several threads.
std::vector<Call> calls() {
  return {[](const Rope& r, const Operands& x) { r.rotate(x, Positions::range(77)); },
          [](const Rope& r, const Operands& x) { r.unrotate(x, Positions::range(77)); },
          [](const Rope& r, const Operands& x) { r.adjoint(x, Positions::range(-77)); },
          [](const Rope& r, const Operands& x) { r.shift(x, Positions::at(-9)); },
          [](const Rope& r, const Operands& x) {
            const Rope to(make_frequencies({.rotary_dim = 48, .theta = 5e5}), r.layout(),
                          {.threads = r.options().threads});
            rerotate(x, r, to, Positions::range(5));
          },
          [](const Rope& r, const Operands& x) {
            const std::vector<std::int64_t> boundaries = {0, 10, 10, 100, x.list()[0].in.shape[1]};
            r.rotate(x, Positions::packed(boundaries));
          },
          [](const Rope& r, const Operands& x) {
            const std::vector<std::int64_t> rows = {5, 900, -3};
            r.rotate(x, Positions::range(rows));
          }};
}

/// q in place and k out of place, for repeated calls.
class Tensors {
 public:
  Tensors(DType dtype, Layout layout)
      : q_(layout, dtype, large(dtype), 1),
        k_(layout, dtype, fewer_heads(dtype), 2),
        out_(Layout::kContiguous, dtype, fewer_heads(dtype), 3),
        q_before_(q_.snapshot()),
        out_before_(out_.snapshot()) {}

  /// The results of the call.
  std::pair<reference::Elements, reference::Elements> result(const Rope& rope, const Call& call) {
    q_.restore(q_before_);
    out_.restore(out_before_);
    call(rope, {q_.view(), {k_.view(), out_.view()}});
    return {q_.memory(), out_.memory()};
  }

 private:
  static Sizes fewer_heads(DType dtype) {
    Sizes sizes = large(dtype);
    sizes.heads = 2;
    return sizes;
  }
  PlacedTensor q_;
  PlacedTensor k_;
  PlacedTensor out_;
  reference::Elements q_before_;
  reference::Elements out_before_;
};

TEST(Threads, SameBitsOnAnyThreads) {
  const Rope one = make_rope({.count = 1, .run = {}});
  for (const DType dtype : kTypes) {
    Tensors tensors(dtype, size_of(dtype) == 2 ? Layout::kContiguous : Layout::kHeadsFirst);
    const Call call = calls()[0];
    const auto wanted = tensors.result(one, call);
    for (const auto& [name, threads] : all_threads()) {
      EXPECT_TRUE(tensors.result(one.with_threads(threads), call) == wanted)
          << name << ' ' << name_of(dtype);
    }
  }
}

TEST(Threads, SameBitsOfEveryCall) {
  const Rope one = make_rope({.count = 1, .run = {}});
  // Also with threads at construction, and with a cache.
  const Rope made = make_rope({.count = 3, .run = run_on_threads}, {CachePolicy::kHybrid, 150});
  for (const DType dtype : kTypes) {
    Tensors tensors(dtype, size_of(dtype) == 2 ? Layout::kHeadsFirst : Layout::kContiguous);
    for (const Call& call : calls()) {
      const auto wanted = tensors.result(one, call);
      EXPECT_TRUE(tensors.result(made, call) == wanted) << name_of(dtype);
      for (const auto& [name, threads] : some_threads()) {
        EXPECT_TRUE(tensors.result(one.with_threads(threads), call) == wanted)
            << name << ' ' << name_of(dtype);
      }
    }
  }
}

TEST(Threads, SameBitsFromTables) {
  const Sizes sizes = large(DType::kBFloat16);
  std::vector<float> cos(static_cast<std::size_t>(sizes.tokens * 24));
  std::vector<float> sin(cos.size());
  for (std::size_t i = 0; i < cos.size(); ++i) {
    cos[i] = 0.8f - 0.001f * static_cast<float>(i % 97);
    sin[i] = 0.1f + 0.001f * static_cast<float>(i % 89);
  }
  const auto view = [&sizes](const std::vector<float>& x) {
    return ConstTensorView::contiguous(x.data(), DType::kFloat32, {sizes.tokens, 24});
  };
  const auto rotated = [&](const Threads& threads) {
    const TableRope rope({view(cos), view(sin)}, {.head_dim = kHeadDim, .pairing = Pairing::kHalf},
                         TableWidth::kPairs, threads);
    const PlacedTensor x(Layout::kContiguous, DType::kBFloat16, sizes, 1);
    rope.rotate(x.view());
    rope.unrotate(x.view(), Positions::range());
    return x.bits();
  };
  const Bits wanted = rotated({.count = 1, .run = {}});
  for (const auto& [name, threads] : some_threads()) EXPECT_EQ(rotated(threads), wanted) << name;
}

// A large call uses the pool once, with at most the number of tasks it allows.
TEST(Threads, PoolIsCalledOnce) {
  for (const DType dtype : kTypes) {
    const PlacedTensor q(Layout::kContiguous, dtype, large(dtype), 1);
    const PlacedTensor k(Layout::kContiguous, dtype, large(dtype), 2);
    for (const int count : {2, 3, 5}) {
      int asked = 0;
      int most = 0;
      const Threads threads{.count = count,
                            .run = [&](int tasks, const std::function<void(int)>& task) {
                              ++asked;
                              most = tasks;
                              run_on_threads(tasks, task);
                            }};
      make_rope(threads).rotate({q.view(), k.view()}, Positions::range());
      EXPECT_EQ(asked, 1) << name_of(dtype);
      EXPECT_EQ(most, count) << name_of(dtype);
    }
  }
}

// A decoding step, or one thread, needs no pool.
TEST(Threads, SmallCallsUseTheCallingThread) {
  bool asked = false;
  const ParallelFor run = [&asked](int tasks, const std::function<void(int)>& task) {
    asked = true;
    run_here(tasks, task);
  };
  const PlacedTensor q(Layout::kContiguous, DType::kBFloat16, {1, 1, 32, kHeadDim}, 1);
  const PlacedTensor k(Layout::kContiguous, DType::kBFloat16, {1, 1, 8, kHeadDim}, 2);
  make_rope({.count = 8, .run = run}).rotate({q.view(), k.view()}, Positions::at(131071));
  EXPECT_FALSE(asked);
  const PlacedTensor x(Layout::kContiguous, DType::kFloat32, large(DType::kFloat32), 3);
  make_rope({.count = 1, .run = run}).rotate(x.view(), Positions::range());
  EXPECT_FALSE(asked);
  make_rope({.count = 2, .run = run}).rotate(x.view(), Positions::range());
  EXPECT_TRUE(asked);
}

// Invalid calls are rejected before the pool is called.
TEST(Threads, ErrorsAreFoundBeforeThreadsStart) {
  bool asked = false;
  const Rope rope = make_rope(
      {.count = 4, .run = [&asked](int, const std::function<void(int)>&) { asked = true; }});
  const PlacedTensor x(Layout::kContiguous, DType::kFloat32, large(DType::kFloat32), 1);
  const std::vector<std::int64_t> few = {1};
  EXPECT_THROW(rope.rotate(x.view(), Positions::ids(few)), std::invalid_argument);
  EXPECT_FALSE(asked);
}

TEST(Threads, RejectsNegativeCount) {
  expect_rejected([] { make_rope({.count = -1, .run = {}}); }, "Rope",
                  "threads.count must not be negative", "got -1");
  expect_rejected([] { make_rope({}).with_threads({.count = -2, .run = {}}); }, "with_threads",
                  "threads.count must not be negative", "got -2");
}

// with_threads() shares the rotation and does not change the original.
TEST(Threads, WithThreadsSharesTables) {
  const Rope one = make_rope({.count = 1, .run = {}}, {CachePolicy::kAll, 100});
  const Rope other = one.with_threads({.count = 5, .run = run_here});
  EXPECT_EQ(one.options().threads.count, 1);
  EXPECT_FALSE(one.options().threads.run);
  EXPECT_EQ(other.options().threads.count, 5);
  EXPECT_TRUE(other.options().threads.run);
  EXPECT_EQ(other.options().cache.policy, CachePolicy::kAll);
  EXPECT_EQ(other.frequencies().values, one.frequencies().values);
  EXPECT_EQ(other.layout().output_pairing, Pairing::kInterleaved);
  // It outlives the original.
  const Rope heir =
      make_rope({}, {CachePolicy::kHybrid, 200}).with_threads({.count = 1, .run = {}});
  Tensors tensors(DType::kFloat32, Layout::kContiguous);
  const Call call = calls()[0];
  EXPECT_TRUE(tensors.result(heir, call) == tensors.result(one, call));
}

// One rope, many calling threads, each with its own pool.
TEST(Threads, ManyCallers) {
  constexpr int kCallers = 4;
  const Rope rope = make_rope({.count = 2, .run = run_on_threads}, {CachePolicy::kHybrid, 1000});
  const std::vector<Call> list = calls();
  Tensors tensors(DType::kFloat32, Layout::kContiguous);
  std::vector<std::pair<reference::Elements, reference::Elements>> wanted;
  for (const Call& call : list) {
    wanted.push_back(tensors.result(make_rope({.count = 1, .run = {}}), call));
  }
  std::vector<int> wrong(kCallers, 0);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      Tensors mine(DType::kFloat32, Layout::kContiguous);
      for (std::size_t j = 0; j < list.size(); ++j) {
        const std::size_t n = (j + static_cast<std::size_t>(i)) % list.size();
        if (mine.result(rope, list[n]) != wanted[n]) {
          ++wrong[static_cast<std::size_t>(i)];
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<int>(kCallers, 0));
}

// Inside a parallel region of the caller no further threads are started. Without OpenMP the region
// is a plain loop, and there are none to start.
TEST(Threads, InsideAParallelRegion) {
  const Rope rope = make_rope({});
  const Call call = calls()[0];
  const auto wanted = Tensors(DType::kFloat32, Layout::kContiguous).result(rope, call);
  std::vector<int> wrong(4, 0);
  std::vector<int> counts(4, 0);
#ifdef _OPENMP
#pragma omp parallel for num_threads(4)
#endif
  for (int i = 0; i < 4; ++i) {
    Tensors mine(DType::kFloat32, Layout::kContiguous);
    if (mine.result(rope, call) != wanted) ++wrong[static_cast<std::size_t>(i)];
    counts[static_cast<std::size_t>(i)] = internal::count_of({.count = 3, .run = {}});
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_EQ(counts, std::vector<int>(4, 1));
}

}  // namespace
}  // namespace rotary
