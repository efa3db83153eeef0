// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/weights/shards.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/json_file.h"
#include "json/json.h"
#include "rotary/error.h"
#include "support/quote.h"

namespace rotary::cli {
namespace {

namespace fs = std::filesystem;
using internal::Json;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWhole = "model.safetensors";

/// Endings of files with weights in other formats, which would stay in the old pairing.
constexpr std::array<std::string_view, 9> kOtherWeights{".bin", ".ckpt", ".gguf", ".h5", ".msgpack",
                                                        ".npz", ".onnx", ".pt",   ".pth"};

[[noreturn]] void fail(const fs::path& path, const std::string& message) {
  throw IoError(path.string(), IoError::kNoOffset, message);
}

/// The files that the index assigns tensors to.
std::set<std::string> files_of_index(const fs::path& folder, const std::set<std::string>& names) {
  const fs::path path = folder / kIndex;
  const Json index = internal::read_json_file(path);
  const Json* const map = index.find("weight_map");
  if (map == nullptr || !map->is_object()) fail(path, "must have an object weight_map");
  std::set<std::string> files;
  for (const Json::Member& member : map->members()) {
    if (!member.value.is_string() || !names.contains(member.value.as_string())) {
      fail(path, "weight_map names a file that is not a .safetensors file of the folder: " +
                     member.value.excerpt());
    }
    files.insert(member.value.as_string());
  }
  return files;
}

}  // namespace

ModelFiles list_model_files(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail(folder, "must be the folder of a model");
  if (!fs::exists(folder / "config.json", error)) fail(folder, "has no config.json");
  std::set<std::string> tensor_files;
  ModelFiles files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() ||
        std::ranges::find(kOtherWeights, extension) != kOtherWeights.end()) {
      files.left_out.push_back(std::move(name));
    } else if (extension == ".safetensors") {
      tensor_files.insert(std::move(name));
    } else {
      files.others.push_back(std::move(name));
    }
  }
  if (tensor_files.empty()) fail(folder, "has no .safetensors file");
  std::set<std::string> shards = tensor_files;
  if (fs::exists(folder / kIndex, error)) {
    shards = files_of_index(folder, tensor_files);
  } else if (tensor_files.contains(kWhole)) {
    shards = {kWhole};
  }
  files.shards.assign(shards.begin(), shards.end());
  std::ranges::set_difference(tensor_files, shards, std::back_inserter(files.left_out));
  std::ranges::sort(files.others);
  std::ranges::sort(files.left_out);
  return files;
}

}  // namespace rotary::cli
