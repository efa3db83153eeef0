// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/rotation_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace rotary::roformer::cli {
namespace {

// The drawing, in pixels.
constexpr double kWidth = 760.0;
constexpr double kHeight = 420.0;
constexpr double kLeft = 70.0;
constexpr double kRight = 120.0;  // of the legend
constexpr double kTop = 40.0;
constexpr double kBottom = 50.0;
constexpr int kTicks = 4;
constexpr std::size_t kMaxLegend = 16;

/// From blue, the first layer, to red, the last one.
std::string color_of(std::size_t layer, std::size_t layers) {
  const double share =
      layers < 2 ? 0.0 : static_cast<double>(layer) / static_cast<double>(layers - 1);
  return fmt::format("hsl({:.0f},70%,45%)", 220.0 - 220.0 * share);
}

struct Frame {
  double low = 0.0;   // percent
  double high = 0.0;  // percent
  std::size_t pairs = 1;

  double x(double pair) const {
    return kLeft +
           (kWidth - kLeft - kRight) * pair / std::max(1.0, static_cast<double>(pairs) - 1.0);
  }
  double y(double percent) const {
    return kTop + (kHeight - kTop - kBottom) * (high - percent) / (high - low);
  }
};

Frame frame_of(const std::vector<LearnedLayer>& layers) {
  Frame frame;
  for (const LearnedLayer& layer : layers) {
    frame.pairs = std::max(frame.pairs, layer.pairs());
    for (std::size_t i = 0; i < layer.pairs(); ++i) {
      const double percent = 100.0 * mean_ratio(layer, i);
      frame.low = std::min(frame.low, percent);
      frame.high = std::max(frame.high, percent);
    }
  }
  const double margin = std::max(0.05 * (frame.high - frame.low), 1e-3);
  frame.low -= margin;
  frame.high += margin;
  return frame;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string axes_of(const Frame& frame) {
  std::string svg;
  for (int i = 0; i <= kTicks; ++i) {
    const double percent = frame.low + (frame.high - frame.low) * i / kTicks;
    const double y = frame.y(percent);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:+.3g} %</text>\n",
        kLeft, y, kWidth - kRight, y, kLeft - 6, y + 4, percent);
    const auto last = static_cast<double>(frame.pairs - 1);
    const double pair = std::floor(last * i / kTicks);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
                       frame.x(pair), kHeight - kBottom + 18, pair);
  }
  svg += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#555\"/>\n", kLeft,
      frame.y(0.0), kWidth - kRight, frame.y(0.0));
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">pair</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 12);
  return svg;
}

}  // namespace

std::string draw_rotation(const std::vector<LearnedLayer>& layers, std::string_view title) {
  const Frame frame = frame_of(layers);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"22\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  svg += axes_of(frame);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::string color = color_of(l, layers.size());
    std::string points;
    for (std::size_t i = 0; i < layers[l].pairs(); ++i) {
      points += fmt::format("{:.1f},{:.1f} ", frame.x(static_cast<double>(i)),
                            frame.y(100.0 * mean_ratio(layers[l], i)));
    }
    svg +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n",
                    color, points);
    if (l < kMaxLegend) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"{}\">layer {}</text>\n",
                         kWidth - kRight + 12, kTop + 10 + 20.0 * static_cast<double>(l), color, l);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace rotary::roformer::cli
