// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Heat maps and scatter plots as text, SVG and PNG.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "explain/terminal.h"

namespace rotary::cli {

/// A matrix of values in [-1, 1], row 0 on top.
struct HeatMap {
  std::string title{};
  std::string row_label{};
  std::string column_label{};
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values{};  // [rows x columns]
};

/// Points of the plane in order, drawn from blue (first) to red (last).
struct PointMap {
  std::string title{};
  std::vector<double> points{};  // [n x 2]
};

/// Lines for the terminal, reduced to its width: characters by density, or colours.
std::vector<std::string> draw(const HeatMap& map, const explain::Terminal& terminal);
std::vector<std::string> draw(const PointMap& map, const explain::Terminal& terminal);

/// Writes .svg, or .png in builds with libpng; blue is -1, white 0, red 1. The file appears whole
/// or not at all. Throws UsageError for other names, IoError for files that cannot be written.
void write_picture(const std::filesystem::path& file, const HeatMap& map);
void write_picture(const std::filesystem::path& file, const PointMap& map);

/// Throws UsageError unless write_picture() can write a file of that name.
void require_picture_name(const std::filesystem::path& file);

}  // namespace rotary::cli
