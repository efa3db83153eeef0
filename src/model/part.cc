// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/part.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/config_warnings.h"
#include "model/layers.h"
#include "model/recipe_json.h"
#include "model/scaling.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// The sources of one rope.
struct RopeSource {
  std::string name = "default";
  const Json* dict = nullptr;      // the rope dictionary, or null
  bool dict_assumed = false;       // `dict` is the family's default
  const Json* fallback = nullptr;  // the family's default for single keys, or null
  std::string theta_key;           // key of theta outside dictionaries; empty: rope_theta
};

/// Null if absent, null or empty. Throws if the value is not an object.
const Json* non_empty_object(const Json& config, const char* key, const std::string& source) {
  const Json* found = config.find(key);
  if (found == nullptr || found->is_null()) return nullptr;
  if (!found->is_object()) {
    reject("[Model] ", source, ": ", key, " must be an object, got ", quote(found->dump()));
  }
  return found->empty() ? nullptr : found;
}

/// rope_scaling has precedence over rope_parameters, as in transformers.
const Json* rope_dictionary(const Lookup& lookup) {
  const Json* old = non_empty_object(lookup.config(), "rope_scaling", lookup.source());
  return old != nullptr ? old
                        : non_empty_object(lookup.config(), "rope_parameters", lookup.source());
}

/// True for one dictionary per layer type: every value is an object, or null for layers without
/// rope.
bool is_nested(const Json& dict) {
  const Json::Object& layers = dict.members();
  return std::all_of(layers.begin(), layers.end(),
                     [](const auto& m) { return m.value.is_object() || m.value.is_null(); }) &&
         std::any_of(layers.begin(), layers.end(),
                     [](const auto& m) { return m.value.is_object(); });
}

const Json* member_object(const Json* dict, const std::string& name) {
  if (dict == nullptr) return nullptr;
  const Json* found = dict->find(name);
  return found == nullptr || !found->is_object() ? nullptr : found;
}

void check_rope_count(std::size_t count, const std::string& source) {
  if (count > kMaxRopes) {
    reject("[Model] ", source, ": more than ", kMaxRopes, " ropes: ", count);
  }
}

std::vector<RopeSource> rope_sources(const Lookup& lookup) {
  const Family& family = lookup.family();
  const Json* given = rope_dictionary(lookup);
  const Json* defaults = non_empty_object(family.defaults, "rope_parameters", lookup.source());
  std::vector<RopeSource> sources;
  if (given != nullptr && is_nested(*given)) {
    check_rope_count(given->size(), lookup.source());
    for (const auto& [name, dict] : given->members()) {
      if (dict.is_null()) continue;
      const auto layer = family.layers.find(name);
      sources.push_back({.name = name,
                         .dict = &dict,
                         .fallback = member_object(defaults, name),
                         .theta_key = layer == family.layers.end() ? "" : layer->second.theta_key});
    }
    return sources;
  }
  if (family.layers.empty()) {
    const bool assumed = given == nullptr;
    sources.push_back(
        {.dict = assumed ? defaults : given, .dict_assumed = assumed, .theta_key = ""});
    return sources;
  }
  for (const auto& [name, layer] : family.layers) {
    const Json* own = member_object(defaults, name);
    const bool assumed = given == nullptr || !layer.scaled;
    sources.push_back({.name = name,
                       .dict = assumed ? own : given,
                       .dict_assumed = assumed,
                       .fallback = own,
                       .theta_key = layer.theta_key});
  }
  return sources;
}

/// Names of the position axes of a map that a config gives: h and w for two, t, h and w for three.
std::vector<std::string> axis_names_of(std::int64_t axes) {
  if (axes == 1) return {"t"};
  if (axes == 2) return {"h", "w"};
  if (axes == 3) return {"t", "h", "w"};
  std::vector<std::string> names;
  for (std::int64_t axis = 0; axis < std::min(axes, kMaxAxes); ++axis) {
    names.push_back(concat("x", axis));
  }
  return names;
}

/// Reads one rope, step by step.
class RopeReader {
 public:
  RopeReader(const Lookup& lookup, const RopeSource& source)
      : lookup_(lookup), source_(source), dict_(source.dict, source.dict_assumed, lookup) {
    rope_.name = source.name;
  }

