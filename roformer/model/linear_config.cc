// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/linear_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "json/json.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

using internal::Json;

constexpr std::array<std::pair<std::string_view, LinearKernel>, 5> kKernels{
    {{"elu", LinearKernel::kElu},
     {"relu", LinearKernel::kRelu},
     {"cosine", LinearKernel::kCosine},
     {"rotated", LinearKernel::kRotated},
     {"favor", LinearKernel::kFavor}}};
constexpr std::array<std::pair<std::string_view, FavorRotation>, 2> kRotations{
    {{"before", FavorRotation::kBefore}, {"after", FavorRotation::kAfter}}};

constexpr std::string_view kDecayRule = "true, false, \"learned\" or a number above 0";

/// Bounds the memory that a small config can ask for.
std::int64_t max_features(std::int64_t head_dim) {
  return std::max<std::int64_t>(256, 16 * head_dim);
}

[[noreturn]] void refuse_key(const std::string& source, std::string_view key, std::string_view rule,
                             const Json& got) {
  throw IoError(source, IoError::kNoOffset,
                internal::concat(key, " must be ", rule, ", got ", got.excerpt()));
}

template <typename T, std::size_t kCount>
void take_word(Json& object, const std::string& source, std::string_view key,
               const std::array<std::pair<std::string_view, T>, kCount>& words, T& field) {
  const Json value = object.take(key);
  if (value.is_null()) return;
  std::string rule = "one of ";
  for (const auto& [word, meaning] : words) {
    if (value == word) {
      field = meaning;
      return;
    }
    rule.append(rule.ends_with(' ') ? "" : ", ").append(word);
  }
  refuse_key(source, key, rule, value);
}

template <typename T, std::size_t kCount>
std::string_view word_of(const std::array<std::pair<std::string_view, T>, kCount>& words, T value) {
  return std::find_if(words.begin(), words.end(),
                      [value](const auto& entry) { return entry.second == value; })
      ->first;
}

void take_decay(Json& object, const std::string& source, LinearConfig& config) {
  const Json value = object.take("linear_decay");
  if (value.is_null()) return;
  if (value.is_boolean()) {
    config.decay = value.as_bool() ? DecayKind::kSlopes : DecayKind::kNone;
  } else if (value.is_number()) {
    config.decay = DecayKind::kConstant;
    config.decay_value = value.as_double();
  } else if (value == std::string_view("learned")) {
    config.decay = DecayKind::kLearned;
  } else {
    refuse_key(source, "linear_decay", kDecayRule, value);
  }
}

}  // namespace

LinearConfig take_linear_config(Json& object, const std::string& source) {
  LinearConfig config;
  take_word(object, source, "linear_kernel", kKernels, config.kernel);
  take_word(object, source, "favor_rotation", kRotations, config.favor_rotation);
  if (const Json value = object.take("favor_features"); !value.is_null()) {
    if (!value.is_int64()) refuse_key(source, "favor_features", "a whole number", value);
    config.favor_features = value.as_int64();
  }
  take_decay(object, source, config);
  return config;
}

void add_linear_config(const LinearConfig& config, Json& object) {
  const LinearConfig plain;
  if (config.kernel != plain.kernel) object["linear_kernel"] = word_of(kKernels, config.kernel);
  if (config.favor_rotation != plain.favor_rotation) {
    object["favor_rotation"] = word_of(kRotations, config.favor_rotation);
  }
  if (config.favor_features != 0) object["favor_features"] = config.favor_features;
  switch (config.decay) {
    case DecayKind::kNone:
      break;
    case DecayKind::kSlopes:
      object["linear_decay"] = true;
      break;
    case DecayKind::kConstant:
      object["linear_decay"] = config.decay_value;
      break;
    case DecayKind::kLearned:
      object["linear_decay"] = "learned";
      break;
  }
}

void check_linear_config(const LinearConfig& c, bool is_linear, std::int64_t head_dim) {
  if (!is_linear && c != LinearConfig{}) {
    internal::reject(
        "linear_kernel, favor_rotation, favor_features and linear_decay are for attention_type "
        "\"linear\"");
  }
  if (c.kernel != LinearKernel::kFavor &&
      (c.favor_rotation != FavorRotation::kAfter || c.favor_features != 0)) {
    internal::reject("favor_rotation and favor_features are for linear_kernel \"favor\", got \"",
                     word_of(kKernels, c.kernel), "\"");
  }
  const std::int64_t features = c.favor_features;
  if (features != 0 && (features < 2 || features % 2 != 0 || features > max_features(head_dim))) {
    internal::reject("favor_features must be even, from 2 to ", max_features(head_dim),
                     " (256, or 16 per element of a head), got ", features);
  }
  if (c.decay == DecayKind::kConstant && !(c.decay_value > 0.0 && std::isfinite(c.decay_value))) {
    internal::reject("linear_decay must be ", kDecayRule, ", got ", c.decay_value);
  }
}

}  // namespace rotary::roformer
