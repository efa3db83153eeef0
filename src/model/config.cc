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
#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

std::string model_type_of(const Json& config) {
  const auto found = config.find("model_type");
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// "text_config" -> "text"; the language model is "text" however a family calls it.
std::string part_name(std::string_view key) {
  if (key == "llm_config" || key == "language_config") return "text";
  if (key.ends_with("_config")) key.remove_suffix(7);
  return std::string(key);
}

bool may_be_part(std::string_view key) {
  return key.ends_with("_config") || key == "encoder" || key == "decoder";
}

/// Says enough of a model of its own: which family it is, or how wide its heads are.
bool stands_alone(const Json& config) {
  constexpr std::array<const char*, 6> kWidths = {"hidden_size", "head_dim", "n_embd",
                                                  "d_model",     "dim",      "qk_rope_head_dim"};
  return find_family(model_type_of(config)) != nullptr ||
         std::any_of(kWidths.begin(), kWidths.end(),
                     [&config](const char* key) { return config.contains(key); });
}

/// "text." -> "text", in quotes.
std::string part_of(const std::string& prefix) {
  return quote(std::string_view(prefix).substr(0, prefix.size() - 1));
}

class Walker {
 public:
  Walker(const std::string& source, Model& model) : source_(source), model_(model) {}

  void walk(const Json& config, const std::string& prefix, std::string model_type, int depth) {
    constexpr int kDeepest = 8;
    if (depth > kDeepest) return;
    if (model_type.empty()) model_type = model_type_of(config);
    const Family* family = find_family(model_type);
    read_own(config, prefix, model_type, family);
    for (const auto& [key, value] : config.items()) {
      if (!value.is_object() || !may_be_part(key)) continue;
      const std::string type = type_of_part(value, key, family);
      const Family* own = find_family(type);
      const bool known = own != nullptr && (own->has_rope || !own->parts.empty());
      const bool says_so = mentions_rope(value) && stands_alone(value);
      if (known || says_so || !type.empty()) {
        walk(value, prefix + part_name(key) + ".", type, depth + 1);
      }
    }
  }

  /// Parts that could not be read, as warnings on what could.
  void report() {
    for (ModelRope& rope : model_.ropes) {
      rope.warnings.insert(rope.warnings.end(), left_out_.begin(), left_out_.end());
    }
    if (model_.ropes.empty() && !left_out_.empty()) {
      reject("[Model] ", source_, ": ", left_out_.front());
    }
  }

 private:
  static std::string type_of_part(const Json& value, const std::string& key, const Family* parent) {
    // Published vision parts often repeat the model_type of the whole; the family knows better.
    std::string own = model_type_of(value);
    const Family* family = find_family(own);
    if (parent == nullptr || (family != nullptr && (family->has_rope || family != parent))) {
      return own;
    }
    const auto found = parent->parts.find(key);
    return found == parent->parts.end() ? own : found->second;
  }

  /// The rope of the object itself, if it has one.
  void read_own(const Json& config, const std::string& prefix, const std::string& model_type,
                const Family* family) {
    if (family != nullptr && !family->unsupported.empty()) {
      const std::string line = concat("model_type ", quote(model_type), ": ", family->unsupported);
      if (prefix.empty()) reject("[Model] ", source_, ": ", line);
      left_out_.push_back(concat("part ", part_of(prefix), " is left out; ", line));
      return;
    }
    if (family != nullptr && family->has_rope)
      return append(config, prefix, *family, model_type, {});
    if (!mentions_rope(config) || !stands_alone(config)) return;
    // A composite that keeps its text model's keys at the top, as Qwen2-VL was published.
    if (family != nullptr && config.contains("hidden_size")) {
      if (const auto text = family->parts.find("text_config"); text != family->parts.end()) {
        if (config.contains("text_config")) return;
        return append(config, prefix + "text.", *find_family(text->second), text->second, {});
      }
    }
    if (model_type.empty()) {
      const Family& llama = *find_family("llama");
      return append(config, prefix, llama, "llama",
                    "pairing half (the config has no model_type; it is read like \"llama\")");
    }
    const bool latent = config.contains("qk_rope_head_dim");
    try {
      append(config, prefix, latent ? unknown_latent_family() : unknown_family(), model_type,
             concat(latent ? "pairing interleaved, written as halves, and DeepSeek's softmax scale"
                           : "pairing half",
                    " (model_type ", quote(model_type), " is not known; most models ",
                    latent ? "with qk_rope_head_dim do so)" : "pair halves)"));
    } catch (const std::invalid_argument& error) {
      if (prefix.empty()) throw;
      // A part nobody knows must not keep the known ones from being read.
      left_out_.push_back(concat("part ", part_of(prefix), " is left out; ", error.what()));
    }
  }

  void append(const Json& config, const std::string& prefix, const Family& family,
              const std::string& model_type, const std::string& assumed) {
    const Lookup lookup(config, family, model_type, source_);
    for (ModelRope& rope : read_part(lookup)) {
      rope.name = prefix + rope.name;
      if (!assumed.empty()) rope.assumed.insert(rope.assumed.begin(), assumed);
      static_cast<void>(rope.make_frequencies());  // what cannot be made is refused here
      model_.ropes.push_back(std::move(rope));
    }
  }

  const std::string& source_;
  Model& model_;
  std::vector<std::string> left_out_;
};

}  // namespace

Model read_config(const Json& root, const std::string& source) {
  if (!root.is_object()) {
    reject("[Model] ", source, ": a config must be a JSON object, got ", root.type_name());
  }
  Model model;
  model.model_type = model_type_of(root);
  Walker walker(source, model);
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
