// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Charts by cairo: one drawing for SVG and PNG.
#include <cairo-svg.h>
#include <cairo.h>
#ifdef ROTARY_HAS_FONTCONFIG
#include <fontconfig/fontconfig.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "roformer/lab/chart.h"
#include "roformer/lab/results.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {
namespace {

// In points; the PNG has two pixels for each.
constexpr double kWidth = 860.0;
constexpr double kHeight = 480.0;
constexpr double kPngScale = 2.0;
constexpr double kLeft = 78.0;
constexpr double kTop = 44.0;
constexpr double kBottom = 58.0;
constexpr double kLegendWidth = 190.0;
constexpr double kFontSize = 12.0;

struct Colour {
  double red, green, blue;
};
/// Okabe and Ito (2008), without their yellow, which is too light for lines, and with grey.
constexpr std::array<Colour, 8> kPalette = {{{0.00, 0.45, 0.70},
                                             {0.90, 0.60, 0.00},
                                             {0.00, 0.62, 0.45},
                                             {0.84, 0.37, 0.00},
                                             {0.80, 0.47, 0.65},
                                             {0.34, 0.71, 0.91},
                                             {0.00, 0.00, 0.00},
                                             {0.55, 0.55, 0.55}}};

struct Destroy {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Surface = std::unique_ptr<cairo_surface_t, Destroy>;
using Context = std::unique_ptr<cairo_t, Destroy>;

cairo_status_t append_bytes(void* closure, const unsigned char* data, unsigned int size) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), size);
  return CAIRO_STATUS_SUCCESS;
}

/// Whether the machine has a configuration of fonts. Small containers have none: cairo's search for
/// a font would print a message of fontconfig there.
bool has_font_configuration() {
#ifdef ROTARY_HAS_FONTCONFIG
  // Of an empty configuration: without one, the call would load the default, with that message.
  FcConfig* empty = FcConfigCreate();
  FcChar8* file = FcConfigGetFilename(empty, nullptr);
  FcConfigDestroy(empty);
  const bool found = file != nullptr;
  FcStrFree(file);
  return found;
#else
  return true;
#endif
}

/// The font of the machine, else the one that cairo draws itself (of ASCII).
const char* font_family() {
  static const bool configured = has_font_configuration();
  return configured ? "sans-serif" : "@cairo:sans-serif";
}

enum class Align { kLeft, kCentre, kRight };

class Drawing {
 public:
  Drawing(const Chart& chart, cairo_t* context)
      : chart_(chart), cairo_(context), x_(x_axis()), y_(y_axis()) {}

