// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lines to type for an engine, and their check.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <variant>

#include "explain/plan.h"
#include "explain/text_layout.h"
#include "rotary/dialect.h"
#include "rotary/model.h"

namespace rotary::explain {
namespace {

/// The key of the part that a rope belongs to: "text_config" for "text.default"; empty for the
/// whole.
std::string part_key(const Json& config, const std::string& rope_name) {
  const std::size_t dot = rope_name.find('.');
  if (dot == std::string::npos) return "";
  for (const std::string& key : {rope_name.substr(0, dot) + "_config", std::string("llm_config")}) {
    if (config.contains(key)) return key;
  }
  return "";  // a composite with the keys of its text model at the top
}

/// Keys of a rope dictionary that say which scaling it is. The others (sections of M-RoPE, a
/// partial rotation) say what is rotated, and stay.
bool is_of_scaling(const std::string& key) {
  static const std::set<std::string> kKeys = {"alpha",
                                              "attention_factor",
                                              "attn_factor",
                                              "beta_fast",
                                              "beta_slow",
                                              "factor",
                                              "high_freq_factor",
                                              "long_factor",
                                              "long_mscale",
                                              "low_freq_factor",
                                              "mscale",
                                              "mscale_all_dim",
                                              "original_max_position_embeddings",
                                              "rope_theta",
                                              "rope_type",
                                              "short_factor",
                                              "short_mscale",
                                              "truncate",
                                              "type"};
  return kKeys.contains(key);
}

/// The option's dictionary, with what must stay of an old one.
Json with_kept_keys(Json parameters, const Json* old) {
  if (old == nullptr || !old->is_object()) return parameters;
  for (const auto& [key, value] : old->members()) {
    if (!is_of_scaling(key) && !value.is_object() && !parameters.contains(key)) {
      parameters[key] = value;
    }
  }
  return parameters;
}

/// Whether ropes of this name are those of a layer type, for which transformers has one dictionary
/// each.
bool is_layer_type(const std::string& layer) { return layer.ends_with("_attention"); }

/// One dictionary per layer type: the option's for `layer`, and what the others have.
Json nested_parameters(const PlanOption& option, const Json* own, const std::string& layer,
                       const Model& model, const std::string& part) {
  const Json* old = own != nullptr ? own->find(layer) : nullptr;
  if (old != nullptr) {
    Json nested = *own;
    nested[layer] = with_kept_keys(option.rope_parameters, old);
    return nested;
  }
  Json nested = Json::object();
  for (const ModelRope& rope : model.ropes) {
    const bool here = rope.name.starts_with(part) && is_layer_type(rope.name.substr(part.size()));
    if (!here) continue;
    const std::string other = rope.name.substr(part.size());
    nested[other] = other == layer
                        ? option.rope_parameters
                        : Json{{"rope_type", "default"}, {"rope_theta", rope.recipe.theta}};
  }
  return nested;
}

/// What the option changes in config.json. Keys that have precedence over the new ones become null.
Json changes_of(const PlanOption& option, const Json& config, const Model& model,
                const std::string& rope_name) {
  const std::string key = part_key(config, rope_name);
  const Json& part = key.empty() ? config : config.at(key);
  Json changes = Json::object();
  if (option.max_position_embeddings > 0) {
    changes["max_position_embeddings"] = option.max_position_embeddings;
  }
  const std::size_t dot = rope_name.find('.');
  const std::string prefix = dot == std::string::npos ? "" : rope_name.substr(0, dot + 1);
  const std::string layer = rope_name.substr(prefix.size());
  const Json* own = part.find("rope_parameters");
  const Json* of_layer = own != nullptr && own->is_object() ? own->find(layer) : nullptr;
  if (of_layer == nullptr || !of_layer->is_object()) of_layer = nullptr;
  if (of_layer != nullptr || is_layer_type(layer)) {
    changes["rope_parameters"] =
        nested_parameters(option, of_layer != nullptr ? own : nullptr, layer, model, prefix);
  } else {
    changes["rope_parameters"] =
        with_kept_keys(with_kept_keys(option.rope_parameters, own), part.find("rope_scaling"));
  }
  for (const char* old : {"rope_scaling", "original_max_position_embeddings"}) {
    const Json* found = part.find(old);
    if (found != nullptr && !found->is_null()) changes[old] = nullptr;
  }
  if (key.empty()) return changes;
  Json whole = Json::object();
  whole[key] = changes;
  return whole;
}

/// The config after the changes.
Json changed_config(Json config, const Json& changes) {
  for (const auto& [key, value] : changes.members()) {
    const bool is_part = key.ends_with("_config") && value.is_object() && config.contains(key);
    config[key] = is_part ? changed_config(config.at(key), value) : value;
  }
  return config;
}

/// Flags of llama.cpp; empty where it has none.
std::string llama_cpp_flags(const PlanOption& option, const Plan& plan) {
  const double factor = static_cast<double>(plan.context) / static_cast<double>(plan.original);
  if (option.name == "yarn") {
    return fmt::format("--rope-scaling yarn --rope-scale {} --yarn-orig-ctx {}", factor,
                       plan.original);
  }
  if (option.name == "linear") {
    return fmt::format("--rope-scaling linear --rope-scale {}", factor);
  }
  if (option.name == "base") {
    return fmt::format("--rope-scaling none --rope-freq-base {}", option.recipe.theta);
  }
  return "";
}

/// Why flags of llama.cpp cannot make the option's rotation of the GGUF file of this model.
std::string llama_cpp_problem(const PlanOption& option, const Plan& plan, bool layer_types) {
  const Scaling& own = plan.now.recipe.scaling;
  if (llama_cpp_flags(option, plan).empty()) return "it has no flags for this recipe";
  if (std::holds_alternative<Llama3>(own) || std::holds_alternative<LongRope>(own)) {
    return "the GGUF file holds a factor for each pair (rope_freqs), which flags do not replace";
  }
  if (layer_types) return "its flags are not of one layer type";
  return "";
}

std::string text_for(const std::string& engine, const PlanOption& option, const Plan& plan,
                     const std::string& json) {
  if (engine == "vllm") {
    return fmt::format("vllm serve MODEL --max-model-len {} --hf-overrides '{}'", plan.context,
                       json);
  }
  if (engine == "sglang") {
    return fmt::format(
        "python -m sglang.launch_server --model-path MODEL --context-length {} "
        "--json-model-override-args '{}'",
        plan.context, json);
  }
  if (engine == "llama.cpp") {
    return fmt::format("llama-server -m MODEL.gguf -c {} {}", plan.context,
                       llama_cpp_flags(option, plan));
  }
  return json;
}

/// Empty if the dialect gives the recipe's rotation at the ends of both contexts.
std::string problem_of(const PlanOption& option, const Plan& plan, const Json& config,
                       const std::string& rope_name, const std::string& engine) {
  const DialectModel model = dialect_from_config(config.dump(), engine);
  const auto found =
      std::find_if(model.ropes.begin(), model.ropes.end(),
                   [&](const DialectRope& rope) { return rope.rope.name == rope_name; });
  if (found == model.ropes.end()) return "the config has no such rope any more";
  if (!found->refused.empty()) return "it refuses " + found->refused;
  DialectRope text = *found;
  if (std::holds_alternative<Mrope>(text.rope.recipe.axes)) text.rope.recipe.axes = OneAxis{};
  for (const std::int64_t context : {plan.trained, plan.context}) {
    const Frequencies wanted = make_frequencies(option.recipe, context);
    const Frequencies got = text.make_frequencies(context);
    const auto close = [](double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(a); };
    const bool same = std::equal(wanted.values.begin(), wanted.values.end(), got.values.begin(),
                                 got.values.end(), close) &&
                      close(wanted.scale, got.scale) &&
                      close(wanted.softmax_scale, got.softmax_scale);
    if (same) continue;
    const std::string dropped =
        text.dropped_keys.empty() ? "" : ", which drops " + join(text.dropped_keys, ", ");
    return fmt::format("{} makes another rotation of it{}", model.dialect.full_name(), dropped);
  }
  return "";
}

}  // namespace

const std::vector<std::string>& plan_engines() {
  static const std::vector<std::string> kEngines = {"hf", "vllm", "sglang", "llama.cpp"};
  return kEngines;
}

std::vector<EngineLines> engine_lines(const PlanOption& option, const Plan& plan,
                                      const std::string& config, const std::string& rope_name,
                                      const std::string& engine) {
  const std::vector<std::string>& known = plan_engines();
  if (!engine.empty() && std::find(known.begin(), known.end(), engine) == known.end()) {
    throw std::invalid_argument(
        fmt::format("[plan] the engine must be one of {}, got '{}'", join(known, ", "), engine));
  }
  const Json root = internal::parse_json(config, "config.json");
  const Model model = Model::from_config(config);
  const Json changes = changes_of(option, root, model, rope_name);
  const Json changed = changed_config(root, changes);
  std::vector<EngineLines> lines;
  for (const std::string& each : known) {
    if (!engine.empty() && each != engine) continue;
    EngineLines line{.text = text_for(each, option, plan, changes.dump())};
    for (const Dialect& dialect : known_dialects()) {
      if (dialect.name == each && line.dialect.empty()) line.dialect = dialect.full_name();
    }
    const bool layer_types = is_layer_type(rope_name.substr(rope_name.find('.') + 1));
    if (each == "llama.cpp") line.problem = llama_cpp_problem(option, plan, layer_types);
    if (line.problem.empty()) line.problem = problem_of(option, plan, changed, rope_name, each);
    line.checked = line.problem.empty();
    if (!line.checked) line.text.clear();
    lines.push_back(line);
  }
  return lines;
}

}  // namespace rotary::explain
