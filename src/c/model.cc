// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/model.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/dialect.h"
#include "rotary/rotary_c_analysis.h"

namespace {

using rotary::c_api::Call;
using rotary::c_api::from_layout;
using rotary::c_api::guard;
using rotary::c_api::guard_new;
using rotary::c_api::to_recipe;

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

/// The text of the config.json that Model::read() has read and whose size it has checked; empty for
/// a GGUF file.
std::string config_text(std::filesystem::path path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  if (!file.read(magic, sizeof(magic)) || std::string_view(magic, 4) == "GGUF") return {};
  file.seekg(0);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

rotary::Model model_of(const rotary::DialectModel& read) {
  rotary::Model model{.model_type = read.model_type};
  for (const rotary::DialectRope& rope : read.ropes) model.ropes.push_back(rope.rope);
  return model;
}

std::int64_t length(const auto& list) noexcept { return static_cast<std::int64_t>(list.size()); }

}  // namespace

rotary_model::rotary_model(rotary::Model read, std::string config_text, std::string source_name)
    : model(std::move(read)),
      config(std::move(config_text)),
      source(std::move(source_name)),
      views(model.ropes.size()) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const rotary::ModelRope& from = model.ropes[i];
    View& view = views[i];
    view.scaling = rotary::name_of(from.recipe.scaling);
    view.layout = from_layout(from.layout);
    view.axes = pointers(from.axes);
    view.assumed = pointers(from.assumed);
    view.warnings = pointers(from.warnings);

    rotary_model_rope& rope = view.rope;
    rope = rotary_model_rope_init();
    rope.depends_on_context = rotary::depends_on_context(from.recipe) ? 1 : 0;
    rope.name = from.name.c_str();
    rope.scaling = view.scaling.c_str();
    rope.rotary_dim = from.recipe.rotary_dim;
    rope.theta = from.recipe.theta;
    rope.layout = &view.layout;
    rope.axes = view.axes.data();
    rope.num_axes = length(view.axes);
    rope.layers = from.layers.data();
    rope.num_layers = length(from.layers);
    rope.trained_context = from.context.trained;
    rope.extended_context = from.context.extended;
    rope.assumed = view.assumed.data();
    rope.num_assumed = length(view.assumed);
    rope.warnings = view.warnings.data();
    rope.num_warnings = length(view.warnings);
  }
}

rotary_model::rotary_model(const rotary::DialectModel& read) : rotary_model(model_of(read)) {
  dialect = read.ropes;
}

std::size_t rotary_model::find(const char* name) const {
  return static_cast<std::size_t>(&model.rope(name == nullptr ? "" : name) - model.ropes.data());
}

const std::string& rotary_model::require_config(const Call& call) const {
  if (config.empty()) call.reject("model must have been read from a config.json");
  return config;
}

rotary_status rotary_model_read(const char* path, rotary_model** model) {
  return guard_new(__func__, model, "model", [&](const Call& call) {
    rotary::Model read = rotary::Model::read(&call.need(path, "path"));
    return new rotary_model(std::move(read), config_text(path), path);
  });
}

rotary_status rotary_model_parse_config(const char* json, size_t length, const char* source,
                                        rotary_model** model) {
  return guard_new(__func__, model, "model", [&](const Call& call) {
    const std::string_view text(&call.need(json, "json"), length);
    const char* name = source == nullptr ? "config.json" : source;
    return new rotary_model(rotary::Model::from_config(text, name), std::string(text), name);
  });
}

rotary_status rotary_model_parse_gguf(const void* bytes, size_t length, const char* source,
                                      rotary_model** model) {
  return guard_new(__func__, model, "model", [&](const Call& call) {
    const std::string_view all(&call.need(static_cast<const char*>(bytes), "bytes"), length);
    return new rotary_model(source == nullptr ? rotary::Model::from_gguf(all)
                                              : rotary::Model::from_gguf(all, source));
  });
}

void rotary_model_free(rotary_model* model) { delete model; }

rotary_status rotary_model_get_type(const rotary_model* model, const char** type) {
  return guard(__func__, [&](const Call& call) {
    call.need(type, "type") = call.need(model, "model").model.model_type.c_str();
  });
}

rotary_status rotary_model_count_ropes(const rotary_model* model, int64_t* count) {
  return guard(__func__, [&](const Call& call) {
    call.need(count, "count") = length(call.need(model, "model").views);
  });
}

rotary_status rotary_model_get_rope(const rotary_model* model, int64_t index,
                                    rotary_model_rope* rope) {
  return guard(__func__, [&](const Call& call) {
    const auto& views = call.need(model, "model").views;
    if (index < 0 || index >= length(views)) {
      call.reject("index must be 0 to ", length(views) - 1, ", got ", index);
    }
    call.write(views[static_cast<std::size_t>(index)].rope, rope, "rope");
  });
}

rotary_status rotary_model_find_rope(const rotary_model* model, const char* name,
                                     rotary_model_rope* rope) {
  return guard(__func__, [&](const Call& call) {
    const rotary_model& from = call.need(model, "model");
    call.write(from.views[from.find(name)].rope, rope, "rope");
  });
}

rotary_status rotary_model_in_dialect(const rotary_model* model, const char* dialect,
                                      rotary_model** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    const rotary_model& from = call.need(model, "model");
    const char* name = &call.need(dialect, "dialect");
    return new rotary_model(
        rotary::dialect_from_config(from.require_config(call), name, from.source));
  });
}

rotary_status rotary_model_with_recipe(const rotary_model* model, const char* name,
                                       const rotary_recipe* recipe, rotary_model** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    const rotary_model& from = call.need(model, "model");
    rotary::Model changed = from.model;
    changed.ropes[from.find(name)].recipe = to_recipe(call, recipe);
    return new rotary_model(std::move(changed));
  });
}