  void draw() {
    cairo_set_source_rgb(cairo_, 1, 1, 1);
    cairo_paint(cairo_);
    cairo_select_font_face(cairo_, font_family(), CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    draw_axes();
    draw_marks();
    cairo_save(cairo_);
    cairo_rectangle(cairo_, kLeft, kTop, plot_width(), plot_height());
    cairo_clip(cairo_);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_band(i);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_line(i);
    cairo_restore(cairo_);
    draw_legend();
  }

 private:
  static double plot_width() { return kWidth - kLeft - kLegendWidth - 16; }
  static double plot_height() { return kHeight - kTop - kBottom; }

  /// Whether a point can be drawn on these axes.
  bool is_drawable(const Point& point) const {
    return std::isfinite(point.x) && std::isfinite(point.y) &&
           (chart_.x_scale == Scale::kLinear || point.x > 0.0) &&
           (chart_.y_scale == Scale::kLinear || point.y > 0.0);
  }
  double limited(double y) const { return chart_.y_limit > 0.0 ? std::min(y, chart_.y_limit) : y; }

  template <typename Value>
  Axis axis_over(Scale scale, Value value) const {
    double low = INFINITY;
    double high = -INFINITY;
    for (const Series& series : chart_.series) {
      for (const Point& point : series.points) {
        if (!is_drawable(point)) continue;
        for (const double one : value(point)) {
          if (scale == Scale::kLog && one <= 0.0) continue;
          low = std::min(low, one);
          high = std::max(high, one);
        }
      }
    }
    return low <= high ? make_axis(low, high, scale) : make_axis(1.0, 2.0, scale);
  }
  Axis x_axis() const {
    return axis_over(chart_.x_scale, [](const Point& p) { return std::array{p.x}; });
  }
  Axis y_axis() const {
    return axis_over(chart_.y_scale, [this](const Point& p) {
      return std::array{limited(p.y - p.spread), limited(p.y + p.spread)};
    });
  }

  double to_x(double x) const { return kLeft + x_.share(x) * plot_width(); }
  double to_y(double y) const {
    const double share = y_.scale == Scale::kLog && y <= 0.0 ? 0.0 : y_.share(limited(y));
    return kTop + (1.0 - share) * plot_height();
  }

  void text(const std::string& words, double x, double y, Align align, double size = kFontSize) {
    cairo_set_font_size(cairo_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, words.c_str(), &extents);
    const double shift = align == Align::kLeft    ? 0.0
                         : align == Align::kRight ? extents.x_advance
                                                  : extents.x_advance / 2;
    cairo_move_to(cairo_, x - shift, y);
    cairo_show_text(cairo_, words.c_str());
  }
  void line(double x1, double y1, double x2, double y2) {
    cairo_move_to(cairo_, x1, y1);
    cairo_line_to(cairo_, x2, y2);
    cairo_stroke(cairo_);
  }

  void draw_axes() {
    const double bottom = kTop + plot_height();
    const double right = kLeft + plot_width();
    cairo_set_line_width(cairo_, 0.7);
    for (const double tick : x_.ticks) {
      cairo_set_source_rgb(cairo_, 0.88, 0.88, 0.88);
      line(to_x(tick), kTop, to_x(tick), bottom);
      cairo_set_source_rgb(cairo_, 0.15, 0.15, 0.15);
      text(tick_label(tick), to_x(tick), bottom + 17, Align::kCentre);
    }
    for (const double tick : y_.ticks) {
      cairo_set_source_rgb(cairo_, 0.88, 0.88, 0.88);
      line(kLeft, to_y(tick), right, to_y(tick));
      cairo_set_source_rgb(cairo_, 0.15, 0.15, 0.15);
      text(tick_label(tick), kLeft - 7, to_y(tick) + 4, Align::kRight);
    }
    cairo_set_source_rgb(cairo_, 0.15, 0.15, 0.15);
    cairo_set_line_width(cairo_, 1.0);
    cairo_rectangle(cairo_, kLeft, kTop, plot_width(), plot_height());
    cairo_stroke(cairo_);
    text(chart_.title, kLeft, kTop - 16, Align::kLeft, 15);
    text(chart_.x_label, kLeft + plot_width() / 2, kHeight - 14, Align::kCentre, 13);
    cairo_save(cairo_);
    cairo_translate(cairo_, 18, kTop + plot_height() / 2);
    cairo_rotate(cairo_, -M_PI / 2);
    text(chart_.y_label, 0, 0, Align::kCentre, 13);
    cairo_restore(cairo_);
  }

  void draw_marks() {
    constexpr std::array<double, 2> kDash = {5.0, 4.0};
    for (const Mark& mark : chart_.marks) {
      if (mark.x < x_.low || mark.x > x_.high) continue;
      cairo_set_source_rgb(cairo_, 0.4, 0.4, 0.4);
      cairo_set_line_width(cairo_, 1.0);
      cairo_set_dash(cairo_, kDash.data(), 2, 0);
      line(to_x(mark.x), kTop, to_x(mark.x), kTop + plot_height());
      cairo_set_dash(cairo_, nullptr, 0, 0);
      text(mark.label, to_x(mark.x) + 4, kTop + 13, Align::kLeft, 11);
    }
  }

  void choose_style(std::size_t index) {
    const Colour& colour = kPalette[index % kPalette.size()];
    cairo_set_source_rgb(cairo_, colour.red, colour.green, colour.blue);
    constexpr std::array<double, 2> kDashed = {7.0, 3.5};
    constexpr std::array<double, 2> kDotted = {1.5, 3.0};
    const bool published = chart_.series[index].published;
    cairo_set_line_width(cairo_, published ? 1.3 : 2.0);
    if (published) {
      cairo_set_dash(cairo_, kDotted.data(), 2, 0);
    } else if (index / kPalette.size() % 2 == 1) {
      cairo_set_dash(cairo_, kDashed.data(), 2, 0);
    } else {
      cairo_set_dash(cairo_, nullptr, 0, 0);
    }
  }
  /// A circle, square, triangle or diamond.
  void draw_marker(std::size_t index, double x, double y) {
    constexpr double kRadius = 3.4;
    cairo_set_dash(cairo_, nullptr, 0, 0);
    cairo_new_path(cairo_);
    const std::size_t shape = (index + index / kPalette.size()) % 4;
    const int corners = shape == 2 ? 3 : 4;
    if (shape == 0) {
      cairo_arc(cairo_, x, y, kRadius, 0, 2 * M_PI);
    } else {
      const double first = shape == 1 ? M_PI / 4 : -M_PI / 2;
      for (int i = 0; i < corners; ++i) {
        const double angle = first + 2 * M_PI * i / corners;
        cairo_line_to(cairo_, x + 1.25 * kRadius * std::cos(angle),
                      y + 1.25 * kRadius * std::sin(angle));
      }
      cairo_close_path(cairo_);
    }
    cairo_fill(cairo_);
  }

  void draw_band(std::size_t index) {
    std::vector<Point> points;
    bool wide = false;
    for (const Point& point : chart_.series[index].points) {
      if (!is_drawable(point)) continue;
      points.push_back(point);
      wide = wide || point.spread > 0.0;
    }
    if (!wide) return;
    const Colour& colour = kPalette[index % kPalette.size()];
    cairo_new_path(cairo_);
    for (const Point& point : points) {
      cairo_line_to(cairo_, to_x(point.x), to_y(point.y + point.spread));
    }
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
      cairo_line_to(cairo_, to_x(point->x), to_y(point->y - point->spread));
    }
    cairo_close_path(cairo_);
    cairo_set_source_rgba(cairo_, colour.red, colour.green, colour.blue, 0.18);
    cairo_fill(cairo_);
  }

