// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace rotary::explain {
namespace {

constexpr double kMaxPhaseDifference = 0.1;  // rad
constexpr double kRoundingTolerance = 1e-6;  // relative: parameters stored as float32

/// Nested objects as dotted keys, "recipe.factor" -> 8; lists are kept as values.
void flatten(const Json& json, const std::string& prefix, Json& flat) {
  // Not parameters, or compared elsewhere.
  constexpr std::array<std::string_view, 8> kSkipped{"frequencies",    "growth",   "growth_origin",
                                                     "assumed",        "warnings", "theta",
                                                     "context_in_use", "name"};
  for (const auto& [key, value] : json.members()) {
    const bool skipped =
        prefix.empty() && std::find(kSkipped.begin(), kSkipped.end(), key) != kSkipped.end();
    if (skipped) continue;
    if (value.is_object()) {
      flatten(value, prefix + key + ".", flat);
    } else {
      flat[prefix + key] = value;
    }
  }
}

std::vector<ParameterDifference> find_differences(const Json& a, const Json& b) {
  Json flat_a = Json::object();
  Json flat_b = Json::object();
  flatten(a, "", flat_a);
  flatten(b, "", flat_b);
  std::vector<ParameterDifference> found;
  if (a.at("name") != b.at("name")) found.push_back({"name", a.at("name"), b.at("name")});
  for (const auto& [key, value] : flat_a.members()) {
    const Json* other = flat_b.find(key);
    if (value != (other == nullptr ? Json() : *other)) {
      found.push_back({key, value, other == nullptr ? Json() : *other});
    }
  }
  for (const auto& [key, value] : flat_b.members()) {
    if (!flat_a.contains(key) && !value.is_null()) found.push_back({key, nullptr, value});
  }
  return found;
}

/// The smallest integer p with gap * p > kMaxPhaseDifference; none if p is not exact in a double.
std::optional<std::int64_t> divergence_position(double gap) {
  const double nearest = std::floor(kMaxPhaseDifference / gap);
  if (!(nearest < 0x1p53)) return std::nullopt;
  // The quotient is rounded and may be off by one either way.
  double position = std::max(nearest - 1.0, 1.0);
  while (!(gap * position > kMaxPhaseDifference)) position += 1.0;
  return static_cast<std::int64_t>(position);
}

void compare_frequencies(const Frequencies& a, const Frequencies& b, Comparison& result) {
  double max_gap = 0.0;
  const auto add_constant = [](std::vector<std::int64_t>& pairs, std::int64_t pair) {
    if (pairs.empty() || pairs.back() != pair) pairs.push_back(pair);
  };
  for (std::int64_t pair = 0; pair < a.pairs; ++pair) {
    for (std::int64_t axis = 0; axis < a.axes; ++axis) {
      const double fa = a(pair, axis);
      const double fb = b(pair, axis);
      if (const double gap = std::fabs(fa - fb); gap > max_gap) {
        max_gap = gap;
        if (const auto position = divergence_position(gap)) {
          result.divergence = PhaseDivergence{*position, pair, axis};
        }
      }
      if (fa == 0.0 && fb != 0.0) add_constant(result.constant_in_a, pair);
      if (fb == 0.0 && fa != 0.0) add_constant(result.constant_in_b, pair);
      if (fa == 0.0 || fb == 0.0) continue;
      const double ratio = std::max(std::fabs(fa / fb), std::fabs(fb / fa));
      if (!result.ratio || ratio > result.ratio->largest) {
        result.ratio = FrequencyRatio{ratio, pair, axis, fa, fb};
      }
    }
  }
}

bool same_layout(const HeadLayout& a, const HeadLayout& b) {
  return a.head_dim == b.head_dim && a.rotary_offset == b.rotary_offset && a.pairing == b.pairing &&
         a.output_pairing.value_or(a.pairing.value()) ==
             b.output_pairing.value_or(b.pairing.value());
}

bool nearly_equal(double a, double b) {
  return std::fabs(a - b) <= kRoundingTolerance * std::max(std::fabs(a), std::fabs(b));
}

Verdict compare_values(const Frequencies& a, const Frequencies& b, const Comparison& result) {
  if (!result.comparable || a.growth.size() != b.growth.size()) return Verdict::kDiffer;
  if (a.values == b.values && a.scale == b.scale && a.growth == b.growth &&
      (a.growth.empty() || a.growth_origin == b.growth_origin)) {
    return Verdict::kSame;
  }
  const bool near = std::equal(a.values.begin(), a.values.end(), b.values.begin(), nearly_equal) &&
                    std::equal(a.growth.begin(), a.growth.end(), b.growth.begin(), nearly_equal) &&
                    nearly_equal(a.scale, b.scale) &&
                    (a.growth.empty() || a.growth_origin == b.growth_origin);
  return near ? Verdict::kRounding : Verdict::kDiffer;
}

}  // namespace

Comparison compare(const ModelRope& a, const ModelRope& b, std::int64_t context) {
  return compare(a, a.make_frequencies(context), b, b.make_frequencies(context));
}

Comparison compare(const ModelRope& a, const Frequencies& fa, const ModelRope& b,
                   const Frequencies& fb) {
  constexpr std::int64_t kContext = 0;  // in use: not compared
  Comparison result;
  result.name = a.name;
  result.parameters = find_differences(rope_json(a, fa, kContext), rope_json(b, fb, kContext));
  result.comparable = fa.pairs == fb.pairs && fa.axes == fb.axes;
  if (result.comparable) compare_frequencies(fa, fb, result);
  result.scale_ratio = fb.scale / fa.scale;
  result.softmax_scale_ratio = fb.softmax_scale / fa.softmax_scale;
  result.verdict =
      same_layout(a.layout, b.layout) ? compare_values(fa, fb, result) : Verdict::kDiffer;
  return result;
}

Json comparison_json(const Comparison& rope) {
  Json json = {{"name", rope.name},
               {"same", rope.verdict == Verdict::kSame},
               {"rounding_only", rope.verdict == Verdict::kRounding},
               {"parameters", Json::array()},
               {"frequency_ratio", nullptr},
               {"constant_pairs", {{"a", rope.constant_in_a}, {"b", rope.constant_in_b}}},
               {"phase_divergence", nullptr},
               {"scale_ratio", rope.scale_ratio},
               {"softmax_scale_ratio", rope.softmax_scale_ratio}};
  for (const ParameterDifference& entry : rope.parameters) {
    json["parameters"].push_back(
        Json{{"parameter", entry.parameter}, {"a", entry.a}, {"b", entry.b}});
  }
  if (rope.ratio) {
    json["frequency_ratio"] = {{"largest", rope.ratio->largest},
                               {"pair", rope.ratio->pair},
                               {"axis", rope.ratio->axis},
                               {"a", rope.ratio->a},
                               {"b", rope.ratio->b}};
  }
  if (rope.divergence) {
    json["phase_divergence"] = {{"position", rope.divergence->position},
                                {"pair", rope.divergence->pair},
                                {"axis", rope.divergence->axis}};
  }
  return json;
}

}  // namespace rotary::explain
