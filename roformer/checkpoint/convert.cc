// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/checkpoint/convert.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "io/json_file.h"
#include "json/json.h"
#include "rotary/error.h"
#include "rotary/io.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using internal::quote;

/// Heads with the same layers have the same names in both; others are dropped.
Task task_of_bert(const Json& config) {
  constexpr std::array<std::pair<std::string_view, Task>, 5> kSame{
      {{"BertForMaskedLM", Task::kMaskedLm},
       {"BertForPreTraining", Task::kMaskedLm},
       {"BertLMHeadModel", Task::kCausalLm},
       {"BertForTokenClassification", Task::kTokenClassification},
       {"BertForQuestionAnswering", Task::kQuestionAnswering}}};
  const Json* names = config.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty()) return Task::kEncoder;
  for (const auto& [name, task] : kSame) {
    if (names->elements().front() == name) return task;
  }
  return Task::kEncoder;
}

Config config_of_bert(Json json, const fs::path& path) {
  const Task task = task_of_bert(json);
  // Keys of BERT's position embeddings and heads.
  for (const char* key :
       {"position_embedding_type", "architectures", "pooler_fc_size", "pooler_num_attention_heads",
        "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"}) {
    json.take(key);
  }
  json["model_type"] = "roformer";
  Config config = config_from_json(std::move(json), path.string());
  config.task = task;
  return config;
}

/// Why a RoFormer does not have this tensor; empty if it does.
std::string_view reason_to_drop(std::string_view name, Task task) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (has("position_embeddings") || has("position_ids") || has("encoder.encoding.")) {
    return "positions: RoPE takes their place";
  }
  if (has("embed_positions")) return "positions: made again from the config";
  if (name.starts_with("pooler.") || has(".pooler.")) return "the pooler: RoFormer has none";
  if (has("seq_relationship")) return "the next-sentence head: RoFormer has none";
  if (task == Task::kEncoder && (name.starts_with("classifier.") || name.starts_with("cls."))) {
    return "a head of other layers than RoFormer's";
  }
  return "";
}

std::string new_name(std::string name, Task task) {
  constexpr std::string_view kOld = "bert.";
  constexpr std::string_view kNew = "roformer.";
  if (name.starts_with(kOld)) name.replace(0, kOld.size(), kNew);
  if (task == Task::kEncoder && name.starts_with(kNew)) name.erase(0, kNew.size());
  const auto swap_end = [&name](std::string_view from, std::string_view to) {
    if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
  };
  swap_end("LayerNorm.gamma", "LayerNorm.weight");
  swap_end("LayerNorm.beta", "LayerNorm.bias");
  return name;
}

Config read_source(const CheckpointFiles& files) {
  Json json = internal::read_json_file(files.config);
  if (!json.is_object()) fail_file(files.config, "not a JSON object");
  const Json* type = json.find("model_type");
  if (type != nullptr && *type == "bert") {
    const Json* encoding = json.find("position_embedding_type");
    if (encoding != nullptr && *encoding != "absolute") {
      fail_file(files.config,
                "position_embedding_type must be \"absolute\", got " + quote(encoding->dump()));
    }
    return config_of_bert(std::move(json), files.config);
  }
  Config config = config_from_json(std::move(json), files.config.string());
  const std::string& encoding = config.position_encoding;
  if (encoding != "learned" && encoding != "sinusoidal" && encoding != "rope") {
    fail_file(files.config,
              "position_encoding must be \"learned\" or \"sinusoidal\" to be replaced, got " +
                  quote(encoding));
  }
  return config;
}

}  // namespace

Conversion convert_to_rope(const fs::path& path) {
  const CheckpointFiles files = find_checkpoint(path);
  Conversion result{.config = read_source(files)};
  result.config.position_encoding = "rope";
  const Task task = result.config.task;
  TensorMap kept;
  for (auto& [name, tensor] : read_weights(files.weights)) {
    if (const std::string_view reason = reason_to_drop(name, task); !reason.empty()) {
      result.dropped.push_back({name, std::string(reason)});
      continue;
    }
    std::string renamed = new_name(name, task);
    if (renamed != name) result.renamed.emplace_back(name, renamed);
    kept.emplace(std::move(renamed), tensor);
  }

  // Through a model, which checks shapes and missing tensors, and merges tied ones.
  const Model model = make_model_for(kept, result.config, files.weights);
  const LoadReport report = load_weights(*model, kept, files.weights.string());
  if (!report.missing.empty()) {
    fail_file(files.weights, "tensor " + quote(report.missing.front()) + " is missing");
  }
  for (const std::string& name : report.unused) {
    result.dropped.push_back({name, "no such tensor in a RoFormer"});
  }
  const auto real =
      std::ranges::find_if(kept, [](const auto& one) { return one.second.is_floating_point(); });
  model->to(real->second.scalar_type());  // as it was
  result.tensors = weights_of(*model);
  return result;
}

}  // namespace rotary::roformer