  ModelRope read() {
    read_theta();
    read_widths();
    rope_.recipe.scaling = make_scaling(dict_, scaling_context(), rope_);
    read_pairing();
    read_axes();
    rope_.recipe.gain = lookup_.family().gain;
    if (dict_.type() == "resonance" || dict_.flag("resonance")) {
      rope_.recipe.wavelengths = Wavelengths::kWhole;
    }
    read_recipe_keys();
    rope_.layers = rotating_layers(lookup_, source_.name);
    dict_.report_ignored_keys(rope_);
    if (const std::string line = dict_.assumed_line(); !line.empty()) note(rope_.assumed, line);
    return std::move(rope_);
  }

 private:
  std::optional<double> from_fallback(const char* key) const {
    const Json* value = source_.fallback == nullptr ? nullptr : source_.fallback->find(key);
    if (value == nullptr) return std::nullopt;
    return as_number(*value, key, lookup_.source());
  }

  void assume(const char* key, double value) {
    note(rope_.assumed, concat(key, " = ", value, " (the default of model_type ",
                               quote(lookup_.model_type()), ")"));
  }

  void read_theta() {
    const std::string key = source_.theta_key.empty() ? "rope_theta" : source_.theta_key;
    std::optional<double> theta;
    if (dict_.given()) theta = dict_.number("rope_theta");
    if (!theta) {
      if (const Found found = lookup_.in_file(key)) {
        theta = as_number(of_layer_type(lookup_, found, source_.name), found.key, lookup_.source());
      }
    }
    if (!theta && (theta = from_fallback("rope_theta"))) assume("rope_theta", *theta);
    if (!theta && (theta = dict_.number("rope_theta"))) assume("rope_theta", *theta);
    if (!theta) theta = lookup_.number("rope_theta", rope_.assumed);
    if (!theta) {
      reject("[Model] ", lookup_.source(), ": rope_theta is missing, and model_type ",
             quote(lookup_.model_type()), " has no documented default");
    }
    if (const auto ratio = lookup_.in_file("rope_ratio")) {  // ChatGLM
      *theta *= as_number(*ratio.value, "rope_ratio", lookup_.source());
    }
    rope_.recipe.theta = *theta;
  }

  /// partial_rotary_factor: from the dictionary, the config, the defaults; 1 if the type ignores
  /// it.
  double read_partial() {
    std::optional<double> partial;
    if (dict_.given()) partial = dict_.number("partial_rotary_factor");
    bool given = partial.has_value();
    if (!partial) {
      if (const Found found = lookup_.in_file("partial_rotary_factor")) {
        partial = as_number(*found.value, found.key, lookup_.source());
        given = true;
      }
    }
    if (lookup_.family().partial == Partial::kNever) return 1.0;
    if (const Found list = lookup_.in_file("partial_rotary_factors")) {  // one per layer
      partial = as_number(of_layer_type(lookup_, list, source_.name), list.key, lookup_.source());
      given = true;
    }
    const bool plain = dict_.type() == "default" || dict_.type() == "axial";
    if (plain && lookup_.family().partial != Partial::kAlways) {
      if (given && *partial != 1.0) {
        rope_.warnings.push_back(concat("partial_rotary_factor ", *partial,
                                        " is ignored: model_type ", quote(lookup_.model_type()),
                                        " rotates the whole head with rope_type ",
                                        quote(dict_.type())));
      }
      return 1.0;
    }
    if (!partial && (partial = from_fallback("partial_rotary_factor"))) {
      assume("partial_rotary_factor", *partial);
    }
    if (!partial) partial = lookup_.number("partial_rotary_factor", rope_.assumed);
    if (partial && !(*partial >= 0.0 && *partial <= 1.0)) {
      reject("[Model] ", lookup_.source(), ": partial_rotary_factor must be in [0, 1], got ",
             *partial);
    }
    return partial.value_or(1.0);
  }

