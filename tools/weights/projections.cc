// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/weights/projections.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/checks.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::cli {
namespace {

using internal::concat;
using internal::quote;
using internal::SafetensorsEntry;

enum class Role : std::uint8_t { kQuery, kKey, kQueryNorm, kKeyNorm, kFused };

struct Module {
  std::string_view name;
  Role role;
};
constexpr std::array<Module, 19> kModules{{{"q_proj", Role::kQuery},
                                           {"q_b_proj", Role::kQuery},
                                           {"wq", Role::kQuery},
                                           {"query", Role::kQuery},
                                           {"k_proj", Role::kKey},
                                           {"kv_a_proj_with_mqa", Role::kKey},
                                           {"wk", Role::kKey},
                                           {"key", Role::kKey},
                                           {"q_norm", Role::kQueryNorm},
                                           {"q_layernorm", Role::kQueryNorm},
                                           {"k_norm", Role::kKeyNorm},
                                           {"k_layernorm", Role::kKeyNorm},
                                           {"qkv_proj", Role::kFused},
                                           {"query_key_value", Role::kFused},
                                           {"Wqkv", Role::kFused},
                                           {"wqkv", Role::kFused},
                                           {"W_pack", Role::kFused},
                                           {"c_attn", Role::kFused},
                                           {"qkv", Role::kFused}}};

/// Rows of a fused projection: all heads of q, then those of k, then those of v; or of each head
/// its q, k and v.
enum class FusedLayout : std::uint8_t { kConcatenated, kPerHead };

struct FusedModule {
  std::string_view model_type;
  std::string_view name;
  FusedLayout layout;
};
/// As the attention of transformers 5.17.0 splits them.
constexpr std::array<FusedModule, 5> kFusedModules{
    {{"gpt_neox", "query_key_value", FusedLayout::kPerHead},
     {"gpt_neox_japanese", "query_key_value", FusedLayout::kPerHead},
     {"modernbert", "Wqkv", FusedLayout::kConcatenated},
     {"modernbert-decoder", "Wqkv", FusedLayout::kConcatenated},
     {"phi3", "qkv_proj", FusedLayout::kConcatenated}}};

/// A tensor's name: attention "." module "." rest.
struct NameParts {
  std::string_view attention;
  Module module;
  std::string_view rest;
};

/// By the last component that is a module; none if no component is.
std::optional<NameParts> split_name(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0) {
    const std::size_t dot = name.rfind('.', end - 1);
    const std::size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
    const std::string_view component = name.substr(begin, end - begin);
    const auto* const module =
        std::ranges::find_if(kModules, [&](const Module& m) { return m.name == component; });
    if (module != kModules.end()) {
      return NameParts{.attention = name.substr(0, begin),
                       .module = *module,
                       .rest = end < name.size() ? name.substr(end + 1) : std::string_view()};
    }
    if (begin == 0) break;
    end = dot;
  }
  return std::nullopt;
}

bool is_norm(Role role) { return role == Role::kQueryNorm || role == Role::kKeyNorm; }

/// "weight" or "bias"; of norms also that of one head (StableLM): "norms.0.weight".
bool is_plain(const NameParts& parts) {
  std::string_view leaf = parts.rest;
  if (is_norm(parts.module.role) && leaf.starts_with("norms.")) {
    leaf = leaf.substr(leaf.rfind('.') + 1);
  }
  return leaf == "weight" || leaf == "bias";
}

[[noreturn]] void fail(const SafetensorsEntry& entry, const std::string& source,
                       const std::string& message) {
  internal::fail_at(source, entry.header_offset, "tensor " + quote(entry.name) + " " + message);
}

void check_type(const SafetensorsEntry& entry, const NameParts& parts, const std::string& source) {
  constexpr std::array<std::string_view, 4> kTypes{"F16", "BF16", "F32", "F64"};
  if (!is_plain(parts)) {
    fail(entry, source, "is neither weight nor bias: quantised or adapted models are refused");
  }
  if (std::ranges::find(kTypes, entry.dtype) == kTypes.end()) {
    fail(entry, source,
         "must be F16, BF16, F32 or F64, got " + quote(entry.dtype) +
             ": quantised weights are "
             "refused");
  }
}

class Finder {
 public:
  Finder(const SafetensorsEntry& entry, const NameParts& parts, const AttentionShape& shape,
         const std::string& source)
      : entry_(entry), parts_(parts), shape_(shape), source_(source) {}

