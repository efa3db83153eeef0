// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/checkpoints.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "io/json_file.h"
#include "io/output_target.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/folder.h"
#include "roformer/data/batch_stream.h"
#include "roformer/text/hash.h"
#include "rotary/error.h"
#include "rotary/io.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::Json;

constexpr std::string_view kStep = "step-";

std::string folder_of_step(std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

/// -1 if the name is not one that folder_of_step() makes.
std::int64_t step_of_checkpoint(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  std::int64_t step = -1;
  if (!name.starts_with(kStep)) return -1;
  std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  return step >= 0 && name == folder_of_step(step) ? step : -1;
}

constexpr std::string_view kStateFile = "trainer.json";
constexpr std::int64_t kFormat = 2;

std::string checksum_of(const fs::path& file) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(hash_bytes(MappedFile(file).bytes())));
  return text;
}

/// Of every file of a checkpoint but the state, which holds them.
Json checksums_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != kStateFile) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Json checksums = Json::object();
  for (const fs::path& file : files) checksums[file.filename().string()] = checksum_of(file);
  return checksums;
}

void check_files(const fs::path& folder, const Json& checksums) {
  for (const auto& [name, checksum] : checksums.members()) {
    if (fs::path(name).filename() != name || name == "." || name == "..") {
      internal::reject("files must be names of this folder, got ", internal::quote(name));
    }
    if (checksum != checksum_of(folder / name)) {
      throw IoError((folder / name).string(), IoError::kNoOffset,
                    "is damaged: its checksum is not the one in trainer.json");
    }
  }
}

std::string to_text(const TrainState& state, const fs::path& folder) {
  Json json;
  json["format"] = kFormat;
  json["step"] = state.step;
  json["tokens"] = state.tokens;
  json["seconds"] = state.seconds;
  if (state.data) json["data"] = internal::parse_json(to_json(*state.data), "state");
  json["files"] = checksums_of(folder);
  return json.dump_lines();
}

void check_state(const TrainState& state, const fs::path& checkpoint) {
  if (state.step != step_of_checkpoint(checkpoint)) {
    internal::reject("step must be that of the folder, got ", state.step);
  }
  if (state.tokens < 0) internal::reject("tokens must be at least 0, got ", state.tokens);
  if (!(state.seconds >= 0.0 && std::isfinite(state.seconds))) {
    internal::reject("seconds must be at least 0, got ", state.seconds);
  }
}

TensorMap moments_by_name(const ParameterStore& parameters, const Moments& moments) {
  TensorMap tensors;
  for (const auto& segment : parameters.segments()) {
    tensors.emplace("first." + segment.name, ParameterStore::view(segment, moments.first));
    tensors.emplace("second." + segment.name, ParameterStore::view(segment, moments.second));
  }
  tensors.emplace("steps", moments.steps);
  return tensors;
}

void remove_old(const fs::path& run, std::int64_t keep) {
  const std::vector<fs::path> all = list_checkpoints(run);
  const auto number = static_cast<std::int64_t>(all.size());
  // Renamed first, on the disk too: a partly removed checkpoint must not look complete.
  std::vector<fs::path> renamed;
  for (std::int64_t i = 0; i < number - keep; ++i) {
    const fs::path& old = all[static_cast<std::size_t>(i)];
    fs::path away = unused_name(old.parent_path(), kUnfinishedPrefix);
    std::error_code failed;
    fs::rename(old, away, failed);
    if (!failed) renamed.push_back(std::move(away));
  }
  if (renamed.empty()) return;
  internal::sync_folder(run / "checkpoints");
  for (const fs::path& folder : renamed) remove_folder(folder);
}

void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kUnfinishedPrefix)) found.push_back(entry.path());
  }
  if (found.empty()) return;
  internal::sync_folder(folder);  // an old checkpoint may still have its name on the disk
  for (const fs::path& path : found) remove_folder(path);
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", failed)) {
    if (step_of_checkpoint(entry.path()) >= 0) found.push_back(entry.path());
  }
  std::ranges::sort(found, {}, step_of_checkpoint);
  return found;
}

fs::path last_checkpoint(const fs::path& run) {
  const std::vector<fs::path> all = list_checkpoints(run);
  return all.empty() ? fs::path() : all.back();
}

std::string what_is_left(const fs::path& run, const std::string& error, const std::string& how) {
  const std::vector<fs::path> all = list_checkpoints(run);
  if (all.empty()) return {};
  const std::string last = all.back().string();
  if (error.find(last) == std::string::npos) return "; " + last + " is complete: " + how;
  if (all.size() == 1) return {};
  return "; remove " + last + " to resume from " + all[all.size() - 2].filename().string() + ": " +
         how;
}

fs::path CheckpointWriter::write(const ModelImpl& model, const ParameterStore& parameters,
                                 const Moments& moments, const TrainState& state) const {
  const fs::path folder = run / "checkpoints";
  const fs::path target = folder / folder_of_step(state.step);
  try {
    create_folders(folder);
    remove_unfinished(folder);
    // The metrics of the steps up to this one are on the disk before it is.
    sync_file(run / "metrics.jsonl");
    internal::sync_folder(run);
    TemporaryFolder beside(folder, kUnfinishedPrefix);
    save_model(beside.path(), model);
    write_tensors(beside.path() / "optimizer.safetensors", moments_by_name(parameters, moments));
    if (add_files) add_files(beside.path());
    write_text(beside.path() / kStateFile, to_text(state, beside.path()));
    beside.rename_to(target);
  } catch (const fs::filesystem_error& error) {
    throw IoError(target.string(), IoError::kNoOffset, "cannot write: " + error.code().message());
  }
  remove_old(run, keep);
  return target;
}

TrainState read_train_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kStateFile;
  const Json json = internal::read_json_file(path);
  try {
    if (json.at("format") != kFormat) {
      throw IoError(path.string(), IoError::kNoOffset, "written by another version");
    }
    TrainState state{.step = json.at("step").as_int64(),
                     .tokens = json.at("tokens").as_int64(),
                     .seconds = json.at("seconds").as_double()};
    if (const Json* data = json.find("data")) state.data = stream_state_from_json(data->dump());
    check_state(state, checkpoint);
    check_files(checkpoint, json.at("files"));
    return state;
  } catch (const std::invalid_argument& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  }
}

TrainState read_checkpoint(const fs::path& checkpoint, ModelImpl& model,
                           const ParameterStore& parameters, const Moments& moments) {
  const at::NoGradGuard no_grad;
  const TrainState state = read_train_state(checkpoint);
  const CheckpointFiles files = find_checkpoint(checkpoint);
  const LoadReport report =
      load_weights(model, read_weights(files.weights), files.weights.string());
  if (!report.missing.empty()) {
    internal::reject(files.weights.string(), " belongs to another model: it has no ",
                     report.missing.front());
  }
  const fs::path path = checkpoint / "optimizer.safetensors";
  const TensorMap saved = read_tensors(path);
  for (const auto& [name, tensor] : moments_by_name(parameters, moments)) {
    const auto at = saved.find(name);
    if (at == saved.end() || at->second.sizes() != tensor.sizes()) {
      internal::reject(path.string(), " belongs to another model: ",
                       at == saved.end() ? "it has no " : "another shape of ", name);
    }
    tensor.copy_(at->second);
  }
  return state;
}

}  // namespace rotary::roformer
