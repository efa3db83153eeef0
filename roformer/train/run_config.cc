// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <variant>

#include "rotary/error.h"
#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using RunJson = nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using Stages = std::vector<Stage>;
using Member = std::variant<std::string RunConfig::*, Strings RunConfig::*, Stages RunConfig::*,
                            std::int64_t RunConfig::*, std::uint64_t RunConfig::*,
                            double RunConfig::*, bool RunConfig::*>;

/// What a value may be: words, or a range of numbers.
struct Rule {
  std::string_view words{};  // "a|b|c"
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
};

struct Key {
  ConfigKey told;
  Member member;
  Rule rule{};
};

const std::array kKeys = {
    Key{{"model", "NAME", "base, small, tiny, a config.json, or {\"hidden_size\": ...}"},
        &RunConfig::model},
    Key{{"init", "PATH", "a checkpoint to begin with, in the place of model"}, &RunConfig::init},
    Key{{"objective", "WORD", "masked or causal"}, &RunConfig::objective, {"masked|causal"}},
    Key{{"corpus", "PATH...", "texts, folders of texts, or a token cache"}, &RunConfig::corpus},
    Key{{"format", "WORD", "auto, paragraphs (blank lines between documents), lines or jsonl"},
        &RunConfig::format,
        {"auto|paragraphs|lines|jsonl"}},
    Key{{"field", "NAME", "of a JSON line: where the text is"}, &RunConfig::field},
    Key{{"cache", "PATH", "the tokenised corpus; corpus.tokens in the run's folder if empty"},
        &RunConfig::cache},
    Key{{"validation", "PATH...", "texts to measure with, as corpus"}, &RunConfig::validation},
    Key{{"tokenizer", "WORD",
         "auto (roformer with a dictionary, else bert), roformer, bert, "
         "character or byte"},
        &RunConfig::tokenizer,
        {"auto|roformer|bert|character|byte"}},
    Key{{"vocab", "PATH", "the vocabulary, a token a line"}, &RunConfig::vocab},
    Key{{"dict", "PATH", "jieba's dictionary"}, &RunConfig::dict},
    Key{{"mask_rate", "X", "share of the words to be guessed"},
        &RunConfig::mask_rate,
        {{}, 1e-6, 1.0}},
    Key{{"whole_words", "on|off", "mask all tokens of a word, or each for itself"},
        &RunConfig::whole_words},
    Key{{"packed", "on|off", "several documents a row, or one and padding"}, &RunConfig::packed},
    Key{{"stages", "LxBxS,...", "length x rows a step x steps, one after the other"},
        &RunConfig::stages},
    Key{{"micro_batch", "N", "rows that a process computes at once; 0: all of a step"},
        &RunConfig::micro_batch},
    Key{{"learning_rate", "X", "the highest"}, &RunConfig::learning_rate},
    Key{{"schedule", "WORD", "after the warm-up: constant, linear or cosine"},
        &RunConfig::schedule,
        {"constant|linear|cosine"}},
    Key{{"warmup_steps", "N", "steps until the learning rate is at its highest"},
        &RunConfig::warmup_steps},
    Key{{"final_share", "X", "what is left of the learning rate at the end"},
        &RunConfig::final_share,
        {{}, 0.0, 1.0}},
    Key{{"weight_decay", "X", "of AdamW; not of norms and biases"}, &RunConfig::weight_decay},
    Key{{"beta1", "X", "of AdamW"}, &RunConfig::beta1, {{}, 0.0, 0.999999}},
    Key{{"beta2", "X", "of AdamW"}, &RunConfig::beta2, {{}, 0.0, 0.999999}},
    Key{{"epsilon", "X", "of AdamW"}, &RunConfig::epsilon, {{}, 1e-30, 1.0}},
    Key{{"clip_norm", "X", "largest norm of the gradient; 0: any"}, &RunConfig::clip_norm},
    Key{{"seed", "N", "of weights, order, masks and dropout"}, &RunConfig::seed},
    Key{{"device", "WORD", "auto (a GPU where there is one), cpu or cuda"},
        &RunConfig::device,
        {"auto|cpu|cuda"}},
    Key{{"precision", "WORD", "auto (bfloat16 on a GPU), float32 or bfloat16"},
        &RunConfig::precision,
        {"auto|float32|bfloat16"}},
    Key{{"checkpointing", "on|off", "compute layers again in the backward pass: less memory"},
        &RunConfig::checkpointing},
    Key{{"shard_optimizer", "on|off", "each process keeps a part of the optimizer's state"},
        &RunConfig::shard_optimizer},
    Key{{"threads", "N", "for tokenising; 0: one a processor"},
        &RunConfig::threads,
        {{}, 0.0, 1024.0}},
    Key{{"report_every", "N", "steps between reports"}, &RunConfig::report_every, {{}, 1.0}},
    Key{{"gradients_every", "N", "steps between reports of every layer's gradient; 0: none"},
        &RunConfig::gradients_every},
    Key{{"evaluate_every", "N", "steps between measurements with validation; 0: at the end"},
        &RunConfig::evaluate_every},
    Key{{"save_every", "N", "steps between checkpoints; 0: at the end"}, &RunConfig::save_every},
    Key{{"keep", "N", "checkpoints that stay"}, &RunConfig::keep, {{}, 1.0}},
};

