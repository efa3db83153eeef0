// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/checkpoint/names.h"

#include <array>
#include <utility>

#include "roformer/checkpoint/checkpoint.h"

namespace rotary::roformer {
namespace {

constexpr std::string_view kBertPrefix = "bert.";

/// Parts of BERT's names that are others than RoFormer's. Its pooler is the first layer of
/// RoFormer's classification head.
std::string bert_name_of(const std::string& parameter, const Config& config) {
  if (parameter == "roformer.encoder.encoding.weight") {
    return "bert.embeddings.position_embeddings.weight";
  }
  std::string name = parameter;
  const auto swap_start = [&name](std::string_view from, std::string_view to) {
    if (name.starts_with(from)) name.replace(0, from.size(), to);
  };
  if (config.task == Task::kSequenceClassification) {
    swap_start("classifier.dense.", "bert.pooler.dense.");
    swap_start("classifier.out_proj.", "classifier.");
  }
  swap_start(kEncoderPrefix, kBertPrefix);
  return name;
}

std::string_view prefix_of(const Config& config) {
  return config.family == Family::kBert ? kBertPrefix : kEncoderPrefix;
}

}  // namespace

std::string file_name_of(const std::string& parameter, const Config& config) {
  std::string name = config.family == Family::kBert ? bert_name_of(parameter, config) : parameter;
  // The bare model has no prefix, as in transformers.
  if (config.task == Task::kEncoder) name.erase(0, prefix_of(config).size());
  return name;
}

std::vector<std::string> file_names_of(const std::string& parameter, const Config& config) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& alias) {
    Config with_head = config;
    if (with_head.task == Task::kEncoder) with_head.task = Task::kMaskedLm;
    const std::string name = file_name_of(alias, with_head);
    std::vector<std::string> endings = {name};
    constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOld{
        {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}};
    for (const auto& [now, old] : kOld) {
      if (name.ends_with(now)) {
        endings.push_back(name.substr(0, name.size() - now.size()) + std::string(old));
      }
    }
    names.insert(names.end(), endings.begin(), endings.end());
    const std::string_view prefix = prefix_of(config);
    for (const std::string& one : endings) {
      if (!one.starts_with(prefix)) continue;
      const std::string bare = one.substr(prefix.size());
      names.push_back(bare);
      // WoBERT's weights in a RoFormer kept BERT's prefix.
      if (config.family == Family::kRoFormer) names.push_back(std::string(kBertPrefix) + bare);
    }
  };
  add(parameter);
  if (parameter == kPredictionsBias) add(std::string(kDecoderBias));
  // Tied tensors may have either name.
  if (parameter == kDecoder) add(std::string(kWordEmbeddings));
  if (parameter == kWordEmbeddings) add(std::string(kDecoder));
  return names;
}

bool is_position_table(std::string_view name) {
  return name.ends_with("embed_positions.weight") || name.ends_with("embeddings.position_ids");
}

}  // namespace rotary::roformer
