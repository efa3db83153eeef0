// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls do not allocate while rotary_dim is at most 512: operator new is counted.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "rope/placed_tensor.h"
#include "rope/pools.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace {

std::atomic<std::int64_t> allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size == 0 ? 1 : size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: GCC would warn of memory from new that goes to free().
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

std::int64_t allocations_of(const std::function<void()>& call) {
  const std::int64_t before = allocations;
  call();
  return allocations - before;
}

TEST(Allocation, IsCounted) {
  EXPECT_GT(allocations_of([] { std::vector<double> x(1000, 1.0); }), 0);
  EXPECT_EQ(allocations_of([] {}), 0);
}

/// A rope of a width, tensors for it, and every call.
class Calls {
 public:
  Calls(std::int64_t rotary_dim, const Sizes& sizes, DType dtype, const RopeOptions& options,
        const AxisMap& axes = OneAxis{})
      : rope_(make_frequencies({.rotary_dim = rotary_dim,
                                .theta = 1e4,
                                .scaling = Yarn{.factor = 4, .original_context = 64},
                                .axes = axes}),
              {.head_dim = sizes.head_dim,
               .rotary_offset = 1,
               .pairing = Pairing::kInterleaved,
               .output_pairing = Pairing::kHalf},
              options),
        to_(make_frequencies({.rotary_dim = rotary_dim, .theta = 5e5, .axes = axes}),
            rope_.layout(), options),
        q_(Layout::kHeadsFirst, dtype, sizes, 1),
        k_(Layout::kContiguous, dtype, sizes, 2),
        out_(Layout::kContiguous, dtype, sizes, 3),
        table_memory_(static_cast<std::size_t>(sizes.tokens * rotary_dim / 2), 0.5f),
        table_({table(rotary_dim, sizes), table(rotary_dim, sizes)}, rope_.layout(),
               TableWidth::kPairs, options.threads) {}

  /// Allocations of all calls with these positions, as text: empty where there are none.
  std::string allocating(const Positions& positions, const Positions& delta) const {
    std::string names;
    const auto count = [&names](const char* name, const std::function<void()>& call) {
      // The first call may start OpenMP's threads.
      call();
      if (allocations_of(call) != 0) names += std::string(name) + ' ';
    };
    count("rotate", [&] { rope_.rotate({q_.view(), k_.view()}, positions); });
    count("out of place", [&] { rope_.rotate(k_.view(), out_.view(), positions); });
    count("unrotate", [&] { rope_.unrotate({q_.view(), k_.view()}, positions); });
    count("adjoint", [&] { rope_.adjoint(q_.view(), positions); });
    count("shift", [&] { rope_.shift(k_.view(), delta); });
    count("rerotate", [&] { rerotate(k_.view(), rope_, to_, positions); });
    count("gradient", [&] {
      const GradientOperand operands[] = {{q_.view(), k_.view(), out_.view()}};
      rope_.gradient(operands, positions);
    });
    if (rope_.frequencies().axes == 1) {
      count("table rotate", [&] { table_.rotate({q_.view(), k_.view()}); });
      count("table unrotate", [&] { table_.unrotate({{k_.view(), out_.view()}}); });
      count("table adjoint", [&] { table_.adjoint(q_.view(), Positions::range()); });
    }
    return names;
  }
  const Rope& rope() const { return rope_; }
  const PlacedTensor& q() const { return q_; }

 private:
  ConstTensorView table(std::int64_t rotary_dim, const Sizes& sizes) const {
    return ConstTensorView::contiguous(table_memory_.data(), DType::kFloat32,
                                       {sizes.tokens, rotary_dim / 2});
  }
  Rope rope_;
  Rope to_;
  PlacedTensor q_;
  PlacedTensor k_;
  PlacedTensor out_;
  std::vector<float> table_memory_;
  TableRope table_;
};

TEST(Allocation, NoneUpTo512) {
  constexpr Sizes kSizes{.batch = 2, .tokens = 70, .heads = 3, .head_dim = 520};
  const std::vector<double> real(kSizes.tokens, 0.37);
  const std::vector<std::int64_t> boundaries = {0, 30, kSizes.tokens};
  const std::vector<std::int64_t> starts = {100, -5};
  std::vector<NamedThreads> threads = {{"one", {.count = 1, .run = {}}},
                                       {"OpenMP", {.count = 2, .run = {}}},
                                       {"a pool", {.count = 2, .run = run_here}}};
  for (const DType dtype : kTypes) {
    for (const auto& [name, on] : threads) {
      SCOPED_TRACE(std::string(name_of(dtype)) + ' ' + name);
      const Calls calls(512, kSizes, dtype, {.threads = on});
      EXPECT_EQ(calls.allocating(Positions::range(60), Positions::at(3)), "");
      EXPECT_EQ(calls.allocating(Positions::ids(real), Positions::ids(real)), "");
      EXPECT_EQ(calls.allocating(Positions::packed(boundaries, starts),
                                 Positions::packed_at(boundaries, starts)),
                "");
      for (const CachePolicy policy : {CachePolicy::kAll, CachePolicy::kHybrid}) {
        const Calls cached(512, kSizes, dtype, {.cache = {policy, 100}, .threads = on});
        EXPECT_EQ(cached.allocating(Positions::range(60), Positions::at(3)), "");
      }
      const Calls axes(128, kSizes, dtype, {.threads = on}, Mrope{{24, 20, 20}});
      EXPECT_EQ(axes.allocating(Positions::range().on_all_axes(), Positions::at(3).on_all_axes()),
                "");
    }
  }
}

// The memory of a hybrid cache exists before: the first call that needs a block does not allocate.
TEST(Allocation, NoneWhenTheTableIsFilled) {
  constexpr Sizes kSizes{.batch = 1, .tokens = 70, .heads = 3, .head_dim = 130};
  const Calls calls(128, kSizes, DType::kFloat32,
                    {.cache = {CachePolicy::kHybrid, 1000}, .threads = {.count = 1, .run = {}}});
  EXPECT_EQ(allocations_of([&] { calls.rope().rotate(calls.q().view(), Positions::range()); }), 0);
  EXPECT_EQ(allocations_of([&] { calls.rope().rotate(calls.q().view(), Positions::range(500)); }),
            0);
}

// Copies of a rope share its memory.
TEST(Allocation, CopiesShare) {
  constexpr Sizes kSizes{.batch = 1, .tokens = 1, .heads = 1, .head_dim = 66};
  const Calls calls(64, kSizes, DType::kFloat32, {});
  EXPECT_EQ(allocations_of([&] { const Rope copy = calls.rope(); }), 0);
}

}  // namespace
}  // namespace rotary
