// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/picture.h"

#ifdef ROTARY_HAS_PNG
#include <png.h>
#endif

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "explain/text_layout.h"
#include "io/pending_file.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

using explain::Terminal;

struct Colour {
  std::uint8_t red = 255;
  std::uint8_t green = 255;
  std::uint8_t blue = 255;
};

/// Blue at -1, white at 0, red at 1, in 64 levels, so that equal neighbours merge in SVG.
Colour colour_of(double value) {
  const double level = std::round(std::clamp(value, -1.0, 1.0) * 32.0) / 32.0;
  const auto faded = [level](double end) {
    return static_cast<std::uint8_t>(std::lround(255.0 + (end - 255.0) * std::fabs(level)));
  };
  return level < 0.0 ? Colour{faded(33), faded(102), faded(172)}
                     : Colour{faded(178), faded(24), faded(43)};
}

std::string hex(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : explain::printable(text)) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

// ---- Text ---------------------------------------------------------------------------------------

/// The mean over a cell of `rows` x `columns` that covers the map.
double mean_of_cell(const HeatMap& map, std::size_t row, std::size_t rows, std::size_t column,
                    std::size_t columns) {
  const auto range = [](std::size_t k, std::size_t count, std::size_t size) {
    const std::size_t first = k * size / count;
    return std::pair(first, std::max(first + 1, (k + 1) * size / count));
  };
  const auto [top, bottom] = range(row, rows, map.rows);
  const auto [left, right] = range(column, columns, map.columns);
  double sum = 0.0;
  for (std::size_t r = top; r < bottom; ++r) {
    for (std::size_t c = left; c < right; ++c) sum += map.values[r * map.columns + c];
  }
  return sum / static_cast<double>((bottom - top) * (right - left));
}

std::string cell_text(double value, const Terminal& terminal) {
  if (terminal.colour) {
    const Colour c = colour_of(value);
    return fmt::format("\x1b[48;2;{};{};{}m ", c.red, c.green, c.blue);
  }
  static constexpr std::string_view kRamp = " .:-=+*#%@";
  const double level = (std::clamp(value, -1.0, 1.0) + 1.0) / 2.0 * 9.0;
  return std::string(1, kRamp[static_cast<std::size_t>(std::lround(level))]);
}

// ---- SVG ----------------------------------------------------------------------------------------

constexpr std::string_view kSvgHead =
    R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}"
  font-family="sans-serif" font-size="14">
<rect width="{0}" height="{1}" fill="#ffffff"/>
<text x="48" y="24" font-size="16">{2}</text>
)";

std::string svg_of(const HeatMap& map) {
  const double cell = 512.0 / static_cast<double>(std::max(map.rows, map.columns));
  const double width = cell * static_cast<double>(map.columns);
  const double height = cell * static_cast<double>(map.rows);
  std::string svg = fmt::format(kSvgHead, width + 96.0, height + 88.0, escaped(map.title));
  svg += "<g transform=\"translate(48 40)\" shape-rendering=\"crispEdges\">\n";
  for (std::size_t row = 0; row < map.rows; ++row) {
    for (std::size_t first = 0, last = 0; first < map.columns; first = last) {
      const std::string fill = hex(colour_of(map.values[row * map.columns + first]));
      for (last = first + 1;
           last < map.columns && hex(colour_of(map.values[row * map.columns + last])) == fill;) {
        ++last;
      }
      svg += fmt::format(
          "<rect x=\"{:.4g}\" y=\"{:.4g}\" width=\"{:.4g}\" height=\"{:.4g}\" fill=\"{}\"/>\n",
          cell * static_cast<double>(first), cell * static_cast<double>(row),
          cell * static_cast<double>(last - first), cell, fill);
    }
  }
  svg += fmt::format("</g>\n<text x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"middle\">{}</text>\n",
                     48.0 + width / 2.0, height + 64.0, escaped(map.column_label));
  return svg + fmt::format(
                   "<text transform=\"translate(32 {:.4g}) rotate(-90)\" "
                   "text-anchor=\"middle\">{}</text>\n</svg>\n",
                   40.0 + height / 2.0, escaped(map.row_label));
}

struct Placed {
  double x = 0.0;
  double y = 0.0;
  Colour colour{};
};

/// Points in a square of `size`, y upwards on paper.
std::vector<Placed> place(const PointMap& map, double size) {
  double largest = 1e-300;
  for (const double value : map.points) largest = std::max(largest, std::fabs(value));
  std::vector<Placed> placed;
  const std::size_t n = map.points.size() / 2;
  for (std::size_t k = 0; k < n; ++k) {
    const double at = n > 1 ? static_cast<double>(k) / static_cast<double>(n - 1) : 0.0;
    const auto red = static_cast<std::uint8_t>(std::lround(255.0 * at));
    placed.push_back({.x = (1.0 + 0.95 * map.points[2 * k] / largest) * size / 2.0,
                      .y = (1.0 - 0.95 * map.points[2 * k + 1] / largest) * size / 2.0,
                      .colour = {red, 0, static_cast<std::uint8_t>(255 - red)}});
  }
  return placed;
}

