// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/embed/page.h"

#include <stdexcept>

#include "json/json.h"

namespace rotary::explorer {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kPage[] = {
#include "page.inc"
};

/// The place of the model in the page.
constexpr std::string_view kBefore = R"(<script type="application/json" id="given">)";
constexpr std::string_view kNone = "null</script>";

/// JSON that cannot end the <script> that holds it.
std::string json_in_script(const internal::Json& json) {
  std::string text;
  for (const char c : json.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string page_with_model(std::string_view text, std::string_view source) {
  std::string page;
  for (const std::string_view part : kPage) page += part;
  const std::size_t at = page.find(std::string(kBefore).append(kNone));
  if (at == std::string::npos)
    throw std::logic_error("[explore] the page has no place for a model");
  const std::string given = json_in_script({{"source", source}, {"text", text}});
  return page.replace(at + kBefore.size(), 4, given);
}

}  // namespace rotary::explorer