std::span<const ConfigKey> told_keys() {
  static const auto kTold = [] {
    std::array<ConfigKey, kKeys.size()> told;
    std::ranges::transform(kKeys, told.begin(), &Key::told);
    return told;
  }();
  return kTold;
}

[[noreturn]] void refuse(const Key& key, std::string_view rule, const RunJson& got) {
  internal::reject(key.told.name, " must be ", rule, ", got ", got.dump());
}

const Key& find_key(std::string_view name) {
  const auto at = std::ranges::find(kKeys, name, [](const Key& key) { return key.told.name; });
  if (at != kKeys.end()) return *at;
  std::vector<std::string_view> names;
  for (const Key& key : kKeys) names.push_back(key.told.name);
  const std::string_view near = internal::nearest(name, names);
  internal::reject("there is no key ", internal::quote(name),
                   near.empty() ? "" : "; did you mean " + internal::quote(near) + "?");
}

// ---- One function a type: from JSON, and to it --------------------------------------------------

void check_range(const Key& key, double value, const RunJson& json) {
  if (value >= key.rule.least && value <= key.rule.most) return;
  const std::string rule = std::isinf(key.rule.most)
                               ? internal::concat("at least ", key.rule.least)
                               : internal::concat("from ", key.rule.least, " to ", key.rule.most);
  refuse(key, rule, json);
}

void take(const Key& key, const RunJson& json, std::string& out) {
  // A model may be spelled out.
  if (key.told.name == "model" && json.is_object()) {
    out = json.dump();
    return;
  }
  if (!json.is_string()) refuse(key, "a text", json);
  out = json.get<std::string>();
  if (key.rule.words.empty()) return;
  for (std::string_view words = key.rule.words; !words.empty();) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == out) return;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  refuse(key, internal::concat("one of ", key.rule.words), json);
}
void take(const Key& key, const RunJson& json, Strings& out) {
  out.clear();
  for (const RunJson& item : json.is_array() ? json : RunJson::array({json})) {
    if (!item.is_string()) refuse(key, "a path or a list of paths", json);
    out.push_back(item.get<std::string>());
  }
}
void take(const Key& key, const RunJson& json, std::int64_t& out) {
  if (!json.is_number_integer()) refuse(key, "a whole number", json);
  check_range(key, json.get<double>(), json);
  out = json.get<std::int64_t>();
}
void take(const Key& key, const RunJson& json, std::uint64_t& out) {
  if (!json.is_number_unsigned()) refuse(key, "a whole number that is not negative", json);
  out = json.get<std::uint64_t>();
}
void take(const Key& key, const RunJson& json, double& out) {
  if (!json.is_number()) refuse(key, "a number", json);
  check_range(key, json.get<double>(), json);
  out = json.get<double>();
}
void take(const Key& key, const RunJson& json, bool& out) {
  if (!json.is_boolean()) refuse(key, "true or false", json);
  out = json.get<bool>();
}

constexpr std::string_view kStageRule =
    "\"LENGTHxROWSxSTEPS, ...\" or [{\"length\": N, \"batch\": N, \"steps\": N}, ...]";

Stage stage_from_text(const Key& key, std::string_view text, const RunJson& json) {
  std::array<std::int64_t*, 3> parts{};
  Stage stage;
  parts = {&stage.length, &stage.batch, &stage.steps};
  const std::string copy(text);
  const char* at = copy.c_str();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    char* end = nullptr;
    *parts[i] = std::strtoll(at, &end, 10);
    const char wanted = i + 1 < parts.size() ? 'x' : '\0';
    if (end == at || *end != wanted) refuse(key, kStageRule, json);
    at = end + 1;
  }
  return stage;
}

