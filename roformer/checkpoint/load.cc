// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From files to a model.
#include <ATen/Functions.h>

#include <set>
#include <sstream>
#include <utility>

#include "io/json_file.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "rotary/error.h"
#include "rotary/io.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using internal::quote;

constexpr std::string_view kBias = "cls.predictions.bias";
constexpr std::string_view kDecoderBias = "cls.predictions.decoder.bias";
constexpr std::string_view kDecoder = "cls.predictions.decoder.weight";
constexpr std::string_view kWords = "roformer.embeddings.word_embeddings.weight";

/// The files that an index names, each once.
std::set<std::string> shards_of(const Json& map, const fs::path& index) {
  std::set<std::string> files;
  for (const auto& [name, file] : map.members()) {
    if (!file.is_string()) fail_file(index, "weight_map must name a file for " + quote(name));
    const std::string& text = file.as_string();
    // A name, not a path: an index must not refer to files outside of its folder.
    if (text.empty() || fs::path(text).filename() != text || text == "." || text == "..") {
      fail_file(index, "weight_map must name files of this folder, got " + quote(text));
    }
    files.insert(text);
  }
  return files;
}

TensorMap read_shards(const fs::path& index) {
  const Json json = internal::read_json_file(index);
  const Json* map = json.find("weight_map");
  if (map == nullptr || !map->is_object()) {
    fail_file(index, "not an index: there is no object weight_map in it");
  }
  TensorMap tensors;
  for (const std::string& name : shards_of(*map, index)) {
    for (auto& [key, tensor] : read_tensors(index.parent_path() / name)) {
      const Json* entry = map->find(key);
      if (entry != nullptr && *entry == name) tensors.emplace(key, std::move(tensor));
    }
  }
  for (const auto& [name, shard] : map->members()) {
    if (!tensors.contains(name)) {
      fail_file(index.parent_path() / shard.as_string(),
                "the index promises tensor " + quote(name) + ", which is not in the file");
    }
  }
  return tensors;
}

/// The names under which a checkpoint may have a parameter, the usual one first.
std::vector<std::string> names_of(const std::string& name) {
  std::vector<std::string> names = {name};
  const auto swap_end = [&names](std::string text, std::string_view from, std::string_view to) {
    if (text.ends_with(from)) {
      names.push_back(text.replace(text.size() - from.size(), from.size(), to));
    }
  };
  swap_end(name, "LayerNorm.weight", "LayerNorm.gamma");
  swap_end(name, "LayerNorm.bias", "LayerNorm.beta");
  for (std::size_t i = 0, known = names.size(); i < known; ++i) {
    if (names[i].starts_with(kEncoderPrefix))
      names.push_back(names[i].substr(kEncoderPrefix.size()));
  }
  if (name == kBias) names.emplace_back(kDecoderBias);
  // Tied tensors may have either name.
  if (name == kDecoder) names.emplace_back(kWords);
  if (name == kWords) names.emplace_back(kDecoder);
  return names;
}

/// Before memory is allocated for a model: a few bytes of a config must not cost more than the
/// weights that belong to it.
void check_number_of_weights(const Config& c, const TensorMap& tensors, const fs::path& source) {
  const auto hidden = static_cast<double>(c.hidden_size);
  const auto rows = static_cast<double>(c.vocab_size) + static_cast<double>(c.type_vocab_size) +
                    (c.position_encoding.find("learned") == std::string::npos
                         ? 0.0
                         : static_cast<double>(c.max_position_embeddings));
  const double layer = 4 * hidden * hidden + 2 * hidden * static_cast<double>(c.intermediate_size);
  const double wanted = rows * static_cast<double>(c.embedding_dim()) +
                        static_cast<double>(c.num_hidden_layers) * layer;
  double present = 0.0;
  for (const auto& [name, tensor] : tensors) present += static_cast<double>(tensor.numel());
  if (wanted <= present) return;
  std::ostringstream text;
  text << "has " << present << " weights; the config (vocab_size " << c.vocab_size
       << ", hidden_size " << c.hidden_size << ", intermediate_size " << c.intermediate_size
       << ", num_hidden_layers " << c.num_hidden_layers << ") needs at least " << wanted;
  fail_file(source, text.str());
}

