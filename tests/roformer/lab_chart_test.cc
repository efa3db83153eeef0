// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Charts: axes, and files of both kinds.
#include <cmath>

#include "roformer/lab/chart.h"
#include "roformer_testing.h"

namespace rotary::roformer::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Axis, TicksAreRoundNumbers) {
  EXPECT_THAT(make_axis(0.0, 10.0, Scale::kLinear).ticks, ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(make_axis(128, 1024, Scale::kLog).ticks, ElementsAre(128, 256, 512, 1024));
  EXPECT_THAT(make_axis(100, 1e6, Scale::kLog).ticks, ElementsAre(100, 1e3, 1e4, 1e5, 1e6));
  // Even a narrow range has some.
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    EXPECT_GE(make_axis(11.2, 13.9, scale).ticks.size(), 3U);
    EXPECT_GE(make_axis(3.0, 3.0, scale).ticks.size(), 2U);
  }
}

TEST(Axis, SharesLieWithin) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    const Axis axis = make_axis(16, 4096, scale);
    EXPECT_GT(axis.share(16), 0.0);
    EXPECT_LT(axis.share(4096), 1.0);
    EXPECT_LT(axis.share(64), axis.share(65));
  }
}

TEST(Axis, LabelsAreShort) {
  EXPECT_EQ(tick_label(0.30000000000000004), "0.3");
  EXPECT_EQ(tick_label(4096), "4096");
  EXPECT_EQ(tick_label(1e6), "1e6");
  EXPECT_EQ(tick_label(2e-5), "2e-5");
  EXPECT_EQ(tick_label(0), "0");
}

class ChartFiles : public ScratchTest {};

TEST_F(ChartFiles, AreSvgAndPng) {
  if (!can_draw()) {
    EXPECT_THROW(write_chart({.title = "nothing"}, path("c")), std::runtime_error);
    return;
  }
  Chart chart{.title = "Title <&>", .x_label = "x", .y_label = "y", .x_scale = Scale::kLog};
  chart.y_scale = Scale::kLog;
  // Points that cannot be drawn are left out.
  chart.series = {{.label = "a", .points = {{1, 1, 0.1}, {2, 0, 0}, {4, NAN, 0}, {8, 3, 0.5}}},
                  {.label = "published", .points = {{1, 2, 0}, {8, 1, 0}}, .published = true},
                  {.label = "empty"}};
  chart.marks = {{4, "trained"}};
  write_chart(chart, path("c"));
  EXPECT_THAT(read_file(path("c.svg")), HasSubstr("<svg"));
  EXPECT_THAT(read_file(path("c.png")), StartsWith("\x89PNG"));
  const std::string before = read_file(path("c.png"));
  write_chart(chart, path("c"));
  EXPECT_EQ(read_file(path("c.png")), before);
  write_chart(chart, path("vectors"), /*png=*/false);
  EXPECT_THAT(read_file(path("vectors.svg")), HasSubstr("<svg"));
  EXPECT_FALSE(std::filesystem::exists(path("vectors.png")));
  // Without any point there is still a picture.
  write_chart({.title = "nothing"}, path("c"));
}

}  // namespace
}  // namespace rotary::roformer::lab
