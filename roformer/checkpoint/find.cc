// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The files of a checkpoint and the tensors in them.
#include <set>
#include <utility>

#include "io/json_file.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using internal::quote;

bool is_file(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored);
}

/// Whether the name is that of a file of torch.save().
bool is_torch_file(const fs::path& path) {
  const fs::path extension = path.extension();
  return extension == ".bin" || extension == ".pt" || extension == ".pth";
}

TensorMap read_file(const fs::path& path) {
  return is_torch_file(path) ? read_torch_tensors(path) : read_tensors(path);
}

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
    for (auto& [key, tensor] : read_file(index.parent_path() / name)) {
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

}  // namespace

bool is_weights_file(const fs::path& path) {
  return path.extension() == ".safetensors" || is_torch_file(path);
}

CheckpointFiles find_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!is_file(path / "config.json")) fail_file(path, "there is no config.json in this folder");
    // As transformers, which prefers .safetensors.
    for (const char* name : {"model.safetensors", "model.safetensors.index.json",
                             "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
      if (is_file(path / name)) return {.config = path / "config.json", .weights = path / name};
    }
    fail_file(path,
              "there is neither model.safetensors nor pytorch_model.bin, nor an index of "
              "their shards, in it");
  }
  if (is_weights_file(path)) {
    if (!is_file(path)) fail_file(path, "no such file");
    fs::path own = path;
    own.replace_extension(".config.json");
    if (is_file(own)) return {.config = own, .weights = path};
    const fs::path shared = path.parent_path() / "config.json";
    if (!is_file(shared))
      fail_file(path, "neither " + own.filename().string() + " nor config.json beside it");
    return {.config = shared, .weights = path};
  }
  fail_file(path, fs::exists(path, ignored)
                      ? "neither a folder with config.json and model.safetensors nor a "
                        ".safetensors or .bin file"
                      : "no such folder or file");
}

TensorMap read_weights(const fs::path& weights) {
  return weights.extension() == ".json" ? read_shards(weights) : read_file(weights);
}

}  // namespace rotary::roformer
