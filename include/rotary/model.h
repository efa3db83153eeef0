// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The rotation of a model, read from the files it is published with.
///
///   rotary::Model model = rotary::Model::read("Qwen2.5-7B/");   // or config.json, or a .gguf
///   const rotary::ModelRope& text = model.rope();               // or rope("vision.default")
///   rotary::Rope rope = text.make_rope();
///   for (const std::string& line : text.warnings) std::puts(line.c_str());
///
/// Reads Hugging Face's config.json in every spelling in use, old and new, composite configs, model
/// folders, and GGUF metadata. No silent guesses: values that the file omits and the family's
/// documented default supplies are listed in `assumed`; contradictory or ignored values are in
/// `warnings`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/error.h"
#include "rotary/frequencies.h"
#include "rotary/pairing.h"
#include "rotary/rope.h"

namespace rotary {

/// Context length in training, and the extended one the model supports. 0: unknown.
struct ContextLength {
  std::int64_t trained = 0;
  std::int64_t extended = 0;
};

/// One rotation of a model. A model has one for each layer type (`full_attention`, ...) and part
/// (`text.default`, `vision.default`) with a rotation of its own.
struct ModelRope {
  std::string name = "default";
  Recipe recipe;
  HeadLayout layout;
  /// Names of the position axes, in the order in which positions are given: "t", "h", "w".
  std::vector<std::string> axes{"t"};
  ContextLength context;
  /// Layers that use it, where the config lists them. Empty otherwise: usually all attention layers
  /// of the part.
  std::vector<std::int64_t> layers{};
  /// Values that the file omits, with the family default used instead.
  std::vector<std::string> assumed{};
  std::vector<std::string> warnings{};
  /// Keys of the rope dictionary that this rope type does not read, unknown ones included. Each
  /// has a line in `warnings`.
  std::vector<std::string> ignored_keys{};

  /// `context_in_use`: see make_frequencies().
  Frequencies make_frequencies(std::int64_t context_in_use = 0) const;
  Rope make_rope(std::int64_t context_in_use = 0, const RopeOptions& options = {}) const;
};

struct Model {
  /// As in the file; empty if absent.
  std::string model_type{};
  std::vector<ModelRope> ropes{};

  /// A config.json, the output of `rotary inspect --json`, a .gguf file, or a folder with one of
  /// them: config.json first; of several .gguf files, image projectors and later shards are
  /// skipped, and two models are an error. Throws IoError for unreadable or malformed files, and
  /// std::invalid_argument for their content: an unknown rope type, a missing theta, factors of the
  /// wrong length, a model without rotary embeddings.
  static Model read(const std::filesystem::path& path);

  /// The text of a config.json, or of `rotary inspect --json`; `source` names it in errors.
  static Model from_config(std::string_view json, const std::string& source = "config.json");

  /// The bytes of a GGUF file, or of its beginning up to the end of the metadata and of the
  /// rope tensors.
  static Model from_gguf(std::string_view bytes, const std::string& source = "model.gguf");

  /// The rope of that name. An empty name: the only one, else that of the text or of the
  /// full-attention layers. Throws std::invalid_argument that lists the names.
  const ModelRope& rope(std::string_view name = {}) const;
};

/// Model types known by name, sorted.
std::vector<std::string> known_model_types();

}  // namespace rotary
