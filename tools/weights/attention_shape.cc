// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/weights/attention_shape.h"

#include <initializer_list>
#include <string_view>

#include "io/json_file.h"
#include "json/json.h"
#include "model/family.h"
#include "rotary/model.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::cli {
namespace {

using internal::Json;
using internal::quote;
using internal::reject;

constexpr std::int64_t kMaxCount = 1 << 20;

/// A count of the config under the first of these names that it has; 0 without one.
std::int64_t count_of(const Json& config, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* const value = config.find(name);
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_int64() || value->as_int64() < 1 || value->as_int64() > kMaxCount) {
      reject("[permute] ", name, " of config.json must be a number from 1 to ", kMaxCount, ", got ",
             value->excerpt());
    }
    return value->as_int64();
  }
  return 0;
}

/// The one head layout of all ropes of a model.
const ModelRope& only_layout(const Model& model) {
  const ModelRope& first = model.ropes.front();
  for (const ModelRope& rope : model.ropes) {
    if (rope.name.find('.') != std::string::npos) {
      reject("[permute] a model of several parts is not supported, got a config with the rope ",
             quote(rope.name));
    }
    if (rope.layout.head_dim != first.layout.head_dim ||
        rope.layout.rotary_offset != first.layout.rotary_offset ||
        rope.recipe.rotary_dim != first.recipe.rotary_dim ||
        rope.layout.pairing != first.layout.pairing) {
      reject("[permute] all layers must have heads of one layout, got different ones in ",
             quote(first.name), " and ", quote(rope.name));
    }
  }
  return first;
}

}  // namespace

AttentionShape read_attention_shape(const std::filesystem::path& config_path) {
  const Json config = internal::read_json_file(config_path);
  const Model model = Model::read(config_path);
  const internal::Family* const family = internal::find_family(model.model_type);
  if (family == nullptr) {
    reject("[permute] model_type must be one that `rotary models` lists, got ",
           quote(model.model_type));
  }
  if (family->has_indexer) {
    reject("[permute] the indexer of ", model.model_type, " has a pairing of its own");
  }
  if (const Json* const quantised = config.find("quantization_config");
      quantised != nullptr && !quantised->is_null()) {
    reject("[permute] weights must not be quantised, got a config with quantization_config");
  }
  const ModelRope& rope = only_layout(model);
  AttentionShape shape{.model_type = model.model_type,
                       .num_heads = count_of(config, {"num_attention_heads", "n_head", "n_heads"}),
                       .head_dim = rope.layout.head_dim,
                       .rotary_offset = rope.layout.rotary_offset,
                       .rotary_dim = rope.recipe.rotary_dim,
                       .kv_lora_rank = count_of(config, {"kv_lora_rank"}),
                       .pairing = rope.layout.pairing.value_or(Pairing::kHalf),
                       .interleave_key = family->interleave_key};
  if (shape.num_heads == 0) reject("[permute] config.json must have num_attention_heads");
  shape.num_kv_heads = count_of(config, {"num_key_value_heads", "num_kv_heads"});
  if (shape.num_kv_heads == 0) shape.num_kv_heads = shape.num_heads;
  if (shape.kv_lora_rank > 0) {
    // The rope sees only the rotary slice, the last rows of a head of q.
    const std::int64_t plain = count_of(config, {"qk_nope_head_dim"});
    if (plain == 0) reject("[permute] config.json must have qk_nope_head_dim beside kv_lora_rank");
    shape.rotary_offset += plain;
    shape.head_dim += plain;
  }
  if (shape.head_dim > kMaxCount || shape.rotary_offset + shape.rotary_dim > shape.head_dim) {
    reject("[permute] the rotary slice must lie in a head of at most ", kMaxCount, ", got ",
           shape.rotary_dim, " dims from ", shape.rotary_offset, " of a head of ", shape.head_dim);
  }
  return shape;
}

}  // namespace rotary::cli
