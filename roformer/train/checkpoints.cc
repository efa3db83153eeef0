// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/checkpoints.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/folder.h"
#include "roformer/data/batch_stream.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";

std::string folder_of_step(std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

bool is_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return name.starts_with(kStep) && name.size() > kStep.size() &&
         std::all_of(name.begin() + kStep.size(), name.end(), digit);
}

std::int64_t step_of_checkpoint(const fs::path& checkpoint) {
  return std::stoll(checkpoint.filename().string().substr(kStep.size()));
}

std::string to_text(const TrainState& state) {
  nlohmann::ordered_json json;
  json["format"] = 1;
  json["step"] = state.step;
  json["tokens"] = state.tokens;
  json["seconds"] = state.seconds;
  if (state.data) json["data"] = nlohmann::ordered_json::parse(to_json(*state.data));
  return json.dump(2) + "\n";
}

TrainState read_state(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(path.string(), IoError::kNoOffset, "cannot be read");
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != 1) {
      throw IoError(path.string(), IoError::kNoOffset, "written by another version");
    }
    TrainState state{
        .step = json.at("step"), .tokens = json.at("tokens"), .seconds = json.at("seconds")};
    if (json.contains("data")) state.data = stream_state_from_json(json.at("data").dump());
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  } catch (const std::invalid_argument& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
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

void write_files(const fs::path& folder, const ModelImpl& model, const ParameterStore& parameters,
                 const Moments& moments, const TrainState& state) {
  save_model(folder, model);
  write_tensors(folder / "optimizer.safetensors", moments_by_name(parameters, moments));
  write_text(folder / "trainer.json", to_text(state));
}

void remove_old(const fs::path& run, std::int64_t keep) {
  const std::vector<fs::path> all = list_checkpoints(run);
  const auto number = static_cast<std::int64_t>(all.size());
  for (std::int64_t i = 0; i < number - keep; ++i) {
    // Renamed first: a partly removed checkpoint must not look complete.
    const fs::path& old = all[static_cast<std::size_t>(i)];
    const fs::path away = old.parent_path() / (std::string(kUnfinished) + old.filename().string());
    std::error_code failed;
    fs::rename(old, away, failed);
    if (!failed) remove_folder(away);
  }
}

void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kUnfinished)) found.push_back(entry.path());
  }
  for (const fs::path& path : found) remove_folder(path);
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", failed)) {
    if (is_checkpoint(entry.path())) found.push_back(entry.path());
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
  const fs::path beside = folder / (std::string(kUnfinished) + folder_of_step(state.step));
  try {
    fs::create_directories(folder);
    remove_unfinished(folder);
    fs::create_directory(beside);
    write_files(beside, model, parameters, moments, state);
    if (add_files) add_files(beside);
    sync_folder(beside);
    remove_folder(target);
    fs::rename(beside, target);
    sync_folder(folder);
  } catch (const fs::filesystem_error& error) {
    remove_folder(beside);
    throw IoError(target.string(), IoError::kNoOffset, "cannot write: " + error.code().message());
  } catch (...) {
    remove_folder(beside);
    throw;
  }
  remove_old(run, keep);
  return target;
}

TrainState read_checkpoint(const fs::path& checkpoint, ModelImpl& model,
                           const ParameterStore& parameters, const Moments& moments) {
  const at::NoGradGuard no_grad;
  const TrainState state = read_state(checkpoint / "trainer.json");
  const CheckpointFiles files = find_checkpoint(checkpoint);
  const LoadReport report =
      load_weights(model, read_weights(files.weights), files.weights.string());
  if (!report.missing.empty()) {
    throw IoError(files.weights.string(), IoError::kNoOffset,
                  "belongs to another model: it has no " + report.missing.front());
  }
  const fs::path path = checkpoint / "optimizer.safetensors";
  const TensorMap saved = read_tensors(path);
  for (const auto& [name, tensor] : moments_by_name(parameters, moments)) {
    const auto at = saved.find(name);
    if (at == saved.end() || at->second.sizes() != tensor.sizes()) {
      throw IoError(path.string(), IoError::kNoOffset,
                    (at == saved.end() ? "belongs to another model: it has no "
                                       : "belongs to another model: another shape of ") +
                        name);
    }
    tensor.copy_(at->second);
  }
  return state;
}

}  // namespace rotary::roformer
