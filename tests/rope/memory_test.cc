// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Overlap of views, against lists of all their addresses.

#include "rope/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace rotary::internal::memory_test {
namespace {

/// Addresses of all elements, in bytes.
std::vector<std::intptr_t> addresses(const ConstTensorView& v) {
  std::vector<std::intptr_t> list = {reinterpret_cast<std::intptr_t>(v.data)};
  for (std::size_t i = 0; i < static_cast<std::size_t>(v.rank); ++i) {
    std::vector<std::intptr_t> next;
    for (const std::intptr_t at : list) {
      for (std::int64_t j = 0; j < v.shape[i]; ++j) {
        next.push_back(at + j * v.strides[i] * static_cast<std::intptr_t>(size_of(v.dtype)));
      }
    }
    list = std::move(next);
  }
  return list;
}

bool really_overlap(const ConstTensorView& a, const ConstTensorView& b) {
  std::set<std::intptr_t> bytes;
  for (const std::intptr_t at : addresses(a)) {
    for (std::size_t i = 0; i < size_of(a.dtype); ++i) {
      bytes.insert(at + static_cast<std::intptr_t>(i));
    }
  }
  const auto of_b = addresses(b);
  return std::any_of(of_b.begin(), of_b.end(), [&](std::intptr_t at) {
    for (std::size_t i = 0; i < size_of(b.dtype); ++i) {
      if (bytes.contains(at + static_cast<std::intptr_t>(i))) return true;
    }
    return false;
  });
}

/// Random, unusual views close together.
class RandomViews {
 public:
  ConstTensorView next() {
    constexpr DType kTypes[] = {DType::kFloat16, DType::kFloat32, DType::kFloat64};
    ConstTensorView v;
    v.dtype = kTypes[random_() % 3];
    v.rank = 4;
    // An address for arithmetic only; nothing is read there.
    v.data = reinterpret_cast<const void*>(std::intptr_t{4096} +
                                           8 * static_cast<std::intptr_t>(random_() % 12));
    std::int64_t stride = 1;
    for (std::size_t i = 4; i-- > 0;) {
      v.shape[i] = static_cast<std::int64_t>(random_() % 4);
      if (random_() % 3 != 0) v.shape[i] = std::max<std::int64_t>(v.shape[i], 1);
      // Mostly nested, as packed tensors are; sometimes anything.
      v.strides[i] = random_() % 4 == 0 ? static_cast<std::int64_t>(random_() % 25) - 12 : stride;
      stride = std::max<std::int64_t>(std::abs(v.strides[i]), 1) *
               (std::max<std::int64_t>(v.shape[i], 1) + static_cast<std::int64_t>(random_() % 3));
    }
    return v;
  }

 private:
  std::mt19937 random_{1};
};

TEST(Memory, OverlapIsNeverMissed) {
  RandomViews views;
  int overlapping = 0;
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const ConstTensorView a = views.next();
    const ConstTensorView b = views.next();
    const bool overlap = really_overlap(a, b);
    (overlap ? overlapping : apart) += 1;
    if (overlap) {
      ASSERT_TRUE(may_overlap(a, b)) << i;
      ASSERT_TRUE(may_overlap(b, a)) << i;
    }
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(Memory, SharedElementsAreNeverMissed) {
  RandomViews views;
  int shared = 0;
  for (int i = 0; i < 20000; ++i) {
    const ConstTensorView v = views.next();
    auto list = addresses(v);
    std::sort(list.begin(), list.end());
    if (std::adjacent_find(list.begin(), list.end()) == list.end()) continue;
    ++shared;
    ASSERT_FALSE(elements_are_distinct(v)) << i;
  }
  EXPECT_GT(shared, 1000);
}

// Strides whose products overflow 64 bits.
TEST(Memory, FitsMemory) {
  ConstTensorView v{nullptr, DType::kFloat64, 2, {2, 2}, {4, 1}, {}};
  EXPECT_TRUE(fits_memory(v));
  for (const std::int64_t stride : {INT64_MAX, INT64_MIN, std::int64_t{1} << 60}) {
    v.strides[0] = stride;
    EXPECT_FALSE(fits_memory(v)) << stride;
    v.shape[0] = 1;  // never taken
    EXPECT_TRUE(fits_memory(v)) << stride;
    v.shape[0] = 2;
  }
  v.strides[0] = 0;
  v.shape = {std::int64_t{1} << 31, std::int64_t{1} << 31};
  EXPECT_FALSE(fits_memory(v));
}

}  // namespace
}  // namespace rotary::internal::memory_test
