// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The order in which the CPU engine writes results, for experiments.
///
///   rotary::Rope rope(frequencies, layout,
///                     {.order = {.heads = rotary::HeadOrder::kLines, .block = 64}});
///
/// The order changes no bit of a result, only the time that a call takes: out of cache, a core is
/// fast if it finishes a cache line before it begins the next. By default the engine chooses one
/// for each tensor, from measurements (docs/performance.md); `rotary bench --orders` measures all
/// of them. The environment variable ROTARY_WRITE_ORDER sets, for a whole process, what a Rope
/// leaves open, in the form that parse_write_order() reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rotary {

/// The order of the results of one token.
enum class HeadOrder : std::uint8_t {
  kAuto,     // the engine's choice
  kColumns,  // some columns of all heads, then the next columns: cos and sin stay in registers
  kLines,    // head by head; with Pairing::kHalf a cache line of x and one of y in turn
  kAddress,  // head by head in the order of addresses: y waits in a buffer until x is written
};

struct WriteOrder {
  HeadOrder heads = HeadOrder::kAuto;
  /// Tokens of one tensor (q) that are written before the same tokens of the next (k); at most
  /// kMaxBlockTokens. Smaller where their cos and sin do not fit into the engine's buffer. 0: the
  /// engine's choice.
  std::int64_t block = 0;

  friend bool operator==(const WriteOrder&, const WriteOrder&) = default;
};

inline constexpr std::int64_t kMaxBlockTokens = 256;

/// "auto", "columns", "lines", "address".
std::string_view name_of(HeadOrder order) noexcept;

/// "lines:64": the heads' order, then the block. "lines" if block is 0.
std::string name_of(const WriteOrder& order);

/// The inverse of name_of(). None for other text or a block out of range.
std::optional<WriteOrder> parse_write_order(std::string_view text) noexcept;

}  // namespace rotary
