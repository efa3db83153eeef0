// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Dialects: what other frameworks make of the same config.json.
///
///   rotary::DialectModel hf = rotary::read_dialect("Qwen2.5-7B/", "hf");
///   rotary::DialectModel ort = rotary::read_dialect("Qwen2.5-7B/", "onnxruntime-genai@2026-08");
///   hf.ropes[0].make_frequencies().scale;    // 1.1386: YaRN
///   ort.ropes[0].make_frequencies().scale;   // 1: it is not scaled there
///   ort.ropes[0].dropped_keys;               // "factor", "original_max_position_embeddings"
///
/// Frameworks read other keys, have other defaults, other ramps and other places for YaRN's factor,
/// without an error. A dialect is a row of data (src/model/dialects.inc) with its version, the file
/// it was taken from and whether that file was read or run; docs/dialects.md has the table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary {

/// How a framework rounds: the angle, the stored cos and sin, and the rotation itself.
struct DialectRounding {
  std::string angle{};
  std::string table{};
  std::string rotation{};
};

struct Dialect {
  std::string name{};     // "vllm"
  std::string version{};  // "0.32"
  std::string source{};   // the file that the rules are from
  /// "run": compared with the package's own tables; "read": from its source alone.
  std::string evidence{};
  DialectRounding rounding{};

  /// "vllm@0.32".
  std::string full_name() const { return name + "@" + version; }
};

/// All dialects, "hf" first; of several versions of a name, the newest first.
std::vector<Dialect> known_dialects();

/// A rope as the framework has it.
struct DialectRope {
  ModelRope rope{};
  /// Keys of the rope dictionary that are in the file and have no effect there.
  std::vector<std::string> dropped_keys{};
  /// What the framework multiplies attention scores by, besides rope's own softmax scale.
  double softmax_factor = 1.0;
  /// Why the framework refuses this config; empty if it does not. The rope is then hf's.
  std::string refused{};
  /// What cannot be said in a recipe.
  std::vector<std::string> notes{};

  /// With softmax_factor in its softmax_scale.
  Frequencies make_frequencies(std::int64_t context_in_use = 0) const;
};

struct DialectModel {
  Dialect dialect{};
  std::string model_type{};
  std::vector<DialectRope> ropes{};
};

/// The ropes of a config.json, or of a folder with one, in a dialect: "vllm@0.32", or "vllm" for
/// its newest version; "vllm@0.32.1" is a release of "vllm@0.32". Ropes are in the order of
/// Model::read(). Throws as Model::read() does, and std::invalid_argument for an unknown dialect
/// and for files that are no config.json.
DialectModel read_dialect(const std::filesystem::path& path, std::string_view dialect);

/// The text of a config.json; `source` names it in errors.
DialectModel dialect_from_config(std::string_view json, std::string_view dialect,
                                 const std::string& source = "config.json");

}  // namespace rotary
