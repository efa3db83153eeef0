// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/bridge/open_ropes.h"

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

#include "rotary/recipe_json.h"

namespace rotary::explorer {
namespace {

using internal::Json;

void require_ok(rotary_status status) {
  if (status != ROTARY_OK) throw std::invalid_argument(rotary_last_error());
}

std::string string_of(const Json& request, std::string_view key) {
  const Json* found = request.find(key);
  return found == nullptr || found->is_null() ? std::string() : found->as_string();
}

/// The recipe that a page wrote, completed from the rope's own.
Recipe completed_recipe(Json recipe, const Recipe& own) {
  const Json whole = internal::parse_json(to_json(own), "recipe");
  for (const char* key : {"rotary_dim", "theta", "ladder_dim", "direction", "gain", "axis_map"}) {
    const Json* value = whole.find(key);
    if (value != nullptr && !recipe.contains(key)) recipe[key] = *value;
  }
  return recipe_from_json(recipe.dump());
}

std::shared_ptr<rotary_rope> make_handle(const Frequencies& f, const HeadLayout& layout) {
  rotary_frequencies frequencies = rotary_frequencies_init(f.values.data(), f.pairs, f.axes);
  frequencies.scale = f.scale;
  frequencies.softmax_scale = f.softmax_scale;
  frequencies.growth = f.growth.empty() ? nullptr : f.growth.data();
  frequencies.growth_origin = f.growth_origin;
  const auto pairing = [](Pairing p) {
    return p == Pairing::kHalf ? ROTARY_PAIRING_HALF : ROTARY_PAIRING_INTERLEAVED;
  };
  rotary_head_layout head =
      rotary_head_layout_init(layout.head_dim, pairing(layout.pairing.value()));
  head.rotary_offset = layout.rotary_offset;
  if (layout.output_pairing) head.output_pairing = pairing(*layout.output_pairing);
  rotary_threads threads = rotary_threads_init(1);
  rotary_rope_options options = rotary_rope_options_init();
  options.threads = &threads;
  rotary_rope* handle = nullptr;
  require_ok(rotary_rope_from_frequencies(&frequencies, &head, &options, &handle));
  return {handle, rotary_rope_free};
}

template <typename T>
const T& at(const std::deque<T>& all, std::int64_t first, std::int64_t number, const char* what) {
  if (number < first || number - first >= static_cast<std::int64_t>(all.size())) {
    throw std::invalid_argument(fmt::format("[explorer] there is no {} {}", what, number));
  }
  return all[static_cast<std::size_t>(number - first)];
}

}  // namespace

std::int64_t OpenRopes::open(std::string_view bytes, const std::string& source) {
  const bool is_gguf = bytes.starts_with("GGUF");
  OpenModel opened{.text = is_gguf ? std::string() : std::string(bytes), .source = source};
  opened.model = is_gguf ? Model::from_gguf(bytes, source) : Model::from_config(bytes, source);
  models_.push_back(std::move(opened));
  if (models_.size() > kMaxModels) {
    models_.pop_front();
    ++first_model_;
  }
  return first_model_ + static_cast<std::int64_t>(models_.size()) - 1;
}

std::int64_t OpenRopes::make(const Json& request) {
  const OpenModel& opened = model(request.at("model").as_int64());
  OpenRope made;
  made.rope = opened.model.rope(string_of(request, "rope"));
  const Json* context = request.find("context");
  if (context != nullptr && !context->is_null()) made.context = context->as_int64();
  if (const std::string dialect = string_of(request, "dialect"); !dialect.empty()) {
    if (opened.text.empty()) {
      throw std::invalid_argument(fmt::format(
          "[explorer] {} is a GGUF file; a dialect needs a config.json", opened.source));
    }
    const DialectModel other = dialect_from_config(opened.text, dialect, opened.source);
    for (const DialectRope& rope : other.ropes) {
      if (rope.rope.name == made.rope.name) made.dialect = rope;
    }
    if (!made.dialect) {
      throw std::invalid_argument(
          fmt::format("[explorer] {} has no rope '{}'", dialect, made.rope.name));
    }
    made.rope = made.dialect->rope;
  }
  const Json* recipe = request.find("recipe");
  if (recipe != nullptr && !recipe->is_null()) {
    made.rope.recipe = completed_recipe(*recipe, made.rope.recipe);
  }
  made.frequencies = made.dialect && recipe == nullptr
                         ? made.dialect->make_frequencies(made.context)
                         : made.rope.make_frequencies(made.context);
  made.handle = make_handle(made.frequencies, made.rope.layout);
  ropes_.push_back(std::move(made));
  if (ropes_.size() > kMaxRopes) {
    ropes_.pop_front();
    ++first_rope_;
  }
  return first_rope_ + static_cast<std::int64_t>(ropes_.size()) - 1;
}

const OpenModel& OpenRopes::model(std::int64_t number) const {
  return at(models_, first_model_, number, "model");
}

const OpenRope& OpenRopes::rope(std::int64_t number) const {
  return at(ropes_, first_rope_, number, "rope");
}

void write_cos_sin(const OpenRope& rope, std::span<const double> positions, double* cosines,
                   double* sines) {
  const std::int64_t axes = rope.frequencies.axes;
  const std::int64_t tokens = static_cast<std::int64_t>(positions.size()) / axes;
  rotary_tensor ids{};
  // The C API has positions as [axes, tokens]; here they are [tokens, axes].
  std::vector<double> copy(positions.begin(), positions.end());
  const std::int64_t ids_shape[] = {axes, tokens};
  ids = rotary_tensor_contiguous(copy.data(), ROTARY_DTYPE_FLOAT64, 2, ids_shape);
  ids.strides[0] = 1;
  ids.strides[1] = axes;
  const std::int64_t shape[] = {tokens, rope.frequencies.pairs};
  const rotary_tensor cos = rotary_tensor_contiguous(cosines, ROTARY_DTYPE_FLOAT64, 2, shape);
  const rotary_tensor sin = rotary_tensor_contiguous(sines, ROTARY_DTYPE_FLOAT64, 2, shape);
  const rotary_positions at_positions = rotary_positions_ids(&ids);
  require_ok(rotary_rope_cos_sin(rope.handle.get(), &cos, &sin, &at_positions));
}

}  // namespace rotary::explorer
