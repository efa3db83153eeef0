// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/recipe_json.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/lookup.h"
#include "rotary/recipe_json.h"
#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

// ---- Enumerations -------------------------------------------------------------------------------

// In the order of their enumerators.
constexpr std::array<std::string_view, 2> words_of(SoftmaxCorrection) {
  return {"none", "mscale_all_dim_squared"};
}
constexpr std::array<std::string_view, 2> words_of(WalkthroughRamp) { return {"code", "prose"}; }
constexpr std::array<std::string_view, 2> words_of(AxialOrder) { return {"blocks", "alternating"}; }
constexpr std::array<std::string_view, 2> words_of(AxialLadder) { return {"own", "strided"}; }
constexpr std::array<std::string_view, 5> words_of(MropeOrder) {
  return {"chunked", "interleaved", "round_robin", "spatial_first", "spatial_blocks"};
}
constexpr std::array<std::string_view, 2> words_of(RotationDirection) {
  return {"forward", "backward"};
}
constexpr std::array<std::string_view, 2> words_of(Wavelengths) { return {"exact", "whole"}; }

// ---- Members: the one list that writing and reading share ---------------------------------------

template <typename V>
void members(V&&, auto& s)
  requires(std::is_empty_v<std::decay_t<decltype(s)>>)
{}

template <typename S, typename T>
concept Is = std::is_same_v<std::remove_const_t<S>, T>;

template <typename V, Is<Linear> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
}
template <typename V, Is<Ntk> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("mixed_b", s.mixed_b);
}
template <typename V, Is<NtkAlpha> S>
void members(V&& v, S& s) {
  v("alpha", s.alpha);
}
template <typename V, Is<DynamicNtk> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("original_context", s.original_context);
  v("alpha", s.alpha);
}
template <typename V, Is<Yarn> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("original_context", s.original_context);
  v("beta_fast", s.beta_fast);
  v("beta_slow", s.beta_slow);
  v("truncate", s.truncate);
  v("attention_factor", s.attention_factor);
  v("mscale", s.mscale);
  v("mscale_all_dim", s.mscale_all_dim);
  v("softmax_correction", s.softmax_correction);
}
template <typename V, Is<YarnPaper> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("original_context", s.original_context);
  v("alpha", s.alpha);
  v("beta", s.beta);
}
template <typename V, Is<YarnWalkthrough> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("original_context", s.original_context);
  v("beta_fast", s.beta_fast);
  v("beta_slow", s.beta_slow);
  v("ramp", s.ramp);
}
template <typename V, Is<LongRope> S>
void members(V&& v, S& s) {
  v("short_factor", s.short_factor);
  v("long_factor", s.long_factor);
  v("original_context", s.original_context);
  v("factor", s.factor);
  v("attention_factor", s.attention_factor);
  v("short_mscale", s.short_mscale);
  v("long_mscale", s.long_mscale);
}
template <typename V, Is<Llama3> S>
void members(V&& v, S& s) {
  v("factor", s.factor);
  v("original_context", s.original_context);
  v("low_freq_factor", s.low_freq_factor);
  v("high_freq_factor", s.high_freq_factor);
}
template <typename V, Is<Proportional> S>
void members(V&& v, S& s) {
  v("fraction", s.fraction);
  v("factor", s.factor);
}
template <typename V, Is<Divisors> S>
void members(V&& v, S& s) {
  v("divisor", s.divisor);
}
template <typename V, Is<Learnable> S>
void members(V&& v, S& s) {
  v("log_gain", s.log_gain);
}
template <typename V, Is<ReceptiveField> S>
void members(V&& v, S& s) {
  v("alpha", s.alpha);
  v("rho", s.rho);
}
template <typename V, Is<Xpos> S>
void members(V&& v, S& s) {
  v("scale_base", s.scale_base);
  v("gamma", s.gamma);
  v("origin", s.origin);
}
template <typename V, Is<Axial> S>
void members(V&& v, S& s) {
  v("axes", s.axes);
  v("dims", s.dims);
  v("order", s.order);
  v("ladder", s.ladder);
  v("axis_order", s.axis_order);
}
template <typename V, Is<Mrope> S>
void members(V&& v, S& s) {
  v("sections", s.sections);
  v("order", s.order);
}
template <typename V, Is<Mixed> S>
void members(V&& v, S& s) {
  v("axes", s.axes);
  v("frequencies", s.frequencies);
}

