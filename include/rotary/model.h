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
/// folders, and GGUF metadata. Nothing is guessed in silence: what the file does not say and the
/// family's documented default supplies is listed in `assumed`, what contradicts itself or is
/// ignored in `warnings`.
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

/// How many positions the model has seen, and how many it is meant to work with. 0: not known.
struct ContextLength {
  std::int64_t trained = 0;
  std::int64_t extended = 0;
};

/// One rotation of a model. A model has one for each layer type (`full_attention`, ...) and part
/// (`text.default`, `vision.default`) that turns in its own way.
struct ModelRope {
  std::string name = "default";
  Recipe recipe;
  HeadLayout layout;
  /// One name a position axis, in the order in which positions are given: "t", "h", "w".
  std::vector<std::string> axes{"t"};
  ContextLength context;
  /// Layers that use it, where the config tells them apart. Empty where it does not: usually all
  /// attention layers of the part.
  std::vector<std::int64_t> layers{};
  /// Values the file does not give, with the family default that was used.
  std::vector<std::string> assumed{};
  std::vector<std::string> warnings{};

  /// `context_in_use`: see make_frequencies().
  Frequencies make_frequencies(std::int64_t context_in_use = 0) const;
  Rope make_rope(std::int64_t context_in_use = 0, const RopeOptions& options = {}) const;
};

struct Model {
  /// As the file says; empty if it does not.
  std::string model_type{};
  std::vector<ModelRope> ropes{};

  /// A config.json, a .gguf file, or a folder that holds one of them: config.json first; of several
  /// .gguf files, image projectors and later parts do not count, and two models are an error.
  /// Throws IoError for files that cannot be read or break their format, and std::invalid_argument
  /// for what they say: an unknown rope type, a theta that is nowhere to be found, factors of the
  /// wrong length, a model without rotation.
  static Model read(const std::filesystem::path& path);

  /// The text of a config.json; `source` names it in errors.
  static Model from_config(std::string_view json, const std::string& source = "config.json");

  /// The bytes of a GGUF file, or of its beginning up to the end of the metadata and of the
  /// rope tensors.
  static Model from_gguf(std::string_view bytes, const std::string& source = "model.gguf");

  /// The rope of that name; an empty name means the only one, or else the text's or the one of the
  /// full-attention layers. Throws std::invalid_argument with the names there are.
  const ModelRope& rope(std::string_view name = {}) const;
};

/// Model types that the library knows by name, sorted.
std::vector<std::string> known_model_types();

}  // namespace rotary
