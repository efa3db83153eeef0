// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is measured: sizes of q and k, and the ways to rotate them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/pairing.h"
#include "rotary/tensor.h"

namespace rotary::measure {

/// q is [batch, tokens, q_heads, head_dim], k the same with k_heads.
struct Shape {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;  // of one batch row
  std::int64_t q_heads = 1;
  std::int64_t k_heads = 1;
  std::int64_t head_dim = 2;

  std::int64_t all_tokens() const noexcept { return batch * tokens; }
  std::int64_t heads() const noexcept { return q_heads + k_heads; }
  /// Of q and k.
  std::int64_t elements() const noexcept { return all_tokens() * heads() * head_dim; }

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// "4096x(32+8)x128", "8x512x(12+12)x64".
std::string name_of(const Shape& shape);
/// "4096x40x128", "8x512x24x64".
std::string short_name_of(const Shape& shape);

/// A shape with a name to call it by.
struct NamedShape {
  std::string_view name;
  Shape shape;
};

/// decode, cached, prefill and batch: the ones that targets are set for.
const std::vector<NamedShape>& standard_shapes();

/// A name of the above or TOKENSxQ+KxDIM, BATCHxTOKENSxQ+KxDIM, with or without brackets around the
/// heads. Nothing for other text, odd dims, or q and k of more than 2^28 elements.
std::optional<Shape> parse_shape(std::string_view text);

/// Where q and k lie when the clock runs, by their size as float32: up to 128 KiB (a step of
/// decoding), up to 2 MiB (second-level caches of current cores), from 16 MiB (memory).
enum class Regime { kDecode, kInCache, kBetween, kOutOfCache };
Regime regime_of(const Shape& shape) noexcept;

/// Where the result goes: over q and k, to other memory that begins on a page, or 16 bytes past
/// one, as large blocks of malloc do.
enum class Placement { kInPlace, kOutOfPlace, kUnaligned };
inline constexpr Placement kPlacements[] = {Placement::kInPlace, Placement::kOutOfPlace,
                                            Placement::kUnaligned};
enum class Tables { kReady, kOnTheFly };

/// One way to rotate.
struct Variant {
  Pairing pairing = Pairing::kHalf;
  Placement placement = Placement::kInPlace;
  Tables tables = Tables::kReady;
};

/// "in_place", "out_of_place", "out_unaligned".
std::string_view name_of(Placement placement) noexcept;
/// "ready", "on_the_fly".
std::string_view name_of(Tables tables) noexcept;

/// "fp32", "bf16", "fp16", "fp64".
std::string_view short_name_of(DType dtype) noexcept;
std::optional<DType> parse_dtype(std::string_view text) noexcept;

/// Every variant that is measured of a type: float64 has no tables, and unaligned results with
/// tables made on the fly would tell nothing more.
std::vector<Variant> variants_of(DType dtype);

}  // namespace rotary::measure
