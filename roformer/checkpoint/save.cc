// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From a model to files.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/folder.h"
#include "roformer/checkpoint/names.h"
#include "roformer/model/rope_config.h"
#include "rotary/error.h"
#include "rotary/frequencies.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

/// transformers' table [positions, head_dim]: row m has sin(m f_i), then cos(m f_i), of the first
/// rope; pairs that are not rotated have frequency 0. The scale of a recipe is part of the table,
/// so that transformers rotates as we do where all layers have one rope.
at::Tensor position_table(const Config& config, at::ScalarType type) {
  const LayerRopes layers = layer_ropes(config);
  Frequencies rope;
  if (layers.ropes.empty()) {
    rope = make_frequencies({.rotary_dim = config.head_dim() / 2 * 2, .theta = config.rope_theta});
  } else {
    rope = layers.ropes.front().make_frequencies(config.rope_context);
  }
  const at::Tensor frequencies = at::tensor(rope.values, at::kDouble);
  const at::Tensor positions = at::arange(config.max_position_embeddings, at::kDouble);
  const at::Tensor angles = at::outer(positions, frequencies);
  const std::vector<std::int64_t> rest = {0, config.head_dim() / 2 - rope.pairs};
  return at::cat({at::constant_pad_nd(angles.sin().mul_(rope.scale), rest, 0.0),
                  at::constant_pad_nd(angles.cos().mul_(rope.scale), rest, 1.0)},
                 1)
      .to(at::kFloat)
      .to(type);
}

/// The config with the type of these weights: transformers would convert them to any other type
/// that it names.
std::string config_of(const Config& config, const TensorMap& tensors) {
  Config named = config;
  internal::Json other = internal::parse_json(config.other, "config");
  other.take("torch_dtype");
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point()) continue;
    const at::ScalarType type = tensor.scalar_type();
    other["dtype"] = type == at::kHalf       ? "float16"
                     : type == at::kBFloat16 ? "bfloat16"
                     : type == at::kDouble   ? "float64"
                                             : "float32";
    break;
  }
  named.other = other.dump();
  return to_json(named);
}

/// Tensors in the order of their names, each shard as full as the limit allows.
std::vector<TensorMap> split(const TensorMap& tensors, std::int64_t limit) {
  std::vector<TensorMap> shards(1);
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    if (bytes + size > limit && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace(name, tensor);
    bytes += size;
  }
  return shards;
}

std::string shard_name(std::size_t i, std::size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, count);
  return name;
}

/// Returns the names of the files that hold weights.
std::set<std::string> write_weights(const fs::path& folder, const TensorMap& tensors,
                                    std::int64_t limit) {
  const std::vector<TensorMap> shards = split(tensors, limit);
  if (shards.size() == 1) {
    write_tensors(folder / "model.safetensors", tensors);
    return {"model.safetensors"};
  }
  internal::Json index;
  index["metadata"]["total_size"] = bytes_of(tensors);
  std::set<std::string> files = {"model.safetensors.index.json"};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shard_name(i, shards.size());
    write_tensors(folder / file, shards[i]);
    for (const auto& [name, tensor] : shards[i]) index["weight_map"][name] = file;
    files.insert(file);
  }
  write_text(folder / "model.safetensors.index.json", index.dump_lines());
  return files;
}

/// Weights of an earlier save under other names: a reader might take them for the new ones.
void remove_stale(const fs::path& folder, const std::set<std::string>& files) {
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool weights = name == "model.safetensors" || name == "model.safetensors.index.json" ||
                         (name.starts_with("model-") && name.ends_with(".safetensors"));
    if (weights && !files.contains(name)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
}

void fill_folder(const fs::path& folder, const Config& config, const TensorMap& tensors,
                 const SaveOptions& options) {
  const std::set<std::string> files = write_weights(folder, tensors, options.max_shard_bytes);
  remove_stale(folder, files);
  if (options.add_files) options.add_files(folder);
  write_text(folder / "config.json", config_of(config, tensors));
}

/// Written under a temporary name, then renamed.
void write_new_folder(const fs::path& folder, const Config& config, const TensorMap& tensors,
                      const SaveOptions& options) {
  constexpr std::int64_t kMinAge = 60;  // s; between the creation of a folder and its lock
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  create_folders(parent);
  remove_leftovers(parent, kMinAge);
  TemporaryFolder beside(parent, kNewModelPrefix);
  fill_folder(beside.path(), config, tensors, options);
  beside.rename_to(folder);
}

}  // namespace

TensorMap weights_of(const ModelImpl& model) {
  const Config& config = model.config();
  TensorMap tensors;
  const at::ScalarType type = model.parameters().front().scalar_type();
  for (const auto& item : model.named_parameters()) {
    tensors.emplace(file_name_of(item.key(), config), item.value().detach());
  }
  const auto bias = tensors.find(std::string(kPredictionsBias));
  if (!config.tie_word_embeddings && bias != tensors.end()) {
    tensors.emplace(kDecoderBias, bias->second);
  }
  const bool fixed =
      config.rope_learn == RopeLearn::kNothing && config.position_steps == PositionStepsOf::kNone;
  if (config.position_encoding == "rope" && fixed) {
    const std::string prefix(config.task == Task::kEncoder ? "" : kEncoderPrefix);
    tensors.emplace(prefix + "encoder.embed_positions.weight", position_table(config, type));
  }
  return tensors;
}

void write_checkpoint(const fs::path& path, const Config& config, const TensorMap& tensors,
                      const SaveOptions& options) {
  try {
    if (path.extension() == ".safetensors") {
      write_tensors(path, tensors);
      fs::path beside = path;
      write_text(beside.replace_extension(".config.json"), config_of(config, tensors));
      return;
    }
    // "folder/" and "folder" are the same.
    const fs::path folder = path.has_filename() ? path : path.parent_path();
    if (fs::exists(folder)) {
      if (!fs::is_directory(folder)) fail_file(path, "not a folder");
      return fill_folder(folder, config, tensors, options);
    }
    write_new_folder(folder, config, tensors, options);
  } catch (const fs::filesystem_error& error) {
    fail_file(path, "cannot write: " + error.code().message());
  }
}

void save_model(const fs::path& path, const ModelImpl& model, const SaveOptions& options) {
  write_checkpoint(path, model.config(), weights_of(model), options);
}

}  // namespace rotary::roformer
