// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/dialect.h"

#include <fmt/core.h>

#include <cmath>
#include <variant>

#include "explain/compare.h"
#include "explain/format.h"
#include "explain/text_layout.h"

namespace rotary::explain {
namespace {

constexpr double kRounding = 1e-6;

Pairing cache_pairing(const HeadLayout& layout) {
  return layout.output_pairing.value_or(layout.pairing.value());
}

void compare_pairs(const Frequencies& a, const Frequencies& b, DialectDifference& result) {
  for (std::int64_t pair = 0; pair < a.pairs; ++pair) {
    double worst = 0.0;
    for (std::int64_t axis = 0; axis < a.axes; ++axis) {
      const double fa = a(pair, axis);
      const double fb = b(pair, axis);
      if (fa == fb) continue;
      worst = std::max(worst, fa == 0.0 ? INFINITY : std::fabs(fb / fa - 1.0));
    }
    if (!(worst > kRounding)) continue;
    result.pairs.push_back(pair);
    if (worst > result.relative) {
      result.relative = worst;
      result.relative_pair = pair;
    }
  }
}

std::string describe_scores(double factor) {
  return fmt::format(
      "attention scores are {} times as large at every length, so attention is too {}",
      format_number(factor), factor > 1.0 ? "sharp" : "flat");
}

std::string describe_pairs(const DialectRope& a, const DialectRope& b,
                           const DialectDifference& difference) {
  const auto is_plain = [](const DialectRope& rope) {
    return std::holds_alternative<Plain>(rope.rope.recipe.scaling);
  };
  if (is_plain(b) && !is_plain(a)) {
    return fmt::format("the context is not extended: text beyond {} positions degrades",
                       a.rope.context.trained);
  }
  if (!difference.position) return "frequencies differ, but never by 0.1 rad";
  return fmt::format(
      "phases are apart by 0.1 rad from position {} on, so quality falls with length",
      *difference.position);
}

std::string notice_of(const DialectRope& a, const DialectRope& b,
                      const DialectDifference& difference) {
  if (!difference.refused.empty()) {
    return fmt::format("It fails with an error: {} is refused.", difference.refused);
  }
  if (!difference.comparable) return "Another number of pairs or axes: the models do not agree.";
  std::vector<std::string> parts;
  if (difference.score_factor != 1.0) parts.push_back(describe_scores(difference.score_factor));
  if (!difference.pairs.empty()) parts.push_back(describe_pairs(a, b, difference));
  if (parts.empty() && difference.cache_a != difference.cache_b) {
    parts.emplace_back("the same text, but neither can use the other's KV cache");
  }
  if (parts.empty() && difference.scale_a != difference.scale_b) {
    parts.emplace_back("the same scores, but neither can use the other's KV cache");
  }
  if (parts.empty()) return "Nothing: the same rotation.";
  std::string sentence = join(parts, "; ") + ".";
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

}  // namespace

DialectDifference compare_dialects(const DialectRope& a, const DialectRope& b,
                                   std::int64_t context) {
  const Frequencies fa = a.make_frequencies(context);
  const Frequencies fb = b.make_frequencies(context);
  const Comparison comparison = compare(a.rope, b.rope, context);
  DialectDifference result{.name = a.rope.name,
                           .dropped_by_a = a.dropped_keys,
                           .dropped_by_b = b.dropped_keys,
                           .scale_a = fa.scale,
                           .scale_b = fb.scale,
                           .comparable = comparison.comparable};
  result.refused = b.refused.empty() ? a.refused : b.refused;
  if (!result.refused.empty()) {
    result.cache_compatible = false;
    result.notice = notice_of(a, b, result);
    return result;
  }
  const double scores = std::pow(fb.scale / fa.scale, 2.0) * fb.softmax_scale / fa.softmax_scale;
  if (std::fabs(scores - 1.0) > kRounding) result.score_factor = scores;
  if (result.comparable) compare_pairs(fa, fb, result);
  if (!result.pairs.empty() && comparison.divergence) {
    result.position = comparison.divergence->position;
  }
  result.cache_a = cache_pairing(a.rope.layout);
  result.cache_b = cache_pairing(b.rope.layout);
  result.cache_compatible = result.comparable && result.pairs.empty() &&
                            result.cache_a == result.cache_b &&
                            std::fabs(fb.scale / fa.scale - 1.0) <= kRounding;
  result.notice = notice_of(a, b, result);
  return result;
}

void add_dialect(std::vector<Property>& properties, const DialectRope& rope) {
  if (!rope.refused.empty()) {
    properties.push_back({"refused", rope.refused, "it fails with an error; this is what hf has"});
  }
  const bool none = rope.dropped_keys.empty();
  properties.push_back({"dropped keys", none ? "none" : join(rope.dropped_keys, ", "),
                        "in the file, without effect in this dialect"});
  properties.push_back({"cache pairing", std::string(name_of(cache_pairing(rope.rope.layout))),
                        "the order of cached keys"});
  for (const std::string& note : rope.notes) properties.push_back({"note", note, ""});
}

void add_dialect(Json& rope_json, const DialectRope& rope) {
  rope_json["dropped_keys"] = rope.dropped_keys;
  if (!rope.refused.empty()) rope_json["refused"] = rope.refused;
  rope_json["cache_pairing"] = name_of(cache_pairing(rope.rope.layout));
}

std::string dialect_sentences(const Dialect& d) {
  return fmt::format("In the dialect {} ({}, {}). It rounds so: angle {}; table {}; rotation {}.",
                     d.full_name(), d.source, d.evidence, d.rounding.angle, d.rounding.table,
                     d.rounding.rotation);
}

Json difference_json(const DialectDifference& d) {
  return {{"name", d.name},
          {"same", d.is_same()},
          {"dropped_keys", {{"a", d.dropped_by_a}, {"b", d.dropped_by_b}}},
          {"scale", {{"a", d.scale_a}, {"b", d.scale_b}}},
          {"score_factor", d.score_factor},
          {"refused", d.refused.empty() ? Json(nullptr) : Json(d.refused)},
          {"comparable", d.comparable},
          {"pairs", d.pairs},
          {"relative_difference", d.relative},
          {"relative_pair", d.pairs.empty() ? Json(nullptr) : Json(d.relative_pair)},
          {"first_position", d.position ? Json(*d.position) : Json(nullptr)},
          {"cache_pairing", {{"a", name_of(d.cache_a)}, {"b", name_of(d.cache_b)}}},
          {"cache_compatible", d.cache_compatible},
          {"notice", d.notice}};
}

}  // namespace rotary::explain
