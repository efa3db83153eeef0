// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is measured: shapes of q and k, and variants of the rotation.
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
  /// Elements of q and k together.
  std::int64_t elements() const noexcept { return all_tokens() * heads() * head_dim; }

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// "4096x(32+8)x128", "8x512x(12+12)x64".
std::string name_of(const Shape& shape);
/// "4096x40x128", "8x512x24x64".
std::string short_name_of(const Shape& shape);

struct NamedShape {
  std::string_view name;
  Shape shape;
};

/// decode, cached, prefill and batch: the shapes of the performance targets.
const std::vector<NamedShape>& standard_shapes();

/// A standard name, TOKENSxQ+KxDIM or BATCHxTOKENSxQ+KxDIM, with or without parentheses around the
/// heads. None for other text, odd DIM, or more than 2^28 elements.
std::optional<Shape> parse_shape(std::string_view text);

/// Where q and k reside while timing, by their size as float32: up to 128 KiB (a decoding step), up
/// to 2 MiB (L2 caches), from 16 MiB (memory).
enum class Regime { kDecode, kInCache, kBetween, kOutOfCache };
Regime regime_of(const Shape& shape) noexcept;

/// Destination: q and k themselves, other page-aligned memory, or memory 16 bytes past a page, like
/// large blocks of malloc.
enum class Placement { kInPlace, kOutOfPlace, kUnaligned };
inline constexpr Placement kPlacements[] = {Placement::kInPlace, Placement::kOutOfPlace,
                                            Placement::kUnaligned};
/// Source of cos and sin: a table made before, or computed in the call.
enum class Tables { kReady, kOnTheFly };

/// A variant of the rotation.
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

/// The variants that are measured for a type. float64 has no tables; unaligned results are measured
/// with ready tables only.
std::vector<Variant> variants_of(DType dtype);

}  // namespace rotary::measure
