// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/dialect_rules.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "model/lookup.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

/// YaRN's temperature.
double temperature(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

/// Applies one row to one rope.
class Rules {
 public:
  Rules(const Json& row, RopeFile file, const std::string& model_type)
      : row_(row), file_(file), model_type_(model_type) {}

  DialectRope apply(const ModelRope& rope) {
    result_.rope = rope;
    result_.notes = row_words(&row_, "notes");
    Recipe& recipe = result_.rope.recipe;
    std::visit([this](const auto& scaling) { apply_to(scaling); }, Scaling(recipe.scaling));
    if (row_word(&row_, "mrope") == "ignored" && std::holds_alternative<Mrope>(recipe.axes)) {
      recipe.axes = OneAxis{};
      result_.rope.axes = {"t"};
      drop("mrope_section");
      drop("mrope_interleaved");
    }
    apply_layout();
    return std::move(result_);
  }

 private:
  /// Records a key of the file that has no effect.
  void drop(const std::string& key) {
    std::vector<std::string>& keys = result_.dropped_keys;
    if (file_.has(key) && std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }

  /// Plain frequencies: every key of the scaling is dropped.
  void unscale() {
    static const std::set<std::string_view> kKept = {"rope_type",     "type",
                                                     "rope_theta",    "partial_rotary_factor",
                                                     "mrope_section", "mrope_interleaved"};
    result_.rope.recipe.scaling = Plain{};
    if (file_.dict == nullptr) return;
    for (const auto& [key, value] : file_.dict->members()) {
      if (!kKept.contains(key)) drop(key);
    }
  }

  template <typename T>
  void apply_to(const T&) {}

  void apply_to(const Yarn& given) {
    const Json* rule = row_.find("yarn");
    if (rule == nullptr) return;
    for (const std::string& key : row_words(rule, "refuses_without")) {
      if (!file_.has(key) && file_.dict != nullptr) {
        result_.refused = concat("YaRN without ", key);
        return;
      }
    }
    const std::string needed = row_word(rule, "needs");
    const bool too_short = row_word(rule, "regime") == "max_length" && file_.max_length() > 0 &&
                           file_.max_length() <= given.original_context;
    if ((!needed.empty() && !file_.has(needed)) || too_short) return unscale();
    const bool latent = given.softmax_correction == SoftmaxCorrection::kMscaleAllDimSquared;
    Yarn yarn = given;
    apply_ramp(*rule, latent, yarn);
    apply_scale(*rule, latent, given, yarn);
    // What latent attention reads by other rules is not dropped.
    if (!latent || row_word(rule, "mla_scale").empty()) {
      for (const std::string& key : row_words(rule, "drops")) drop(key);
    }
    result_.rope.recipe.scaling = yarn;
    if (row_word(rule, "ramp") == "paper") {
      result_.rope.recipe.scaling = YarnPaper{.factor = yarn.factor,
                                              .original_context = yarn.original_context,
                                              .alpha = yarn.beta_slow,
                                              .beta = yarn.beta_fast};
    }
    const HeadLayout& layout = result_.rope.layout;
    Recipe& recipe = result_.rope.recipe;
    if (row_word(rule, "partial") == "ignored" && recipe.rotary_dim < layout.head_dim) {
      recipe.rotary_dim = layout.head_dim;
      recipe.ladder_dim = 0;
      drop("partial_rotary_factor");
    }
  }

  void apply_ramp(const Json& rule, bool latent, Yarn& yarn) {
    std::string truncate = latent ? row_word(&rule, "mla_truncate") : "";
    if (truncate.empty()) truncate = row_word(&rule, "truncate");
    if (!truncate.empty() && yarn.truncate != (truncate == "always")) {
      yarn.truncate = truncate == "always";
      drop("truncate");
    }
    if (row_word(&rule, "betas") == "fixed") {
      if (yarn.beta_fast != 32.0) drop("beta_fast");
      if (yarn.beta_slow != 1.0) drop("beta_slow");
      yarn.beta_fast = 32.0;
      yarn.beta_slow = 1.0;
    }
    if (const Json* original = rule.find("original")) {
      const bool is_given = file_.has("original_max_position_embeddings") ||
                            file_.config->contains("original_max_position_embeddings");
      if (!is_given && file_.dict != nullptr) yarn.original_context = original->as_int64();
    }
    const Json* mrope = rule.find("mrope_context");
    if (mrope != nullptr && std::holds_alternative<Mrope>(result_.rope.recipe.axes)) {
      yarn.original_context *= mrope->as_int64();
    }
  }

  void apply_scale(const Json& rule, bool latent, const Yarn& given, Yarn& yarn) {
    std::string scale = latent ? row_word(&rule, "mla_scale") : "";
    if (scale.empty()) scale = row_word(&rule, "scale");
    if (!scale.empty()) {
      yarn.attention_factor = scale_by(scale, rule, latent, given);
      yarn.mscale.reset();
      if (!latent) yarn.mscale_all_dim.reset();  // latent attention corrects its softmax by it
    }
    const std::string softmax = row_word(&rule, "softmax");
    if (softmax == "scale") {
      const Recipe& recipe = result_.rope.recipe;
      result_.softmax_factor = std::pow(rotary::make_frequencies(recipe).scale, 2.0);
    } else if (softmax == "mscale") {
      yarn.softmax_correction = SoftmaxCorrection::kNone;
      result_.softmax_factor = std::pow(temperature(given.factor, given.mscale.value_or(1.0)), 2.0);
    }
  }

  double scale_by(const std::string& scale, const Json& rule, bool latent, const Yarn& yarn) const {
    const double plain = temperature(yarn.factor, 1.0);
    const double extra = file_.number("attn_factor").value_or(1.0);
    const auto ratio = [&yarn](double mscale, double all_dim) {
      return temperature(yarn.factor, mscale) / temperature(yarn.factor, all_dim);
    };
    const bool both = yarn.mscale && yarn.mscale_all_dim;
    if (scale == "one") return 1.0;
    if (scale == "formula") return plain * extra;
    if (scale == "both") return (both ? ratio(*yarn.mscale, *yarn.mscale_all_dim) : plain) * extra;
    if (scale == "ratio") {
      return ratio(yarn.mscale.value_or(1.0), yarn.mscale_all_dim.value_or(0.0));
    }
    if (scale == "mscale") {
      if (both) return ratio(*yarn.mscale, *yarn.mscale_all_dim);
      return yarn.mscale.value_or(plain);
    }
    if (scale == "log") {
      const std::vector<std::string> types = row_words(&rule, "log_types");
      if (latent && yarn.mscale_all_dim) return 1.0;
      const bool listed = std::find(types.begin(), types.end(), model_type_) != types.end();
      return listed && yarn.mscale_all_dim ? ratio(1.0, *yarn.mscale_all_dim) : plain;
    }
    reject("[dialects] unknown scale ", scale);
  }

  void apply_to(const DynamicNtk& dynamic) {
    const std::string rule = row_word(&row_, "dynamic");
    if (rule.empty()) return;
    Scaling& scaling = result_.rope.recipe.scaling;
    if (rule == "refused") {
      result_.refused = "dynamic NTK";
    } else if (dynamic.alpha) {  // Hunyuan's change of base is fixed there
      scaling = NtkAlpha{.alpha = *dynamic.alpha};
    } else if (rule == "unscaled") {
      unscale();
    } else {
      const double k = dynamic.factor;
      scaling = NtkAlpha{.alpha = k * k - k + 1.0};
    }
  }

  void apply_to(const LongRope& given) {
    const Json* rule = row_.find("longrope");
    if (rule == nullptr) return;
    LongRope longrope = given;
    for (const std::string& key : row_words(rule, "drops")) {
      drop(key);
      if (key == "attention_factor") longrope.attention_factor.reset();
      if (key == "short_mscale") longrope.short_mscale.reset();
      if (key == "long_mscale") longrope.long_mscale.reset();
    }
    const auto original = static_cast<double>(given.original_context);
    if (row_word(rule, "scale") == "context" && file_.max_length() > 0) {
      longrope.factor = static_cast<double>(file_.max_length()) / original;
    }
    const std::string list = row_word(rule, "list");
    if (list == "long" || (list == "max_length" && file_.max_length() > given.original_context)) {
      longrope.short_factor = longrope.long_factor;
      if (longrope.long_mscale) longrope.short_mscale = longrope.long_mscale;
    }
    result_.rope.recipe.scaling = longrope;
  }

  void apply_to(const Llama3& given) {
    const Json* rule = row_.find("llama3");
    if (rule == nullptr) return;
    const Json& fixed = rule->at("fixed");
    Llama3 llama3 = given;
    llama3.low_freq_factor = fixed.at("low_freq_factor").as_double();
    llama3.high_freq_factor = fixed.at("high_freq_factor").as_double();
    llama3.original_context = fixed.at("original_context").as_int64();
    if (llama3.low_freq_factor != given.low_freq_factor) drop("low_freq_factor");
    if (llama3.high_freq_factor != given.high_freq_factor) drop("high_freq_factor");
    if (llama3.original_context != given.original_context) drop("original_max_position_embeddings");
    result_.rope.recipe.scaling = llama3;
  }

  void apply_to(const Proportional& given) {
    if (row_words(row_.find("proportional"), "drops").empty() || given.factor == 1.0) return;
    drop("factor");
    result_.rope.recipe.scaling = Proportional{.fraction = given.fraction};
  }

  void apply_layout() {
    HeadLayout& layout = result_.rope.layout;
    if (row_word(&row_, "writes") == "input") layout.output_pairing = layout.pairing;
    const std::vector<std::string> types = row_words(&row_, "interleaves");
    if (std::find(types.begin(), types.end(), model_type_) != types.end()) {
      layout.pairing = layout.output_pairing = Pairing::kInterleaved;
    }
  }

  const Json& row_;
  RopeFile file_;
  const std::string& model_type_;
  DialectRope result_;
};

}  // namespace

std::string row_word(const Json* object, std::string_view key) {
  const Json* found = object == nullptr ? nullptr : object->find(key);
  return found == nullptr ? std::string() : found->as_string();
}

std::vector<std::string> row_words(const Json* object, std::string_view key) {
  std::vector<std::string> result;
  const Json* found = object == nullptr ? nullptr : object->find(key);
  if (found == nullptr) return result;
  for (const Json& each : found->elements()) result.push_back(each.as_string());
  return result;
}

bool RopeFile::has(std::string_view key) const {
  const Json* found = dict == nullptr ? nullptr : dict->find(key);
  return found != nullptr && !found->is_null();
}

std::optional<double> RopeFile::number(std::string_view key) const {
  const Json* found = dict == nullptr ? nullptr : dict->find(key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->as_double();
}

std::int64_t RopeFile::max_length() const {
  const Json* found = config->find("max_position_embeddings");
  return found != nullptr && found->is_number()
             ? as_integer(*found, "max_position_embeddings", "config.json")
             : 0;
}

RopeFile file_of(const Json& root, const std::string& name) {
  RopeFile file{.config = &root};
  std::string_view rest = name;
  const std::size_t dot = rest.find('.');
  if (dot != std::string_view::npos) {
    const std::string part(rest.substr(0, dot));
    rest.remove_prefix(dot + 1);
    for (const std::string& key :
         {part + "_config", part, std::string(part == "text" ? "llm_config" : "")}) {
      const Json* found = root.find(key);
      if (found != nullptr && found->is_object()) file.config = found;
    }
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* found = file.config->find(key);
    if (found == nullptr || !found->is_object() || found->empty()) continue;
    const Json* layer = found->find(rest);
    file.dict = layer != nullptr && layer->is_object() ? layer : found;
    break;
  }
  return file;
}

DialectRope apply_dialect(const Json& row, const RopeFile& file, const std::string& model_type,
                          const ModelRope& rope) {
  return Rules(row, file, model_type).apply(rope);
}

}  // namespace rotary::internal
