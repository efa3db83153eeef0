// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/config.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "model/config_warnings.h"
#include "model/family.h"
#include "model/part.h"
#include "model/ropes_json.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

std::string model_type_of(const Json& config) {
  const Json* found = config.find("model_type");
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}

/// "text_config" -> "text". The language model is always "text".
std::string part_name(std::string_view key) {
  if (key == "llm_config" || key == "language_config") return "text";
  if (key.ends_with("_config")) key.remove_suffix(7);
  return std::string(key);
}

bool is_part_key(std::string_view key) {
  return key.ends_with("_config") || key == "encoder" || key == "decoder";
}

/// True if the object describes a model by itself: a known family or a width.
bool is_complete(const Json& config) {
  constexpr std::array<const char*, 6> kWidths = {"hidden_size", "head_dim", "n_embd",
                                                  "d_model",     "dim",      "qk_rope_head_dim"};
  return find_family(model_type_of(config)) != nullptr ||
         std::any_of(kWidths.begin(), kWidths.end(),
                     [&config](const char* key) { return config.contains(key); });
}

/// "text." -> "text", in quotes.
std::string quoted_part(const std::string& prefix) {
  return quote(std::string_view(prefix).substr(0, prefix.size() - 1));
}

/// Appends the ropes of a config and of its sub-configs to a model.
class ConfigWalker {
 public:
  ConfigWalker(const std::string& source, std::string_view transformers, Model& model)
      : source_(source), transformers_(transformers), model_(model) {}

  void walk(const Json& config, const std::string& prefix, std::string model_type, int depth) {
    constexpr int kMaxDepth = 8;
    if (depth > kMaxDepth) return;
    if (model_type.empty()) model_type = model_type_of(config);
    const Family* family = family_of(model_type);
    read_own(config, prefix, model_type, family);
    for (const auto& [key, value] : config.members()) {
      if (!value.is_object() || !is_part_key(key)) continue;
      const std::string type = type_of_part(value, key, family);
      const Family* own = family_of(type);
      const bool known = own != nullptr && (own->has_rope || !own->parts.empty());
      const bool described = mentions_rope(value) && is_complete(value);
      if (known || described || !type.empty()) {
        walk(value, prefix + part_name(key) + ".", type, depth + 1);
      }
    }
  }

  /// Adds a warning to every rope for each part that was not read; throws if there is no rope.
  void report() {
    for (ModelRope& rope : model_.ropes) {
      rope.warnings.insert(rope.warnings.end(), skipped_.begin(), skipped_.end());
    }
    if (model_.ropes.empty() && !skipped_.empty()) {
      reject("[Model] ", source_, ": ", skipped_.front());
    }
  }

 private:
  const Family* family_of(std::string_view model_type) const {
    return find_family(model_type, transformers_);
  }

  std::string type_of_part(const Json& value, const std::string& key, const Family* parent) const {
    // Published vision configs often repeat the model_type of the composite.
    std::string own = model_type_of(value);
    const Family* family = family_of(own);
    if (parent == nullptr || (family != nullptr && (family->has_rope || family != parent))) {
      return own;
    }
    const auto found = parent->parts.find(key);
    return found == parent->parts.end() ? own : found->second;
  }

  /// Reads the ropes of the object itself, not of its sub-configs.
  void read_own(const Json& config, const std::string& prefix, const std::string& model_type,
                const Family* family) {
    if (family != nullptr && !family->unsupported.empty()) {
      const std::string line = concat("model_type ", quote(model_type), ": ", family->unsupported);
      if (prefix.empty()) reject("[Model] ", source_, ": ", line);
      skipped_.push_back(concat("part ", quoted_part(prefix), " is left out; ", line));
      return;
    }
    if (family != nullptr && !family->condition.first.empty()) {
      const auto& [key, value] = family->condition;
      const Json* given = config.find(key);
      if (given == nullptr || *given != value) {
        skipped_.push_back(concat("model_type ", quote(model_type), " has no rotation unless ", key,
                                  " is ", quote(value)));
        return;
      }
    }
    if (family != nullptr && !family->warns.empty()) {
      skipped_.push_back(concat("model_type ", quote(model_type), ": ", family->warns));
      if (!family->has_rope) return;
    }
    if (family != nullptr && family->has_rope)
      return append(config, prefix, *family, model_type, {});
    if (!mentions_rope(config) || !is_complete(config)) return;
    // A composite with the keys of its text model at the top level, like Qwen2-VL.
    if (family != nullptr && config.contains("hidden_size")) {
      if (const auto text = family->parts.find("text_config"); text != family->parts.end()) {
        if (config.contains("text_config")) return;
        return append(config, prefix + "text.", *family_of(text->second), text->second, {});
      }
    }
    if (model_type.empty()) {
      const Family& llama = *family_of("llama");
      return append(config, prefix, llama, "llama",
                    "pairing half (the config has no model_type; it is read like \"llama\")");
    }
    const bool mla = config.contains("qk_rope_head_dim");
    try {
      append(config, prefix, mla ? unknown_mla_family() : unknown_family(), model_type,
             concat(mla ? "pairing interleaved, written as halves, and DeepSeek's softmax scale"
                        : "pairing half",
                    " (model_type ", quote(model_type), " is not known; most models ",
                    mla ? "with qk_rope_head_dim do so)" : "pair halves)"));
    } catch (const std::invalid_argument& error) {
      if (prefix.empty()) throw;
      // An unknown part does not prevent reading the known ones.
      skipped_.push_back(concat("part ", quoted_part(prefix), " is left out; ", error.what()));
    }
  }

  void append(const Json& config, const std::string& prefix, const Family& family,
              const std::string& model_type, const std::string& assumed) {
    const Lookup lookup(config, family, model_type, source_);
    for (ModelRope& rope : read_part(lookup)) {
      if (model_.ropes.size() == kMaxRopes) {
        reject("[Model] ", source_, ": more than ", kMaxRopes, " ropes in all parts");
      }
      rope.name = prefix + rope.name;
      if (!assumed.empty()) rope.assumed.insert(rope.assumed.begin(), assumed);
      check_parameters(rope);
      model_.ropes.push_back(std::move(rope));
    }
  }

  void check_parameters(const ModelRope& rope) const {
    try {
      static_cast<void>(rope.make_frequencies());
    } catch (const std::invalid_argument& error) {
      reject("[Model] ", source_, ": rope ", quote(rope.name), ": ", error.what());
    }
  }

  const std::string& source_;
  std::string_view transformers_;
  Model& model_;
  std::vector<std::string> skipped_;
};

}  // namespace

Model read_config(const Json& root, const std::string& source, std::string_view transformers) {
  if (!root.is_object()) {
    reject("[Model] ", source, ": a config must be a JSON object, got ", root.type_name());
  }
  if (is_ropes_json(root)) return read_ropes_json(root, source);
  Model model;
  model.model_type = model_type_of(root);
  ConfigWalker walker(source, transformers, model);
  walker.walk(root, "", "", 0);
  walker.report();
  if (model.ropes.empty()) {
    reject("[Model] ", source, ": no rotation found; model_type ", quote(model.model_type),
           find_family(model.model_type) == nullptr ? " is not known" : " keeps it in its parts",
           " and no key speaks of one");
  }
  return model;
}

}  // namespace rotary::internal
