// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/model.h"

#include <string_view>
#include <utility>

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/rotary_c.h"

namespace {

using rotary::c_api::Call;
using rotary::c_api::from_layout;
using rotary::c_api::guard;
using rotary::c_api::guard_new;

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

std::int64_t length(const auto& list) noexcept { return static_cast<std::int64_t>(list.size()); }

}  // namespace

rotary_model::rotary_model(rotary::Model read) : model(std::move(read)), views(model.ropes.size()) {
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

rotary_status rotary_model_read(const char* path, rotary_model** model) {
  return guard_new(__func__, model, "model", [&](const Call& call) {
    return new rotary_model(rotary::Model::read(&call.need(path, "path")));
  });
}

rotary_status rotary_model_parse_config(const char* json, size_t length, const char* source,
                                        rotary_model** model) {
  return guard_new(__func__, model, "model", [&](const Call& call) {
    const std::string_view text(&call.need(json, "json"), length);
    return new rotary_model(source == nullptr ? rotary::Model::from_config(text)
                                              : rotary::Model::from_config(text, source));
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
    const auto& [read, views] = call.need(model, "model");
    const rotary::ModelRope& found = read.rope(name == nullptr ? "" : name);
    call.write(views[static_cast<std::size_t>(&found - read.ropes.data())].rope, rope, "rope");
  });
}