  void read_widths() {
    const std::int64_t head_dim = layer_head_dim(lookup_, source_.name, rope_.assumed);
    partial_ = read_partial();
    std::int64_t dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_);
    if (dict_.type() == "proportional") dim = head_dim;
    if (lookup_.family().rotary_dim_honoured) {
      dim = lookup_.integer("rotary_dim", rope_.assumed).value_or(dim);
    } else if (const Found given = lookup_.in_file("rotary_dim")) {
      const std::int64_t rotary_dim = as_integer(*given.value, "rotary_dim", lookup_.source());
      if (rotary_dim != dim) {
        rope_.warnings.push_back(concat("rotary_dim ", rotary_dim, " is ignored: model_type ",
                                        quote(lookup_.model_type()), " rotates ", dim, " dims"));
      }
    }
    if (const Json* own = dict_.find("rotary_dim")) {
      dim = as_integer(*own, "rotary_dim", lookup_.source());
    }
    if (lookup_.family().equal_shares) {
      const auto axes = static_cast<std::int64_t>(lookup_.family().axes.size());
      dim = axes * 2 * (dim / axes / 2);
    }
    if (dim < 1 || dim > head_dim) {
      reject("[Model] ", lookup_.source(), ": rotary_dim must be 1 to head_dim ", head_dim,
             ", got ", dim);
    }
    rope_.layout.head_dim = head_dim;
    rope_.recipe.rotary_dim = dim;
    if (dim % 2 != 0) make_even();
    rope_.layout.rotary_offset =
        lookup_.family().trailing ? rope_.layout.head_dim - rope_.recipe.rotary_dim : 0;
  }

  /// transformers accepts an odd rotary width d: it rotates d+1 dims with the frequencies of d.
  /// This happens with partial_rotary_factor, or if num_attention_heads does not divide
  /// hidden_size.
  void make_even() {
    const std::int64_t dim = rope_.recipe.rotary_dim;
    std::int64_t& head_dim = rope_.layout.head_dim;
    if (lookup_.in_file("head_dim") && dim == head_dim) {
      reject("[Model] ", lookup_.source(), ": rotary_dim must be even, got ", dim);
    }
    rope_.warnings.push_back(concat("the rotary width is an odd ", dim, " (head_dim ", head_dim,
                                    ", partial_rotary_factor ", partial_, "); ", dim + 1,
                                    " dims rotate, with the frequencies of ", dim));
    rope_.recipe.rotary_dim = dim + 1;
    rope_.recipe.ladder_dim = dim;
    head_dim = std::max(head_dim, dim + 1);
  }

  ScalingContext scaling_context() {
    ScalingContext result;
    result.partial = partial_;
    result.max_position_embeddings = lookup_.integer("max_position_embeddings", rope_.assumed);
    if (const Found found = lookup_.in_file("original_max_position_embeddings")) {
      result.top_level_original = as_integer(*found.value, found.key, lookup_.source());
    }
    const Family& family = lookup_.family();
    if (const Json* original = family.defaults.find("original_max_position_embeddings")) {
      result.default_original = original->as_int64();
    }
    result.attention_factor = family.attention_factor;
    result.alpha_honoured = family.alpha_honoured;
    result.dynamic_original_honoured = family.dynamic_original_honoured;
    if (family.softmax_correction) {
      result.softmax_correction = SoftmaxCorrection::kMscaleAllDimSquared;
    }
    return result;
  }

  void read_pairing() {
    const Family& family = lookup_.family();
    rope_.layout.pairing = family.pairing;
    rope_.layout.output_pairing = family.output_pairing;
    rope_.recipe.direction = family.direction;
    if (family.interleave_key.empty()) return;
    const Found flag = lookup_.in_file(family.interleave_key);
    if (flag && flag.value->is_boolean() && !flag.value->as_bool()) {
      rope_.layout.pairing = rope_.layout.output_pairing = Pairing::kHalf;
    }
  }

  /// mrope_section from the dictionary or the config; null if absent.
  const Json* sections_in_file() const {
    for (const char* key : {"mrope_section", "xdrope_section"}) {
      if (const Json* inside = dict_.find(key)) return inside;
      if (const Found found = lookup_.in_file(key)) return found.value;
    }
    return nullptr;
  }

  void read_axes() {
    rope_.axes = lookup_.family().axes;
    rope_.recipe.axes = lookup_.family().axis_map;
    const Json* sections = sections_in_file();
    auto* mrope = std::get_if<Mrope>(&rope_.recipe.axes);
    if (mrope == nullptr && sections != nullptr && lookup_.family().mrope_honoured &&
        std::holds_alternative<OneAxis>(rope_.recipe.axes)) {
      const Json* interleaved = dict_.find("mrope_interleaved");
      const bool is_interleaved =
          interleaved != nullptr && interleaved->is_boolean() && interleaved->as_bool();
      rope_.recipe.axes =
          Mrope{.order = is_interleaved ? MropeOrder::kInterleaved : MropeOrder::kChunked};
      mrope = &std::get<Mrope>(rope_.recipe.axes);
      note(rope_.assumed, concat("axes t, h, w with ", is_interleaved ? "interleaved" : "chunked",
                                 " sections (there is an mrope_section, and model_type ",
                                 quote(lookup_.model_type()), " is not known to have axes)"));
    }
    if (mrope == nullptr) return;
    if (sections != nullptr) {
      mrope->sections = as_integers(*sections, "mrope_section", lookup_.source());
    }
    if (mrope->sections.size() == 4) {
      rope_.axes = {"t", "w", "h", "x"};
    } else if (mrope->sections.size() == 3) {
      rope_.axes = {"t", "h", "w"};
    } else {
      reject("[Model] ", lookup_.source(), ": mrope_section must have 3 or 4 entries, got ",
             mrope->sections.size());
    }
    if (mrope->order == MropeOrder::kSpatialFirst ||
        mrope->order == MropeOrder::kSpatialBlocks) {  // these configs list h, w, t
      std::rotate(mrope->sections.begin(), mrope->sections.end() - 1, mrope->sections.end());
    }
  }

  /// Keys of rotary's own, under the names of recipe_json.h: they replace what the family says.
  void read_recipe_keys() {
    Recipe& recipe = rope_.recipe;
    if (const Json* map = dict_.find("axis_map")) {
      recipe.axes = axis_map_of_json(*map, lookup_.source());
      rope_.axes = axis_names_of(axes_of(recipe.axes));
    }
    if (const Json* word = dict_.find("direction")) {
      recipe.direction = word_of_json<RotationDirection>(*word, "direction", lookup_.source());
    }
    if (const Json* word = dict_.find("wavelengths")) {
      recipe.wavelengths = word_of_json<Wavelengths>(*word, "wavelengths", lookup_.source());
    }
    recipe.gain = dict_.number("gain").value_or(recipe.gain);
    if (const Json* dim = dict_.find("ladder_dim")) {
      recipe.ladder_dim = as_integer(*dim, "ladder_dim", lookup_.source());
    }
  }

  const Lookup& lookup_;
  const RopeSource& source_;
  RopeDict dict_;
  ModelRope rope_;
  double partial_ = 1.0;
};

