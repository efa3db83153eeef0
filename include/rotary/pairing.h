// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The layout of the rotated pairs in a head.
///
///   // GPT-NeoX: the first 24 of 96 dims are rotated, pairs (0, 12), (1, 13), ...
///   rotary::HeadLayout layout{.head_dim = 96, .pairing = rotary::Pairing::kHalf};
///
/// The rotary slice has rotary_dim elements: two per pair of the frequencies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rotary {

/// Which two elements of a head form one rotated pair (pair numbers; head_dim 8, rotary_dim 6):
///   kInterleaved  [0 0 1 1 2 2 - -]   RoFormer, GPT-J, Llama as Meta stores it
///   kHalf         [0 1 2 0 1 2 - -]   GPT-NeoX, Llama as stored by Hugging Face
enum class Pairing : std::uint8_t { kInterleaved, kHalf };

/// "interleaved" or "half".
std::string_view name_of(Pairing pairing) noexcept;

/// Layout of a head. Elements outside the rotary slice are left unchanged (in place) or copied (out
/// of place). Slices of a head of 8 with 4 rotary dims, interleaved:
///   rotary_offset 0  [0 0 1 1 - - - -]   leading
///   rotary_offset 2  [- - 0 0 1 1 - -]
///   rotary_offset 4  [- - - - 0 0 1 1]   trailing (DeepSeek-V4)
struct HeadLayout {
  std::int64_t head_dim = 0;
  std::int64_t rotary_offset = 0;
  /// Required: a wrong default would give wrong results without an error.
  std::optional<Pairing> pairing{};
  /// Pairing of the output. Absent: that of the input. DeepSeek-V3 in transformers reads
  /// interleaved and writes half.
  std::optional<Pairing> output_pairing{};
};

}  // namespace rotary
