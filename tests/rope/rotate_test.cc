// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The table of experiment.h on every target of the CPU engine and in every write order, against the
// reference; nothing is written outside of the rotary slice and the view.

#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>

#include "rope/experiment.h"
#include "rope/on_every_target.h"
#include "rotary/cpu.h"

namespace rotary {
namespace {

/// Blocks of one token, of some, of more than a call has.
constexpr WriteOrder kOrders[] = {{HeadOrder::kColumns, 1}, {HeadOrder::kLines, 1},
                                  {HeadOrder::kAddress, 1}, {HeadOrder::kColumns, kMaxBlockTokens},
                                  {HeadOrder::kLines, 3},   {HeadOrder::kAddress, 2}};

class RotateTest : public testing::TestWithParam<TableParam> {};

TEST_P(RotateTest, MatchesTheReference) {
  const auto [dtype, layout] = GetParam();
  const bool all = layout == Layout::kContiguous;
  CaseTable(dtype, layout).for_each_group([all](CaseTable::Group& group) {
    on_every_target([&](std::string_view) {
      std::size_t next = 0;
      for (const auto& experiment : group) {
        ASSERT_TRUE(experiment->run(on_cpu));
        // Every order of contiguous tensors, one in turn of the other layouts.
        for (std::size_t i = 0; i < (all ? std::size(kOrders) : 1); ++i) {
          const WriteOrder& order = kOrders[next++ % std::size(kOrders)];
          ASSERT_TRUE(experiment->run(on_cpu_in(order))) << name_of(order);
        }
      }
    });
  });
}

// The emulated target is always available, and is the last.
TEST(Targets, EndWithAnEmulatedOne) {
  const auto targets = cpu_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_TRUE(targets.back() == "SCALAR" || targets.back() == "EMU128") << targets.back();
  EXPECT_EQ(cpu_target(), targets.front());
}

INSTANTIATE_TEST_SUITE_P(All, RotateTest, all_tables(), name_of_table);

}  // namespace
}  // namespace rotary
