// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Line charts with error bands, as SVG and PNG.
///
///   Chart chart{.title = "Perplexity by length", .x_label = "tokens", .y_label = "perplexity",
///               .x_scale = Scale::kLog, .series = {{.label = "rope", .points = points}}};
///   if (can_draw()) write_chart(chart, "perplexity");   // perplexity.svg, perplexity.png
///
/// Colours are those of Okabe and Ito, which people with a colour vision deficiency can tell apart;
/// from the ninth series on they repeat with another line and marker.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rotary::roformer::lab {

enum class Scale { kLinear, kLog };

struct Point {
  double x = 0.0;
  double y = 0.0;
  /// Half of the height of the error band; 0: none.
  double spread = 0.0;
};

struct Series {
  std::string label{};
  /// By ascending x. Points that are not finite are left out.
  std::vector<Point> points{};
  /// Figures of a paper: a thin dotted line.
  bool published = false;
};

/// A vertical line: {512, "trained"}.
struct Mark {
  double x = 0.0;
  std::string label{};
};

struct Chart {
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  Scale x_scale = Scale::kLinear;
  Scale y_scale = Scale::kLinear;
  std::vector<Series> series{};
  std::vector<Mark> marks{};
  /// Larger values are drawn at the upper edge; 0: no limit. For perplexities that explode.
  double y_limit = 0.0;
};

/// False in a build without cairo.
bool can_draw();
/// Writes path.svg and, unless `png` is false, path.png, which takes ten times as long. Throws
/// IoError.
void write_chart(const Chart& chart, const std::filesystem::path& path, bool png = true);

// ---- Axes ---------------------------------------------------------------------------------------

struct Axis {
  double low = 0.0;
  double high = 1.0;
  Scale scale = Scale::kLinear;
  std::vector<double> ticks{};

  /// From 0 at `low` to 1 at `high`.
  double share(double value) const;
};

/// An axis for values from `low` to `high` with ticks at 1, 2 or 5 times powers of ten, or on a
/// logarithmic axis at powers of two or ten.
Axis make_axis(double low, double high, Scale scale);
/// "0.5", "20", "4096", "1e6"
std::string tick_label(double value);

}  // namespace rotary::roformer::lab