/// One rope for each axis, on its own slice of the head (Gemma 4's vision tower): "w" and "h".
void split_by_axis(const ModelRope& rope, std::vector<ModelRope>& ropes) {
  const std::vector<std::string> axes = rope.axes;
  const std::int64_t dim =
      2 * (rope.recipe.rotary_dim / static_cast<std::int64_t>(axes.size()) / 2);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    ModelRope slice = rope;
    slice.name = slice.name == "default" ? axes[axis] : concat(slice.name, ".", axes[axis]);
    slice.axes = {axes[axis]};
    slice.recipe.axes = OneAxis{};
    slice.recipe.rotary_dim = dim;
    slice.layout.rotary_offset = rope.layout.rotary_offset + dim * static_cast<std::int64_t>(axis);
    ropes.push_back(std::move(slice));
  }
}

}  // namespace

std::vector<ModelRope> read_part(const Lookup& lookup) {
  std::vector<ModelRope> ropes;
  for (const RopeSource& source : rope_sources(lookup)) {
    ModelRope rope = RopeReader(lookup, source).read();
    add_config_warnings(lookup, rope.warnings);
    if (lookup.family().axis_slices && rope.axes.size() > 1) {
      split_by_axis(rope, ropes);
    } else {
      split_by_layers(lookup, std::move(rope), ropes);
    }
    check_rope_count(ropes.size(), lookup.source());
  }
  if (lookup.family().has_indexer && ropes.size() == 1) {
    ModelRope indexer = ropes.front();
    indexer.name = "indexer";
    indexer.layout.pairing = indexer.layout.output_pairing = Pairing::kHalf;
    ropes.push_back(std::move(indexer));
  }
  return ropes;
}

}  // namespace rotary::internal
