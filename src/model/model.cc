// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/model.h"

#include <algorithm>
#include <filesystem>

#include "io/file_reader.h"
#include "json/json.h"
#include "model/config.h"
#include "model/family.h"
#include "model/gguf.h"
#include "rotary/error.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary {
namespace {

/// The only language model among the .gguf files of a folder. Skips image projectors (mmproj) and
/// all but the first part of a split file.
std::filesystem::path only_gguf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool part = name.find("-of-") != std::string::npos;
    if (entry.path().extension() != ".gguf" || name.starts_with("mmproj")) continue;
    if (!part || name.find("-00001-of-") != std::string::npos) found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw IoError(folder.string(), IoError::kNoOffset,
                  "the folder has no config.json and no .gguf of a model");
  }
  std::sort(found.begin(), found.end());
  std::string names;
  for (const auto& path : found) names += (names.empty() ? "" : ", ") + path.filename().string();
  throw IoError(folder.string(), IoError::kNoOffset,
                "the folder has several models, name one: " + names);
}

}  // namespace

Frequencies ModelRope::make_frequencies(std::int64_t context_in_use) const {
  return rotary::make_frequencies(recipe, context_in_use);
}

Rope ModelRope::make_rope(std::int64_t context_in_use, const RopeOptions& options) const {
  return Rope(make_frequencies(context_in_use), layout, options);
}

Model Model::from_config(std::string_view json, const std::string& source) {
  return internal::read_config(internal::parse_json(json, source), source);
}

Model Model::read(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / "config.json", error)) return read(path / "config.json");
    return read(only_gguf(path));
  }
  const internal::FileReader file(path);
  const std::string source = path.string();
  constexpr std::string_view kGguf = "GGUF";
  if (file.size() >= kGguf.size() && file.read(0, kGguf.size()) == kGguf) {
    return internal::read_gguf(file, source);
  }
  constexpr std::size_t kMaxConfigMebibytes = 16;
  if (file.size() > kMaxConfigMebibytes << 20) {
    throw IoError(source, IoError::kNoOffset,
                  internal::concat("longer than the ", kMaxConfigMebibytes,
                                   " MiB of a config.json, and not GGUF"));
  }
  return from_config(file.read(0, static_cast<std::size_t>(file.size())), source);
}

const ModelRope& Model::rope(std::string_view name) const {
  const auto find = [this](auto wanted) {
    return std::find_if(ropes.begin(), ropes.end(), wanted);
  };
  auto found = ropes.end();
  if (!name.empty()) {
    found = find([name](const ModelRope& rope) { return rope.name == name; });
  } else if (ropes.size() == 1) {
    found = ropes.begin();
  } else {
    for (const std::string_view usual :
         {"default", "full_attention", "main", "text.default", "text.full_attention"}) {
      found = find([usual](const ModelRope& rope) { return rope.name == usual; });
      if (found != ropes.end()) break;
    }
  }
  if (found != ropes.end()) return *found;
  std::string names;
  for (const ModelRope& rope : ropes) names += (names.empty() ? "" : ", ") + rope.name;
  internal::reject("[Model::rope] no rope named ", internal::quote(name), "; there are: ", names);
}

std::vector<std::string> known_model_types() { return internal::family_names(); }

}  // namespace rotary
