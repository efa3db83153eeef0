// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "support/message.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rotary::internal {
namespace {

TEST(Message, ConcatenatesTextsAndNumbers) {
  const std::string name = "theta";
  EXPECT_EQ(concat("[rotate] ", name, std::string_view(" must be"), ' ', 'x'),
            "[rotate] theta must be x");
  EXPECT_EQ(concat(std::int16_t{-3}, ", ", 7, ", ", 8U), "-3, 7, 8");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min(), ' ',
                   std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
}

TEST(Message, DoublesHaveTwelveDigits) {
  EXPECT_EQ(concat(1.0 / 3.0), "0.333333333333");
  EXPECT_EQ(concat(0.1F), "0.10000000149");
  EXPECT_EQ(concat(1e4, ' ', 5e5, ' ', 1e12, ' ', -1e-300), "10000 500000 1e+12 -1e-300");
  EXPECT_EQ(concat(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Message, RejectThrowsTheText) {
  try {
    reject("rotary_dim must be even, got ", 7);
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "rotary_dim must be even, got 7");
  }
}

}  // namespace
}  // namespace rotary::internal
