// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/ropes_json.h"

#include <stdexcept>
#include <string_view>

#include "model/lookup.h"
#include "model/part.h"
#include "model/recipe_json.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// One rope, member by member.
class RopeObject {
 public:
  RopeObject(const Json& json, const std::string& source) : json_(json), source_(source) {}

  ModelRope read() const {
    ModelRope rope;
    if (const Json* name = find("name")) rope.name = text(*name, "name");
    rope.recipe = recipe_of_json(required("recipe"), source_);
    if (const Json* dim = find("rotary_dim")) {
      rope.recipe.rotary_dim = as_integer(*dim, "rotary_dim", source_);
    }
    if (const Json* map = find("axis_map")) rope.recipe.axes = axis_map_of_json(*map, source_);
    rope.layout.head_dim = as_integer(required("head_dim"), "head_dim", source_);
    rope.layout.rotary_offset = integer("rotary_offset");
    rope.layout.pairing = pairing(required("pairing"), "pairing");
    if (const Json* output = find("output_pairing")) {
      rope.layout.output_pairing = pairing(*output, "output_pairing");
    }
    rope.axes = axes(axes_of(rope.recipe.axes));
    if (const Json* context = find("context"); context != nullptr && context->is_object()) {
      const RopeObject lengths(*context, source_);
      rope.context = {lengths.integer("trained"), lengths.integer("extended")};
    }
    if (const Json* layers = find("layers")) {
      rope.layers = as_integers(*layers, "layers", source_);
    }
    rope.assumed = texts("assumed");
    rope.warnings = texts("warnings");
    return rope;
  }

 private:
  /// Null if absent or null.
  const Json* find(std::string_view key) const {
    const Json* found = json_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  const Json& required(const char* key) const {
    const Json* found = find(key);
    if (found == nullptr) reject("[Model] ", source_, ": a rope needs the key ", quote(key));
    return *found;
  }

  std::int64_t integer(const char* key) const {
    const Json* found = find(key);
    return found == nullptr ? 0 : as_integer(*found, key, source_);
  }

  std::string text(const Json& value, std::string_view key) const {
    if (!value.is_string()) {
      reject("[Model] ", source_, ": ", key, " must be a string, got ", quote(value.dump()));
    }
    return value.as_string();
  }

  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    const Json* found = find(key);
    if (found == nullptr) return result;
    if (!found->is_array()) {
      reject("[Model] ", source_, ": ", key, " must be a list, got ", quote(found->dump()));
    }
    for (const Json& each : found->elements()) result.push_back(text(each, key));
    return result;
  }

  Pairing pairing(const Json& value, const char* key) const {
    const std::string word = text(value, key);
    for (const Pairing each : {Pairing::kInterleaved, Pairing::kHalf}) {
      if (word == name_of(each)) return each;
    }
    reject("[Model] ", source_, ": ", key, " must be interleaved or half, got ", quote(word));
  }

  std::vector<std::string> axes(std::int64_t count) const {
    std::vector<std::string> names = texts("axes");
    if (names.size() != static_cast<std::size_t>(count)) {
      if (!names.empty() || count != 1) {
        reject("[Model] ", source_, ": axes must have ", count, " names, got ", names.size());
      }
      names = {"t"};
    }
    return names;
  }

  const Json& json_;
  const std::string& source_;
};

}  // namespace

bool is_ropes_json(const Json& root) {
  const Json* ropes = root.find("ropes");
  return ropes != nullptr && ropes->is_array() && !ropes->empty() &&
         ropes->elements().front().contains("recipe");
}

Model read_ropes_json(const Json& root, const std::string& source) {
  Model model;
  if (const Json* type = root.find("model_type"); type != nullptr && type->is_string()) {
    model.model_type = type->as_string();
  }
  const Json::Array& ropes = root.at("ropes").elements();
  if (ropes.size() > kMaxRopes) {
    reject("[Model] ", source, ": more than ", kMaxRopes, " ropes: ", ropes.size());
  }
  for (const Json& json : ropes) {
    ModelRope rope = RopeObject(json, source).read();
    try {
      static_cast<void>(rope.make_frequencies());
    } catch (const std::invalid_argument& error) {
      reject("[Model] ", source, ": rope ", quote(rope.name), ": ", error.what());
    }
    model.ropes.push_back(std::move(rope));
  }
  return model;
}

}  // namespace rotary::internal