Stage stage_from_json(const Key& key, const RunJson& item, const RunJson& json) {
  if (item.is_string()) return stage_from_text(key, item.get<std::string>(), json);
  if (!item.is_object()) refuse(key, kStageRule, json);
  Stage stage;
  for (const auto& [name, value] : item.items()) {
    std::int64_t* part = name == "length"  ? &stage.length
                         : name == "batch" ? &stage.batch
                         : name == "steps" ? &stage.steps
                                           : nullptr;
    if (part == nullptr || !value.is_number_integer()) refuse(key, kStageRule, json);
    *part = value.get<std::int64_t>();
  }
  return stage;
}

RunJson split_list(std::string_view text) {
  RunJson items = RunJson::array();
  while (true) {
    const std::size_t comma = text.find(',');
    std::string item(text.substr(0, comma));
    std::erase(item, ' ');
    items.push_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

void take(const Key& key, const RunJson& json, Stages& out) {
  const RunJson items = json.is_string() ? split_list(json.get<std::string>()) : json;
  if (!items.is_array() || items.empty()) refuse(key, kStageRule, json);
  out.clear();
  for (const RunJson& item : items) {
    const Stage stage = stage_from_json(key, item, json);
    if (stage.length < 3 || stage.batch < 1 || stage.steps < 1) {
      refuse(key, "of lengths from 3 on, and positive rows and steps", json);
    }
    out.push_back(stage);
  }
}

void set(RunConfig& config, const Key& key, const RunJson& value) {
  std::visit([&](auto member) { take(key, value, config.*member); }, key.member);
}

RunJson give(const std::string& value) {
  return value.starts_with('{') ? RunJson::parse(value) : RunJson(value);
}
RunJson give(const Stages& stages) {
  RunJson json = RunJson::array();
  for (const Stage& stage : stages) {
    json.push_back({{"length", stage.length}, {"batch", stage.batch}, {"steps", stage.steps}});
  }
  return json;
}
template <typename T>
RunJson give(const T& value) {
  return value;
}

/// A flag's text as the JSON that its key wants.
RunJson json_of(const Key& key, std::string_view text) {
  const bool is_text = std::holds_alternative<std::string RunConfig::*>(key.member) ||
                       std::holds_alternative<Stages RunConfig::*>(key.member);
  if (std::holds_alternative<bool RunConfig::*>(key.member)) {
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
    internal::reject(key.told.name, " must be on or off, got ", internal::quote(text));
  }
  if (is_text && !text.starts_with('{')) return std::string(text);
  const RunJson json = RunJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? RunJson(std::string(text)) : json;
}

}  // namespace

std::int64_t RunConfig::steps() const noexcept {
  std::int64_t sum = 0;
  for (const Stage& stage : stages) sum += stage.steps;
  return sum;
}

std::span<const ConfigKey> config_keys() { return told_keys(); }

RunConfig read_run_config(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(path.string(), IoError::kNoOffset, "cannot be read");
  RunConfig config;
  try {
    const RunJson json = RunJson::parse(text);
    if (!json.is_object()) internal::reject("must be a JSON object");
    for (const auto& [name, value] : json.items()) set(config, find_key(name), value);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  } catch (const std::invalid_argument& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  }
  return config;
}

void set_from_text(RunConfig& config, std::string_view name, std::span<const std::string> values) {
  const Key& key = find_key(name);
  if (std::holds_alternative<Strings RunConfig::*>(key.member)) {
    return set(config, key, Strings(values.begin(), values.end()));
  }
  if (values.size() != 1) internal::reject(name, " must have one value, got ", values.size());
  set(config, key, json_of(key, values.front()));
}

void check_run_config(const RunConfig& config, std::int64_t num_ranks) {
  if (config.corpus.empty()) internal::reject("there is no corpus: name one");
  for (const Stage& stage : config.stages) {
    const std::int64_t rows = config.micro_batch > 0 ? config.micro_batch * num_ranks : num_ranks;
    if (stage.batch % rows != 0) {
      internal::reject("a batch of ", stage.batch, " rows is no multiple of ", num_ranks,
                       " processes", config.micro_batch > 0 ? " with micro_batch " : "",
                       config.micro_batch > 0 ? std::to_string(config.micro_batch) : "");
    }
  }
}

std::string to_json(const RunConfig& config) {
  RunJson json;
  for (const Key& key : kKeys) {
    std::visit([&](auto member) { json[std::string(key.told.name)] = give(config.*member); },
               key.member);
  }
  return json.dump(2) + "\n";
}

}  // namespace rotary::roformer
