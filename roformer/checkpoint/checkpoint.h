// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Checkpoints as Hugging Face has them, read and written.
///
///   namespace rf = rotary::roformer;
///   rf::Loaded base = rf::load_model("roformer_chinese_base");
///   rf::save_model("tuned", *base.model);          // transformers loads it
///
///   folder/           config.json, model.safetensors
///   folder/           config.json, model.safetensors.index.json, model-00001-of-00003.safetensors
///   name.safetensors  name.config.json beside it, or config.json
///
/// Files are not trusted: a bad one is an IoError of one line that begins with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/checkpoint/tensor_files.h"
#include "roformer/model/config.h"
#include "roformer/model/model.h"

namespace rotary::roformer {

/// Prefix of the names of the encoder's tensors in a model with a head.
inline constexpr std::string_view kEncoderPrefix = "roformer.";

struct CheckpointFiles {
  std::filesystem::path config;
  /// The tensors, or the index that names their files.
  std::filesystem::path weights;
};
/// The files of a checkpoint. Throws IoError if one is missing.
CheckpointFiles find_checkpoint(const std::filesystem::path& path);

/// All tensors of a .safetensors file, or of the shards that an index names.
TensorMap read_weights(const std::filesystem::path& weights);

/// The tensors of a checkpoint that were not simply copied.
struct LoadReport {
  /// Parameters that the checkpoint does not have: they keep their values.
  std::vector<std::string> missing{};
  /// Tensors that the model does not use.
  std::vector<std::string> unused{};
  /// Tensors tied to another in the model, and equal to it in the checkpoint.
  std::vector<std::string> tied{};
};

/// A model that these weights are to be loaded into, with random parameters. Throws IoError that
/// names `source`, before memory is allocated, if there are fewer weights than the config needs.
Model make_model_for(const TensorMap& tensors, const Config& config,
                     const std::filesystem::path& source);

/// Copies tensors into parameters, of any type. Names may lack or have the prefix "roformer.", and
/// norms may have TensorFlow's gamma and beta; position tables are ignored. Throws IoError that
/// names `source` for a shape that does not fit and for values that are not finite; the model is
/// then partly loaded.
LoadReport load_weights(ModelImpl& model, const TensorMap& tensors, const std::string& source);

struct Loaded {
  Model model{};
  LoadReport report{};
};
/// In inference mode (eval). `task`: instead of the config's; tensors of its head may be missing.
Loaded load_model(const std::filesystem::path& path, std::optional<Task> task = std::nullopt);
/// The same with a config that `change` has changed; tensors that it adds may be missing.
Loaded load_changed_model(const std::filesystem::path& path,
                          const std::function<void(Config&)>& change);
/// The same, but a missing tensor is an IoError.
Model load_complete_model(const std::filesystem::path& path,
                          std::optional<Task> task = std::nullopt);

struct SaveOptions {
  /// Larger models are written as several files.
  std::int64_t max_shard_bytes = std::int64_t{5} << 30;
  /// Adds files to the folder before it appears, or before the config of an existing one.
  std::function<void(const std::filesystem::path&)> add_files{};
};

/// The parameters under the names that transformers expects, with its position table.
TensorMap weights_of(const ModelImpl& model);

/// Writes a folder; or, if the path ends in .safetensors, that file and its config. The config
/// names the type of the tensors. A new folder appears only when it is complete; in an existing
/// one, each file is replaced once its successor is on the disk, the config last, and other files
/// stay.
void write_checkpoint(const std::filesystem::path& path, const Config& config,
                      const TensorMap& tensors, const SaveOptions& options = {});
void save_model(const std::filesystem::path& path, const ModelImpl& model,
                const SaveOptions& options = {});

}  // namespace rotary::roformer
