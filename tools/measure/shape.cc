// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/shape.h"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace rotary::measure {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

constexpr std::array<std::pair<DType, std::string_view>, 4> kTypes = {{{DType::kFloat32, "fp32"},
                                                                       {DType::kBFloat16, "bf16"},
                                                                       {DType::kFloat16, "fp16"},
                                                                       {DType::kFloat64, "fp64"}}};

std::string join_sizes(const Shape& shape, const std::string& heads) {
  const std::string batch = shape.batch > 1 ? std::to_string(shape.batch) + "x" : "";
  return batch + std::to_string(shape.tokens) + "x" + heads + "x" + std::to_string(shape.head_dim);
}

/// An integer from 1 to kMaxElements.
std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if (value < 1 || value > kMaxElements) return {};
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.push_back(text);
  return parts;
}

/// From batch, tokens, q_heads, k_heads, head_dim; none if they are too large or head_dim is odd.
std::optional<Shape> make_shape(const std::array<std::int64_t, 5>& sizes) {
  const auto [batch, tokens, q_heads, k_heads, head_dim] = sizes;
  std::int64_t elements = 1;
  for (const std::int64_t size : {batch, tokens, q_heads + k_heads, head_dim}) {
    if (size > kMaxElements / elements) return {};
    elements *= size;
  }
  if (head_dim % 2 != 0) return {};
  return Shape{batch, tokens, q_heads, k_heads, head_dim};
}

}  // namespace

std::string name_of(const Shape& shape) {
  std::string heads = "(";
  heads.append(std::to_string(shape.q_heads)).append("+");
  heads.append(std::to_string(shape.k_heads)).append(")");
  return join_sizes(shape, heads);
}

std::string short_name_of(const Shape& shape) {
  return join_sizes(shape, std::to_string(shape.heads()));
}

const std::vector<NamedShape>& standard_shapes() {
  static const std::vector<NamedShape> kShapes = {
      {"decode", {.tokens = 1, .q_heads = 32, .k_heads = 8, .head_dim = 128}},
      {"cached", {.tokens = 64, .q_heads = 32, .k_heads = 8, .head_dim = 128}},
      {"prefill", {.tokens = 4096, .q_heads = 32, .k_heads = 8, .head_dim = 128}},
      {"batch", {.batch = 8, .tokens = 512, .q_heads = 12, .k_heads = 12, .head_dim = 64}}};
  return kShapes;
}

std::optional<Shape> parse_shape(std::string_view text) {
  for (const NamedShape& standard : standard_shapes()) {
    if (standard.name == text) return standard.shape;
  }
  std::vector<std::string_view> parts = split(text, 'x');
  if (parts.size() == 3) parts.insert(parts.begin(), "1");
  if (parts.size() != 4) return {};
  std::string_view heads = parts[2];
  if (heads.starts_with('(') && heads.ends_with(')')) heads = heads.substr(1, heads.size() - 2);
  const std::vector<std::string_view> q_and_k = split(heads, '+');
  if (q_and_k.size() != 2) return {};

  std::array<std::int64_t, 5> sizes{};
  const std::array<std::string_view, 5> texts = {parts[0], parts[1], q_and_k[0], q_and_k[1],
                                                 parts[3]};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<std::int64_t> size = parse_size(texts[i]);
    if (!size) return {};
    sizes[i] = *size;
  }
  return make_shape(sizes);
}

Regime regime_of(const Shape& shape) noexcept {
  const auto bytes = shape.elements() * static_cast<std::int64_t>(sizeof(float));
  if (bytes <= 128 << 10) return Regime::kDecode;
  if (bytes <= 2 << 20) return Regime::kInCache;
  return bytes < 16 << 20 ? Regime::kBetween : Regime::kOutOfCache;
}

std::string_view name_of(Placement placement) noexcept {
  switch (placement) {
    case Placement::kInPlace:
      return "in_place";
    case Placement::kOutOfPlace:
      return "out_of_place";
    case Placement::kUnaligned:
      break;
  }
  return "out_unaligned";
}

std::string_view name_of(Tables tables) noexcept {
  return tables == Tables::kReady ? "ready" : "on_the_fly";
}

std::string_view short_name_of(DType dtype) noexcept {
  for (const auto& [type, name] : kTypes) {
    if (type == dtype) return name;
  }
  return name_of(dtype);
}

std::optional<DType> parse_dtype(std::string_view text) noexcept {
  for (const auto& [type, name] : kTypes) {
    if (name == text) return type;
  }
  return {};
}

std::vector<Variant> variants_of(DType dtype) {
  std::vector<Variant> variants;
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    for (const Placement placement : kPlacements) {
      for (const Tables tables : {Tables::kReady, Tables::kOnTheFly}) {
        if (dtype == DType::kFloat64 && tables == Tables::kReady) continue;
        if (placement == Placement::kUnaligned && tables == Tables::kOnTheFly) continue;
        variants.push_back({pairing, placement, tables});
      }
    }
  }
  return variants;
}

}  // namespace rotary::measure
