// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/embed/page.h"

#include <span>
#include <stdexcept>

#include "json/json.h"

namespace rotary::explorer {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExplorer[] = {
#include "index.inc"
};
constexpr std::string_view kLook[] = {
#include "look.inc"
};

/// The place of the model in the page.
constexpr std::string_view kBefore = R"(<script type="application/json" id="given">)";
constexpr std::string_view kNone = "null</script>";

/// JSON that cannot end the <script> that holds it.
std::string json_in_script(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

/// The page with `json` in its place.
std::string filled_page(std::span<const std::string_view> parts, std::string_view json) {
  std::string page;
  for (const std::string_view part : parts) page += part;
  const std::size_t at = page.find(std::string(kBefore).append(kNone));
  if (at == std::string::npos) throw std::logic_error("[explore] the page has no place for data");
  return page.replace(at + kBefore.size(), 4, json_in_script(json));
}

}  // namespace

std::string page_with_model(std::string_view text, std::string_view source) {
  return filled_page(kExplorer, internal::Json{{"source", source}, {"text", text}}.dump());
}

std::string page_with_attention(std::string_view json) { return filled_page(kLook, json); }

}  // namespace rotary::explorer