bool is_position_table(std::string_view name) {
  return name.ends_with("embed_positions.weight") || name.ends_with("embeddings.position_ids");
}

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// Whether the tensor is a second copy of a parameter.
bool is_tied(const std::string& name, const at::Tensor& tensor, ModelImpl& model) {
  const auto parameters = model.named_parameters();
  const at::Tensor* twin = name == kDecoder       ? parameters.find(std::string(kWords))
                           : name == kDecoderBias ? parameters.find(std::string(kBias))
                                                  : nullptr;
  return twin != nullptr && twin->sizes() == tensor.sizes() &&
         at::equal(twin->detach(), tensor.to(twin->options()));
}

}  // namespace

CheckpointFiles find_checkpoint(const fs::path& path) {
  const auto exists = [](const fs::path& file) {
    std::error_code ignored;
    return fs::is_regular_file(file, ignored);
  };
  if (path.extension() == ".safetensors") {
    if (!exists(path)) fail_file(path, "no such file");
    fs::path own = path;
    own.replace_extension(".config.json");
    if (exists(own)) return {.config = own, .weights = path};
    const fs::path shared = path.parent_path() / "config.json";
    if (!exists(shared))
      fail_file(path, "neither " + own.filename().string() + " nor config.json beside it");
    return {.config = shared, .weights = path};
  }
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    fail_file(
        path,
        fs::exists(path, ignored)
            ? "neither a folder with config.json and model.safetensors nor a .safetensors file"
            : "no such folder or file");
  }
  if (!exists(path / "config.json")) fail_file(path, "there is no config.json in this folder");
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (exists(path / name)) return {.config = path / "config.json", .weights = path / name};
  }
  fail_file(path,
            exists(path / "pytorch_model.bin")
                ? "pytorch_model.bin is a pickle, which is not read: save it as safetensors first"
                : "there is neither model.safetensors nor model.safetensors.index.json in it");
}

TensorMap read_weights(const fs::path& weights) {
  return weights.extension() == ".json" ? read_shards(weights) : read_tensors(weights);
}

Model make_model_for(const TensorMap& tensors, const Config& config, const fs::path& source) {
  check_number_of_weights(config, tensors, source);
  return make_model(config);
}

LoadReport load_weights(ModelImpl& model, const TensorMap& tensors, const std::string& source) {
  const at::NoGradGuard no_grad;
  LoadReport report;
  std::set<std::string> used;
  for (const auto& item : model.named_parameters()) {
    const TensorMap::const_iterator none = tensors.end();
    TensorMap::const_iterator found = none;
    for (const std::string& name : names_of(item.key())) {
      if (found == none) found = tensors.find(name);
    }
    if (found == none) {
      report.missing.push_back(item.key());
      continue;
    }
    const at::Tensor& tensor = found->second;
    if (tensor.sizes() != item.value().sizes() || !tensor.is_floating_point()) {
      std::ostringstream text;
      text << "tensor " << quote(found->first) << " is " << tensor.sizes() << " of "
           << tensor.scalar_type() << ", the config wants real numbers "
           << shape_text(item.value());
      fail_file(source, text.str());
    }
    if (!at::isfinite(tensor).all().item<bool>()) {
      fail_file(source, "tensor " + quote(found->first) + " has NaN or infinity");
    }
    item.value().copy_(tensor);
    used.insert(found->first);
  }
  for (const auto& [name, tensor] : tensors) {
    if (used.contains(name) || is_position_table(name)) continue;
    (is_tied(name, tensor, model) ? report.tied : report.unused).push_back(name);
  }
  return report;
}

Loaded load_model(const fs::path& path, std::optional<Task> task) {
  return load_changed_model(path, [task](Config& config) {
    if (task) config.task = *task;
  });
}

Loaded load_changed_model(const fs::path& path, const std::function<void(Config&)>& change) {
  const CheckpointFiles files = find_checkpoint(path);
  Config config = read_config(files.config);
  change(config);
  const TensorMap tensors = read_weights(files.weights);
  Loaded loaded{.model = make_model_for(tensors, config, files.weights)};
  loaded.report = load_weights(*loaded.model, tensors, files.weights.string());
  loaded.model->eval();
  return loaded;
}

Model load_complete_model(const fs::path& path, std::optional<Task> task) {
  Loaded loaded = load_model(path, task);
  const std::vector<std::string>& missing = loaded.report.missing;
  if (!missing.empty()) {
    fail_file(path,
              "tensor " + quote(missing.front()) + " is missing" +
                  (missing.size() > 1 ? ", and " + std::to_string(missing.size() - 1) + " more"
                                      : std::string()));
  }
  return loaded.model;
}

}  // namespace rotary::roformer