  Projection find() const {
    const std::size_t max_rank = is_norm(parts_.module.role) || parts_.rest == "weight" ? 2 : 1;
    if (entry_.begin == entry_.end || entry_.shape.empty() || entry_.shape.size() > max_rank) {
      fail(
          entry_, source_,
          "has the shape " + internal::shape_text(entry_.shape) + ", not that of a weight or bias");
    }
    Projection found;
    found.attention = parts_.attention;
    found.num_rows = entry_.shape[0];
    if (is_norm(parts_.module.role)) return find_norm(found);
    if (parts_.module.role == Role::kFused) return find_fused(found);
    found.makes_q = parts_.module.role == Role::kQuery;
    found.makes_k = !found.makes_q;
    if (parts_.module.name == "kv_a_proj_with_mqa") {
      found.heads = {{.num_heads = 1,
                      .stride = shape_.kv_lora_rank + shape_.rotary_dim,
                      .rotary_offset = shape_.kv_lora_rank,
                      .rotary_dim = shape_.rotary_dim}};
    } else {
      found.heads = {heads(0, found.makes_q ? shape_.num_heads : shape_.num_kv_heads)};
    }
    check_rows(found, found.heads.front().num_heads * found.heads.front().stride);
    return found;
  }

 private:
  HeadRows heads(std::int64_t first_row, std::int64_t count) const {
    return {.first_row = first_row,
            .num_heads = count,
            .stride = shape_.head_dim,
            .rotary_offset = shape_.rotary_offset,
            .rotary_dim = shape_.rotary_dim};
  }

  /// Of one head for all, or of every head.
  Projection find_norm(Projection found) const {
    if (entry_.shape.size() == 2) found.num_rows *= entry_.shape[1];
    const std::int64_t count =
        parts_.module.role == Role::kQueryNorm ? shape_.num_heads : shape_.num_kv_heads;
    const bool shared = found.num_rows == shape_.head_dim;
    found.heads = {heads(0, shared ? 1 : count)};
    if (!shared) check_rows(found, count * shape_.head_dim);
    return found;
  }

  Projection find_fused(Projection found) const {
    const auto* const known = std::ranges::find_if(kFusedModules, [&](const FusedModule& m) {
      return m.model_type == shape_.model_type && m.name == parts_.module.name;
    });
    if (known == kFusedModules.end()) {
      fail(entry_, source_, "is fused in a layout that is not known for " + shape_.model_type);
    }
    found.makes_q = found.makes_k = true;
    const std::int64_t q_rows = shape_.num_heads * shape_.head_dim;
    const std::int64_t k_rows = shape_.num_kv_heads * shape_.head_dim;
    if (known->layout == FusedLayout::kPerHead) {
      found.heads = {heads(0, shape_.num_heads), heads(shape_.head_dim, shape_.num_heads)};
      for (HeadRows& run : found.heads) run.stride = 3 * shape_.head_dim;
      check_rows(found, 3 * q_rows);
    } else {
      found.heads = {heads(0, shape_.num_heads), heads(q_rows, shape_.num_kv_heads)};
      check_rows(found, q_rows + 2 * k_rows);
    }
    return found;
  }

  void check_rows(const Projection& found, std::int64_t expected) const {
    if (found.num_rows == expected) return;
    fail(entry_, source_,
         concat("must have ", expected, " rows by config.json (heads of ", shape_.head_dim,
                "), got the shape ", internal::shape_text(entry_.shape)));
  }

  const SafetensorsEntry& entry_;
  const NameParts& parts_;
  const AttentionShape& shape_;
  const std::string& source_;
};

}  // namespace

Beside beside_projections(std::string_view component) {
  constexpr std::array<std::string_view, 4> kValues{"v_proj", "wv", "value", "kv_b_proj"};
  // Outputs, the latent parts of MLA, attention sinks, and buffers of old checkpoints.
  constexpr std::array<std::string_view, 17> kHarmless{"o_proj",
                                                       "out_proj",
                                                       "wo",
                                                       "dense",
                                                       "Wo",
                                                       "c_proj",
                                                       "q_a_proj",
                                                       "q_a_layernorm",
                                                       "kv_a_layernorm",
                                                       "v_norm",
                                                       "sinks",
                                                       "attn_sub_norm",
                                                       "rotary_emb",
                                                       "bias",
                                                       "masked_bias",
                                                       "o_norm",
                                                       "embed_positions"};
  if (std::ranges::find(kValues, component) != kValues.end()) return Beside::kValue;
  const bool harmless = std::ranges::find(kHarmless, component) != kHarmless.end();
  return harmless ? Beside::kHarmless : Beside::kUnknown;
}

std::optional<Projection> find_projection(const SafetensorsEntry& entry,
                                          const AttentionShape& shape, const std::string& source) {
  const std::optional<NameParts> parts = split_name(entry.name);
  if (!parts) return std::nullopt;
  check_type(entry, *parts, source);
  return Finder(entry, *parts, shape, source).find();
}

}  // namespace rotary::cli
