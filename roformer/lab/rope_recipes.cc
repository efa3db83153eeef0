// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/rope_recipes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

constexpr const char* kDivisors = "divisors";

Json recipe_of(const char* name, Json rope) { return {{"name", name}, {"rope", std::move(rope)}}; }

/// A list of the factor: what the check of the settings and a search begin with.
Json list_of(double value, std::int64_t pairs) {
  return std::vector<double>(static_cast<std::size_t>(pairs), value);
}

Json filled(const std::string& place, const Stretch& stretch) {
  if (place == "factor") return stretch.factor;
  if (place == "1 - 1/factor") return 1.0 - 1.0 / stretch.factor;
  if (place == "ones") return list_of(1.0, stretch.pairs);
  if (place == kDivisors) {
    return stretch.divisors.empty() ? list_of(stretch.factor, stretch.pairs)
                                    : Json(stretch.divisors);
  }
  internal::reject("[lab] recipes: a text must be factor, 1 - 1/factor, divisors or ones, got ",
                   place);
}

}  // namespace

Json default_rope_recipes() {
  const char* f = "factor";
  return Json::Array{
      {{"name", "none"}},
      recipe_of("linear", {{"rope_type", "linear"}, {"factor", f}}),
      recipe_of("ntk", {{"rope_type", "ntk"}, {"factor", f}}),
      recipe_of("ntk_mixed", {{"rope_type", "ntk"}, {"factor", f}, {"mixed_b", 0.625}}),
      recipe_of("ntk_alpha", {{"rope_type", "ntk_alpha"}, {"alpha", f}}),
      recipe_of("dynamic", {{"rope_type", "dynamic"}, {"factor", f}}),
      recipe_of("yarn", {{"rope_type", "yarn"}, {"factor", f}}),
      recipe_of("yarn_paper", {{"rope_type", "yarn_paper"}, {"factor", f}}),
      recipe_of("yarn_walkthrough", {{"rope_type", "yarn_walkthrough"}, {"factor", f}}),
      recipe_of("yarn+resonance", {{"rope_type", "yarn"}, {"factor", f}, {"resonance", true}}),
      recipe_of("resonance", {{"rope_type", "resonance"}}),
      recipe_of("llama3", {{"rope_type", "llama3"},
                           {"factor", f},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0}}),
      recipe_of("longrope", {{"rope_type", "longrope"},
                             {"factor", f},
                             {"short_factor", "ones"},
                             {"long_factor", kDivisors}}),
      recipe_of("receptive_field",
                {{"rope_type", "receptive_field"}, {"alpha", "1 - 1/factor"}, {"rho", 1.0}})};
}

RopeChange make_rope_change(const Json& recipe, const Stretch& stretch) {
  RopeChange change;
  const Json* rope = recipe.find("rope");
  if (rope == nullptr) return change;
  Json dict = Json::object();
  for (const auto& [key, value] : rope->members()) {
    const bool is_place = value.is_string() && key != "rope_type" && key != "type";
    dict[key] = is_place ? filled(value.as_string(), stretch) : value;
  }
  change.rope = dict.dump();
  return change;
}

bool needs_divisors(const Json& recipe) {
  const Json* rope = recipe.find("rope");
  return rope != nullptr && std::ranges::any_of(rope->members(), [](const Json::Member& member) {
           return member.value.is_string() && member.value.as_string() == kDivisors;
         });
}

std::vector<std::vector<double>> candidate_divisors(std::int64_t pairs, double factor) {
  std::vector<std::vector<double>> all;
  for (const double kept : {0.0, 0.125, 0.25, 0.5, 0.75}) {
    for (const double power : {0.25, 0.5, 1.0, 2.0}) {
      std::vector<double>& divisors = all.emplace_back();
      const double first = kept * static_cast<double>(pairs);
      const double last = std::max(first + 1.0, static_cast<double>(pairs - 1));
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double share =
            std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
        divisors.push_back(std::pow(factor, std::pow(share, power)));
      }
    }
  }
  return all;
}

}  // namespace rotary::roformer::lab
