// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "python/onnx_op/rope_attribute.h"

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "json/json.h"
#include "rotary/frequencies.h"

namespace rotary::onnx {
namespace {

using internal::Json;

[[noreturn]] void reject(const std::string& message) {
  throw std::invalid_argument("[Rotate] rope: " + message);
}

/// Null if absent or null.
const Json* find(const Json& json, const char* key) {
  const Json* found = json.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

double number(const Json& json, const char* key, double otherwise) {
  const Json* found = find(json, key);
  if (found == nullptr) return otherwise;
  if (!found->is_number()) reject(std::string(key) + " must be a number, got " + found->excerpt());
  return found->as_double();
}

std::int64_t integer(const Json& json, const char* key, std::int64_t otherwise) {
  const Json* found = find(json, key);
  if (found == nullptr) return otherwise;
  if (!found->is_int64()) {
    reject(std::string(key) + " must be a whole number, got " + found->excerpt());
  }
  return found->as_int64();
}

std::vector<double> numbers(const Json& json, const char* key) {
  const Json* found = find(json, key);
  if (found == nullptr) return {};
  std::vector<double> values;
  bool is_list = found->is_array();
  for (std::size_t i = 0; is_list && i < found->size(); ++i) {
    is_list = found->elements()[i].is_number();
    if (is_list) values.push_back(found->elements()[i].as_double());
  }
  if (!is_list) reject(std::string(key) + " must be a list of numbers");
  return values;
}

/// The index of a word in `words`; nothing if the key is absent.
std::optional<std::size_t> word(const Json& json, const char* key,
                                std::initializer_list<std::string_view> words) {
  const Json* found = find(json, key);
  if (found == nullptr) return std::nullopt;
  std::string all;
  std::size_t index = 0;
  for (const std::string_view each : words) {
    if (found->is_string() && found->as_string() == each) return index;
    all.append(index++ == 0 ? "" : " or ").append(each);
  }
  reject(std::string(key) + " must be " + all + ", got " + found->excerpt());
}

std::optional<Pairing> pairing(const Json& json, const char* key) {
  const auto index = word(json, key, {"interleaved", "half"});
  if (!index) return std::nullopt;
  return *index == 0 ? Pairing::kInterleaved : Pairing::kHalf;
}

Frequencies read_frequencies(const Json& json) {
  Frequencies f;
  f.axes = integer(json, "axes", 1);
  f.values = numbers(json, "frequencies");
  if (f.axes < 1) reject("axes must be positive, got " + std::to_string(f.axes));
  f.pairs = static_cast<std::int64_t>(f.values.size()) / f.axes;
  f.scale = number(json, "scale", 1.0);
  f.growth = numbers(json, "growth");
  f.growth_origin = number(json, "growth_origin", 0.0);
  return f;
}

}  // namespace

RopeAttribute::RopeAttribute(std::string_view text) {
  const Json json = internal::parse_json(text, "the attribute rope");
  if (!json.is_object()) reject("must be a JSON object, got " + std::string(json.type_name()));
  context_in_use_ = integer(json, "context_in_use", 0);
  if (word(json, "precision", {"exact", "reference"}) == 1) precision_ = Precision::kReference;
  if (const Json* inverse = find(json, "inverse_growth")) inverse_growth_ = inverse->as_bool();
  if (find(json, "recipe") != nullptr) {
    Json whole = Json::object();
    whole["ropes"] = Json(Json::Array{json});
    model_ = Model::from_config(whole.dump(), "the attribute rope").rope();
    layout_ = model_->layout;
    axes_ = static_cast<std::int64_t>(model_->axes.size());
  } else {
    if (find(json, "frequencies") == nullptr) reject("needs a recipe or frequencies");
    frequencies_ = read_frequencies(json);
    layout_ = {.head_dim = integer(json, "head_dim", 0),
               .rotary_offset = integer(json, "rotary_offset", 0),
               .pairing = pairing(json, "pairing"),
               .output_pairing = pairing(json, "output_pairing")};
    axes_ = frequencies_.axes;
  }
  static_cast<void>(make_rope(0));  // checks the rest
}

bool RopeAttribute::depends_on_context() const {
  return model_ && context_in_use_ == 0 && rotary::depends_on_context(model_->recipe);
}

Rope RopeAttribute::make_rope(std::int64_t context) const {
  Frequencies made = frequencies_;
  if (model_) made = model_->make_frequencies(context_in_use_ != 0 ? context_in_use_ : context);
  if (inverse_growth_) made = with_inverse_growth(std::move(made));
  return Rope(std::move(made), layout_, {.precision = precision_});
}

}  // namespace rotary::onnx