/// Those of the recipe besides its scaling, axes and width.
template <typename V, Is<Recipe> S>
void members(V&& v, S& s) {
  v("theta", s.theta);
  v("ladder_dim", s.ladder_dim);
  v("direction", s.direction);
  v("gain", s.gain);
  v("wavelengths", s.wavelengths);
}

constexpr std::array<std::string_view, 4> kMaps{"one_axis", "axial", "mrope", "mixed"};
static_assert(kMaps.size() == std::variant_size_v<AxisMap>);

// ---- Writing ------------------------------------------------------------------------------------

struct Writer {
  Json& json;

  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json[key] = Json(words_of(value)[static_cast<std::size_t>(value)]);
    } else if constexpr (std::is_same_v<T, std::optional<double>>) {
      json[key] = value ? Json(*value) : Json(nullptr);
    } else {
      json[key] = Json(value);
    }
  }
};

// ---- Reading ------------------------------------------------------------------------------------

/// Takes members out of an object; what is left was not known.
class Reader {
 public:
  Reader(const Json& json, const std::string& source, std::string_view what) : source_(source) {
    if (!json.is_object()) {
      reject("[recipe] ", source, ": ", what, " must be an object, got ", json.type_name());
    }
    left_ = json;
  }

  template <typename T>
  void operator()(const char* key, T& value) {
    const Json given = take(key);
    if (given.is_null()) return;
    if constexpr (std::is_enum_v<T>) {
      value = word<T>(given, key);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!given.is_boolean()) {
        reject("[recipe] ", source_, ": ", key, " must be true or false, got ",
               quote(given.dump()));
      }
      value = given.as_bool();
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      value = as_integer(given, key, source_);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      value = as_numbers(given, key, source_);
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      value = as_integers(given, key, source_);
    } else {
      value = as_number(given, key, source_);
    }
  }

  /// The value of a key, or of another name that configs have for it.
  Json take(std::string_view key) {
    known_.emplace_back(key);
    Json value = left_.take(key);
    for (const auto& [own, other] : kAliases) {
      if (own != key) continue;
      Json given = left_.take(other);
      if (value.is_null()) value = std::move(given);
    }
    return value;
  }

  template <typename T>
  T word(const Json& given, std::string_view key) const {
    constexpr auto kWords = words_of(T{});
    std::string known;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      if (given.is_string() && given.as_string() == kWords[i]) return static_cast<T>(i);
      known += (known.empty() ? "" : ", ") + std::string(kWords[i]);
    }
    reject("[recipe] ", source_, ": ", key, " must be one of ", known, ", got ",
           quote(given.dump()));
  }

  void reject_rest() const {
    for (const auto& [key, value] : left_.members()) {
      const std::vector<std::string_view> names(known_.begin(), known_.end());
      const std::string_view near = nearest(key, names);
      reject("[recipe] ", source_, ": unknown key ", quote(key),
             near.empty() ? "" : concat("; did you mean ", quote(near), "?"));
    }
  }

  const std::string& source() const noexcept { return source_; }

 private:
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kAliases{
      {{"type", "rope_type"},
       {"theta", "rope_theta"},
       {"original_context", "original_max_position_embeddings"}}};

  const std::string& source_;
  Json left_;
  std::vector<std::string> known_;
};

