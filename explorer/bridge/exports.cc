// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/bridge/exports.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explain/text_layout.h"
#include "explorer/bridge/calls.h"
#include "explorer/bridge/open_ropes.h"
#include "rotary/analysis.h"

namespace rotary::explorer {
namespace {

using internal::Json;

OpenRopes& open_ropes() {
  static OpenRopes ropes;
  return ropes;
}

std::string& last_error() {
  static std::string text;
  return text;
}

/// The line that the command prints.
std::string line_of(std::string_view message) {
  return explain::printable(message.substr(0, message.find('\n')));
}

/// Runs `function`; false if it threw, with its message in last_error().
template <typename Function>
bool guard(const Function& function) noexcept {
  try {
    function();
    return true;
  } catch (const std::bad_alloc&) {
    last_error() = "not enough memory";
  } catch (const std::exception& error) {
    last_error() = line_of(error.what());
  }
  return false;
}

template <typename Function>
const char* answer(const Function& function) noexcept {
  static std::string text;
  const bool ok = guard([&] { text = Json{{"result", function()}}.dump(); });
  if (!ok) text = Json{{"error", last_error()}}.dump();
  return text.c_str();
}

std::span<const double> rows(const OpenRope& rope, const double* values, std::int32_t n) {
  return {values, static_cast<std::size_t>(n) * static_cast<std::size_t>(rope.frequencies.axes)};
}

}  // namespace
}  // namespace rotary::explorer

namespace explorer = rotary::explorer;

const char* explorer_open(const char* bytes, std::int32_t length, const char* source) {
  return explorer::answer([&] {
    return explorer::open_ropes().open({bytes, static_cast<std::size_t>(length)}, source);
  });
}

const char* explorer_call(const char* request, std::int32_t length) {
  return explorer::answer([&] {
    const std::string_view text{request, static_cast<std::size_t>(length)};
    return explorer::call(explorer::open_ropes(),
                          rotary::internal::parse_json(text, "the request"));
  });
}

std::int32_t explorer_cos_sin(std::int32_t rope, const double* positions, std::int32_t n,
                              double* cosines, double* sines) {
  const bool ok = explorer::guard([&] {
    const explorer::OpenRope& shown = explorer::open_ropes().rope(rope);
    explorer::write_cos_sin(shown, explorer::rows(shown, positions, n), cosines, sines);
  });
  return ok ? 0 : 1;
}

std::int32_t explorer_scores(std::int32_t rope, const double* offsets, std::int32_t n,
                             double* scores) {
  const bool ok = explorer::guard([&] {
    const explorer::OpenRope& shown = explorer::open_ropes().rope(rope);
    const std::vector<double> made =
        rotary::relative_scores(shown.frequencies, explorer::rows(shown, offsets, n));
    std::copy(made.begin(), made.end(), scores);
  });
  return ok ? 0 : 1;
}

const char* explorer_error() { return explorer::last_error().c_str(); }
