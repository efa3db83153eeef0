// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/write_order.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <system_error>

#include "support/message.h"

namespace rotary {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"auto", "columns", "lines", "address"};
constexpr const char* kVariable = "ROTARY_WRITE_ORDER";

}  // namespace

std::string_view name_of(HeadOrder order) noexcept {
  return kNames[static_cast<std::size_t>(order)];
}

std::string name_of(const WriteOrder& order) {
  const std::string heads(name_of(order.heads));
  return order.block == 0 ? heads : heads + ":" + std::to_string(order.block);
}

std::optional<WriteOrder> parse_write_order(std::string_view text) noexcept {
  const std::size_t colon = text.find(':');
  const std::string_view heads = text.substr(0, colon);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (heads != kNames[i]) continue;
    WriteOrder order{.heads = static_cast<HeadOrder>(i)};
    if (colon == std::string_view::npos) return order;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, order.block);
    if (error != std::errc{} || stop != end) return {};
    if (order.block < 1 || order.block > kMaxBlockTokens) return {};
    return order;
  }
  return {};
}

namespace internal {

WriteOrder resolve_write_order(std::string_view function, const WriteOrder& asked) {
  if (asked.heads > HeadOrder::kAddress || asked.block < 0 || asked.block > kMaxBlockTokens) {
    reject("[", function, "] a write order has a block of 0 to ", kMaxBlockTokens, " tokens, got ",
           asked.block);
  }
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return asked;
  const std::optional<WriteOrder> wanted = parse_write_order(text);
  if (!wanted) {
    reject(
        "[", function, "] the environment variable ", kVariable,
        " must be auto, columns, lines or address, with or without a block as in lines:64 (1 to ",
        kMaxBlockTokens, "), got '", text, "'");
  }
  return {.heads = asked.heads == HeadOrder::kAuto ? wanted->heads : asked.heads,
          .block = asked.block == 0 ? wanted->block : asked.block};
}

}  // namespace internal
}  // namespace rotary