/// The alternative of that name, with its default members.
template <typename Variant, typename NameOf, std::size_t kIndex = 0>
Variant alternative(const std::string& name, NameOf name_of_index, const std::string& source,
                    std::string_view what) {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    std::string known;
    for (std::size_t k = 0; k < kIndex; ++k) {
      known += (known.empty() ? "" : ", ") + std::string(name_of_index(k));
    }
    reject("[recipe] ", source, ": unknown ", what, " ", quote(name), "; known are ", known);
  } else {
    if (name == name_of_index(kIndex)) return Variant(std::in_place_index<kIndex>);
    return alternative<Variant, NameOf, kIndex + 1>(name, name_of_index, source, what);
  }
}

template <std::size_t kIndex = 0>
std::string_view scaling_name(std::size_t index) {
  if constexpr (kIndex < std::variant_size_v<Scaling>) {
    return index == kIndex ? name_of(Scaling(std::in_place_index<kIndex>))
                           : scaling_name<kIndex + 1>(index);
  } else {
    return {};
  }
}

std::string type_of(Reader& reader, std::string_view what, std::string_view usual) {
  const Json type = reader.take("type");
  if (type.is_null()) return std::string(usual);
  if (!type.is_string()) {
    reject("[recipe] ", reader.source(), ": the type of ", what, " must be a string, got ",
           quote(type.dump()));
  }
  return type.as_string();
}

}  // namespace

Json recipe_json(const Recipe& recipe) {
  Json json = {{"type", name_of(recipe.scaling)}};
  std::visit([&json](const auto& scaling) { members(Writer{json}, scaling); }, recipe.scaling);
  Recipe shown = recipe;
  if (shown.ladder_dim == 0) shown.ladder_dim = recipe.rotary_dim;
  members(Writer{json}, shown);
  return json;
}

Json axis_map_json(const AxisMap& map) {
  Json json = {{"type", kMaps[map.index()]}};
  std::visit([&json](const auto& kind) { members(Writer{json}, kind); }, map);
  return json;
}

AxisMap axis_map_of_json(const Json& json, const std::string& source) {
  Reader reader(json, source, "axis_map");
  AxisMap map = alternative<AxisMap>(
      type_of(reader, "axis_map", "one_axis"), [](std::size_t i) { return kMaps[i]; }, source,
      "axis_map");
  std::visit([&reader](auto& kind) { members(reader, kind); }, map);
  reader.reject_rest();
  return map;
}

template <typename Enum>
Enum word_of_json(const Json& word, const char* key, const std::string& source) {
  return Reader(Json::object(), source, "recipe").word<Enum>(word, key);
}
template RotationDirection word_of_json(const Json&, const char*, const std::string&);
template Wavelengths word_of_json(const Json&, const char*, const std::string&);
template SoftmaxCorrection word_of_json(const Json&, const char*, const std::string&);
template WalkthroughRamp word_of_json(const Json&, const char*, const std::string&);

Recipe recipe_of_json(const Json& json, const std::string& source) {
  Reader reader(json, source, "a recipe");
  Recipe recipe;
  recipe.scaling = alternative<Scaling>(
      type_of(reader, "a recipe", "default"), [](std::size_t i) { return scaling_name(i); }, source,
      "type");
  reader("rotary_dim", recipe.rotary_dim);
  members(reader, recipe);
  std::visit([&reader](auto& scaling) { members(reader, scaling); }, recipe.scaling);
  if (const Json map = reader.take("axis_map"); !map.is_null()) {
    recipe.axes = axis_map_of_json(map, source);
  }
  reader.reject_rest();
  return recipe;
}

}  // namespace rotary::internal

namespace rotary {

std::string to_json(const Recipe& recipe) {
  internal::Json json = internal::recipe_json(recipe);
  json["rotary_dim"] = recipe.rotary_dim;
  json["axis_map"] = internal::axis_map_json(recipe.axes);
  return json.dump();
}

Recipe recipe_from_json(std::string_view json, const std::string& source) {
  return internal::recipe_of_json(internal::parse_json(json, source), source);
}

}  // namespace rotary