  void draw_line(std::size_t index) {
    const Series& series = chart_.series[index];
    choose_style(index);
    cairo_new_path(cairo_);
    for (const Point& point : series.points) {
      if (is_drawable(point)) cairo_line_to(cairo_, to_x(point.x), to_y(point.y));
    }
    cairo_stroke(cairo_);
    // Markers of a dense curve would hide it.
    constexpr std::size_t kMaxMarkers = 40;
    if (series.published || series.points.size() > kMaxMarkers) return;
    for (const Point& point : series.points) {
      if (is_drawable(point)) draw_marker(index, to_x(point.x), to_y(point.y));
    }
  }

  void draw_legend() {
    const double left = kWidth - kLegendWidth;
    const double step = std::min(
        20.0, plot_height() / static_cast<double>(std::max<std::size_t>(chart_.series.size(), 1)));
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const double y = kTop + step * (static_cast<double>(i) + 0.5);
      choose_style(i);
      line(left, y, left + 28, y);
      if (!chart_.series[i].published) draw_marker(i, left + 14, y);
      cairo_set_dash(cairo_, nullptr, 0, 0);
      cairo_set_source_rgb(cairo_, 0.1, 0.1, 0.1);
      text(chart_.series[i].label, left + 35, y + 4, Align::kLeft);
    }
  }

  const Chart& chart_;
  cairo_t* cairo_;
  Axis x_;
  Axis y_;
};

void check(cairo_status_t status, const std::filesystem::path& path) {
  if (status != CAIRO_STATUS_SUCCESS) {
    throw IoError(path.string(), IoError::kNoOffset,
                  std::string("cannot draw: ") + cairo_status_to_string(status));
  }
}

/// Draws on a surface and returns its status.
cairo_status_t draw_on(cairo_surface_t* surface, const Chart& chart, double scale) {
  const Context context(cairo_create(surface));
  cairo_scale(context.get(), scale, scale);
  Drawing(chart, context.get()).draw();
  return cairo_status(context.get());
}

void write_svg(const Chart& chart, const std::filesystem::path& path) {
  std::string svg;
  const Surface surface(cairo_svg_surface_create_for_stream(append_bytes, &svg, kWidth, kHeight));
  check(draw_on(surface.get(), chart, 1.0), path);
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()), path);
  write_whole_file(path, svg);
}

void write_png(const Chart& chart, const std::filesystem::path& path) {
  std::string png;
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                                   static_cast<int>(kWidth * kPngScale),
                                                   static_cast<int>(kHeight * kPngScale)));
  check(draw_on(surface.get(), chart, kPngScale), path);
  check(cairo_surface_write_to_png_stream(surface.get(), append_bytes, &png), path);
  write_whole_file(path, png);
}

}  // namespace

bool can_draw() { return true; }

void write_chart(const Chart& chart, const std::filesystem::path& path, bool png) {
  write_svg(chart, path.string() + ".svg");
  if (png) write_png(chart, path.string() + ".png");
}

}  // namespace rotary::roformer::lab