std::string svg_of(const PointMap& map) {
  std::string svg = fmt::format(kSvgHead, 608, 600, escaped(map.title));
  svg += "<g transform=\"translate(48 40)\">\n";
  for (const Placed& p : place(map, 512.0)) {
    svg += fmt::format("<circle cx=\"{:.4g}\" cy=\"{:.4g}\" r=\"3\" fill=\"{}\"/>\n", p.x, p.y,
                       hex(p.colour));
  }
  return svg + "</g>\n</svg>\n";
}

// ---- PNG ----------------------------------------------------------------------------------------

struct Raster {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<Colour> pixels{};  // row-major
};

Raster raster_of(const HeatMap& map) {
  const std::size_t cell = std::max<std::size_t>(1, 512 / std::max(map.rows, map.columns));
  Raster raster{.width = cell * map.columns, .height = cell * map.rows};
  for (std::size_t y = 0; y < raster.height; ++y) {
    for (std::size_t x = 0; x < raster.width; ++x) {
      raster.pixels.push_back(colour_of(map.values[y / cell * map.columns + x / cell]));
    }
  }
  return raster;
}

Raster raster_of(const PointMap& map) {
  constexpr std::size_t kSize = 512;
  Raster raster{.width = kSize, .height = kSize, .pixels = std::vector<Colour>(kSize * kSize)};
  for (const Placed& p : place(map, kSize)) {
    const auto x = static_cast<std::size_t>(p.x);
    const auto y = static_cast<std::size_t>(p.y);
    for (std::size_t dy = 0; dy < 4; ++dy) {
      for (std::size_t dx = 0; dx < 4; ++dx) {
        if (x + dx < kSize && y + dy < kSize) raster.pixels[(y + dy) * kSize + x + dx] = p.colour;
      }
    }
  }
  return raster;
}

#ifdef ROTARY_HAS_PNG
constexpr bool kHasPng = true;

std::string png_of(const Raster& raster) {
  static_assert(sizeof(Colour) == 3);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(raster.width);
  image.height = static_cast<png_uint_32>(raster.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, raster.pixels.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(fmt::format("cannot encode a PNG file: {}", image.message));
  }
  bytes.resize(size);
  return bytes;
}
#else
constexpr bool kHasPng = false;

std::string png_of(const Raster&) { return {}; }
#endif

template <typename Map>
void write_map(const std::filesystem::path& file, const Map& map) {
  require_picture_name(file);
  const std::string bytes = file.extension() == ".svg" ? svg_of(map) : png_of(raster_of(map));
  internal::PendingFile pending(file);
  pending.append(bytes.data(), bytes.size());
  pending.commit();
}

}  // namespace

std::vector<std::string> draw(const HeatMap& map, const Terminal& terminal) {
  // Characters are about twice as high as wide.
  const std::size_t columns = std::min(map.columns * 2, terminal.columns - 4);
  const std::size_t rows =
      std::max<std::size_t>(1, std::min(map.rows, columns * map.rows / (2 * map.columns)));
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows; ++row) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      line += cell_text(mean_of_cell(map, row, rows, column, columns), terminal);
    }
    lines.push_back(line + (terminal.colour ? "\x1b[0m" : ""));
  }
  return lines;
}

std::vector<std::string> draw(const PointMap& map, const Terminal& terminal) {
  const std::size_t columns = std::min<std::size_t>(72, terminal.columns - 4);
  const std::size_t rows = columns / 2;
  std::vector<std::string> lines(rows, std::string(columns, ' '));
  const std::vector<Placed> placed = place(map, 1.0);
  for (std::size_t k = 0; k < placed.size(); ++k) {
    const auto x = static_cast<std::size_t>(placed[k].x * static_cast<double>(columns - 1));
    const auto y = static_cast<std::size_t>(placed[k].y * static_cast<double>(rows - 1));
    // The decile of the position, so that the order can be seen.
    lines[y][x] = static_cast<char>('0' + k * 10 / placed.size());
  }
  return lines;
}

void require_picture_name(const std::filesystem::path& file) {
  if (file.extension() == ".svg" || (kHasPng && file.extension() == ".png")) return;
  throw UsageError(fmt::format("-o must name a file ending in .svg{}, got '{}'",
                               kHasPng ? " or .png" : " (this build has no libpng)",
                               explain::printable(file.string())));
}

void write_picture(const std::filesystem::path& file, const HeatMap& map) { write_map(file, map); }
void write_picture(const std::filesystem::path& file, const PointMap& map) { write_map(file, map); }

}  // namespace rotary::cli
