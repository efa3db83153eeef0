// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/describe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

#include "tools/rope_json.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

// ---- What each scaling does -------------------------------------------------------------------

std::string_view words_of(const Plain&) { return "the plain ladder of frequencies, not scaled"; }
std::string_view words_of(const Linear&) {
  return "position interpolation: every pair is slowed down by the same factor";
}
std::string_view words_of(const Ntk&) {
  return "NTK-RoPE: fast pairs stay nearly as they are, slow ones are slowed down by the factor";
}
std::string_view words_of(const NtkAlpha&) {
  return "NTK-aware: a larger base, so that slow pairs are slowed down more than fast ones";
}
std::string_view words_of(const DynamicNtk&) {
  return "dynamic NTK: beyond the original context the base grows with the length in use";
}
std::string_view words_of(const Yarn&) {
  return "YaRN: fast pairs are kept, slow ones divided by the factor, a ramp over pairs between";
}
std::string_view words_of(const YarnPaper&) {
  return "YaRN as its paper writes it: the ramp runs over turns in the original context";
}
std::string_view words_of(const YarnWalkthrough&) {
  return "the \"yarn\" of a walk-through; it is not YaRN";
}
std::string_view words_of(const LongRope&) {
  return "LongRoPE: a divisor for each pair, one list up to the original context, one beyond it";
}
std::string_view words_of(const Llama3&) {
  return "Llama 3.1: fast pairs are kept, slow ones divided by the factor, a ramp between";
}
std::string_view words_of(const Proportional&) {
  return "the ladder of the whole head, of which only the fastest part turns";
}
std::string_view words_of(const Divisors&) { return "each pair has a divisor, listed in the file"; }
std::string_view words_of(const Learnable&) { return "frequencies that were learned"; }
std::string_view words_of(const ReceptiveField&) {
  return "receptive field: one common frequency is mixed into all";
}
std::string_view words_of(const Xpos&) {
  return "xPos: pairs also grow (queries) and shrink (keys) with the position";
}

/// "factor 8, original_context 8192": what the type alone does not say.
std::string parameter_text(const Recipe& recipe) {
  std::vector<std::string> parts;
  const Json json = recipe_json(recipe);
  for (const auto& item : json.items()) {
    const std::string& key = item.key();
    const bool shown_elsewhere =
        key == "type" || key == "theta" || key == "ladder_dim" || key == "turn" || key == "gain";
    const bool says_nothing = item.value().is_null() || item.value() == "none";
    if (!shown_elsewhere && !says_nothing) parts.push_back(key + " " + value_text(item.value()));
  }
  return join(parts, ", ");
}

// ---- Layout -------------------------------------------------------------------------------------

std::string slice_words(const HeadLayout& layout, const Frequencies& frequencies) {
  const std::int64_t rotary_dim = frequencies.rotary_dim();
  std::int64_t turning = 0;
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    bool turns = false;
    for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
      turns = turns || frequencies(pair, axis) != 0.0;
    }
    turning += turns ? 1 : 0;
  }
  std::string as_pairs = "as " + count_of(frequencies.pairs, "pair");
  if (turning < frequencies.pairs) as_pairs += fmt::format(" of which {} turn", turning);
  if (rotary_dim == layout.head_dim) {
    return (turning < frequencies.pairs ? "the whole head, " : "the whole head turns, ") + as_pairs;
  }
  const std::int64_t rest = layout.head_dim - rotary_dim;
  const bool trailing = layout.rotary_offset == rest;
  return fmt::format("the {}elements {}-{} turn, {}; the other {} pass through",
                     layout.rotary_offset == 0 ? "first "
                     : trailing                ? "last "
                                               : "",
                     layout.rotary_offset, layout.rotary_offset + rotary_dim - 1, as_pairs, rest);
}

std::string pairing_words(Pairing pairing, const HeadLayout& layout, std::int64_t pairs) {
  const std::string from = layout.rotary_offset == 0
                               ? ""
                               : fmt::format(", counted from element {}", layout.rotary_offset);
  if (pairing == Pairing::kInterleaved) return "pair i is elements 2i and 2i+1" + from;
  return fmt::format("pair i is elements i and i+{}{}", pairs, from);
}

// ---- Axes ---------------------------------------------------------------------------------------

std::string axis_words(const std::vector<std::string>& axes) {
  if (axes.size() == 1) return "one position a token";
  std::vector<std::string> names;
  names.reserve(axes.size());
  for (const std::string& axis : axes) {
    names.push_back(axis == "t"   ? "t time"
                    : axis == "h" ? "h row"
                    : axis == "w" ? "w column"
                                  : axis);
  }
  return count_of(static_cast<std::int64_t>(axes.size()), "position") +
         " a token: " + join(names, ", ");
}

std::string order_words(const OneAxis&) { return ""; }
std::string order_words(const Mrope& map) {
  switch (map.order) {
    case MropeOrder::kChunked:
      return "M-RoPE in chunks: one ladder, cut into a run of pairs an axis";
    case MropeOrder::kInterleaved:
      return "M-RoPE interleaved: the axes take turns along one ladder";
    case MropeOrder::kRoundRobin:
      return "M-RoPE round robin: the axes take turns along one ladder until each has its share";
    case MropeOrder::kSpatialFirst:
      return "M-RoPE: h and w take turns along the fast part of one ladder, t has the slow part";
    case MropeOrder::kSpatialBlocks:
      return "M-RoPE: h and w share the fast part of one ladder, t has the slow part; laid out in "
             "blocks";
  }
  return "";
}
std::string order_words(const Axial& map) {
  const std::string order = map.order == AxialOrder::kBlocks ? "in blocks" : "alternating";
  return map.ladder == AxialLadder::kOwn
             ? "axial, " + order + ": each axis has a ladder of its own"
             : "axial, " + order + ": the axes take turns along one ladder";
}
std::string order_words(const Mixed&) { return "mixed: every axis turns every pair"; }

/// "t 24, h 20, w 20": pairs that each axis turns.
std::string share_text(const ModelRope& rope, const Frequencies& frequencies) {
  std::vector<std::string> parts;
  for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
    std::int64_t count = 0;
    for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
      count += frequencies(pair, axis) != 0.0 ? 1 : 0;
    }
    const auto index = static_cast<std::size_t>(axis);
    const std::string name = index < rope.axes.size() ? rope.axes[index] : fmt::format("{}", axis);
    parts.push_back(fmt::format("{} {}", name, count));
  }
  return join(parts, ", ");
}

// ---- Length -------------------------------------------------------------------------------------

std::string_view regime_words(const Scaling& scaling, bool beyond) {
  if (std::holds_alternative<LongRope>(scaling)) {
    return beyond ? "the long_factor list" : "the short_factor list";
  }
  return beyond ? "scaled" : "not scaled";
}

void add_context(std::vector<Row>& rows, const ModelRope& rope, std::int64_t context_in_use) {
  const auto text = [](std::int64_t length) {
    return length > 0 ? fmt::format("{}", length) : std::string("not known");
  };
  rows.push_back(
      {"trained context", text(rope.context.trained),
       rope.context.trained > 0 ? "positions seen in training" : "the file does not say"});
  if (rope.context.extended > 0 && rope.context.extended != rope.context.trained) {
    rows.push_back({"extended to", text(rope.context.extended),
                    "positions that the model is meant to work with"});
  }
  const std::int64_t turn = turning_point(rope.recipe);
  if (turn <= 0) {
    if (context_in_use > 0) {
      rows.push_back({"positions in use", text(context_in_use), "this recipe is the same for any"});
    }
    return;
  }
  const bool beyond = context_in_use > turn;
  rows.push_back(
      {"regime", fmt::format("{} {}", beyond ? "beyond" : "up to", turn),
       fmt::format(
           "this recipe depends on the positions in use{}; shown are the frequencies {} the "
           "original context of {}: {}. --context {} shows the other side.",
           context_in_use > 0 ? fmt::format(" (here {})", context_in_use) : "",
           beyond ? "beyond" : "up to", turn, regime_words(rope.recipe.scaling, beyond),
           beyond ? turn : std::max(turn + 1, rope.context.extended))});
}

// ---- The rows -----------------------------------------------------------------------------------

void add_recipe(std::vector<Row>& rows, const Recipe& recipe) {
  const auto words = std::visit([](const auto& s) { return words_of(s); }, recipe.scaling);
  rows.push_back({"type", std::string(name_of(recipe.scaling)), std::string(words)});
  if (std::string text = parameter_text(recipe); !text.empty()) {
    rows.push_back({"parameters", std::move(text), ""});
  }
  if (std::holds_alternative<Mixed>(recipe.axes)) return;
  const std::int64_t dim = recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim;
  const auto* axial = std::get_if<Axial>(&recipe.axes);
  const bool own = axial != nullptr && axial->ladder == AxialLadder::kOwn;
  rows.push_back(
      {"theta", number(recipe.theta),
       own ? "the base: rung i of an axis turns by theta^(-2i/d) rad a position, d the "
             "axis' own dims"
           : fmt::format("the base: pair i turns by theta^(-2i/{}) rad a position{}", dim,
                         std::holds_alternative<Plain>(recipe.scaling) ? "" : ", before scaling")});
  if (recipe.gain != 1.0) {
    rows.push_back({"gain", number(recipe.gain), "every frequency is multiplied by it"});
  }
  if (recipe.turn == Turn::kBackward) {
    rows.push_back({"turn", "backward", "angles are negative: pairs turn the other way"});
  }
}

void add_layout(std::vector<Row>& rows, const HeadLayout& layout, const Frequencies& frequencies) {
  rows.push_back({"head dim", fmt::format("{}", layout.head_dim), "elements of one head"});
  rows.push_back({"rotary dim", fmt::format("{}", frequencies.rotary_dim()),
                  slice_words(layout, frequencies)});
  const Pairing pairing = layout.pairing.value();
  rows.push_back({"pairing", std::string(name_of(pairing)),
                  pairing_words(pairing, layout, frequencies.pairs)});
  const Pairing output = layout.output_pairing.value_or(pairing);
  if (output != pairing) {
    rows.push_back({"output pairing", std::string(name_of(output)),
                    "pairs are written back in this order: scores stay, caches differ"});
  }
}

void add_scales(std::vector<Row>& rows, const Frequencies& frequencies) {
  rows.push_back({"scale", number(frequencies.scale),
                  frequencies.scale == 1.0
                      ? "cos and sin are used as they are"
                      : fmt::format("multiplies cos and sin, hence attention scores by {}",
                                    number(frequencies.scale * frequencies.scale))});
  if (frequencies.softmax_scale != 1.0) {
    rows.push_back({"softmax scale", number(frequencies.softmax_scale),
                    "attention multiplies its scores by this on top of 1/sqrt(d); not part of the "
                    "rotation"});
  }
  if (!frequencies.growth.empty()) {
    rows.push_back({"growth origin", number(frequencies.growth_origin),
                    "the position at which pairs have their own length"});
  }
}

}  // namespace

std::vector<Row> describe(const ModelRope& rope, const Frequencies& frequencies,
                          std::int64_t context_in_use) {
  std::vector<Row> rows;
  add_recipe(rows, rope.recipe);
  add_layout(rows, rope.layout, frequencies);
  rows.push_back({"axes", join(rope.axes, " "), axis_words(rope.axes)});
  if (frequencies.axes > 1) {
    rows.push_back(
        {"pairs an axis", share_text(rope, frequencies),
         std::visit([](const auto& map) { return order_words(map); }, rope.recipe.axes)});
  }
  add_scales(rows, frequencies);
  add_context(rows, rope, context_in_use);
  if (!rope.layers.empty()) {
    rows.push_back({"layers", ranges(rope.layers),
                    count_of(static_cast<std::int64_t>(rope.layers.size()), "layer") +
                        (rope.layers.size() == 1 ? " uses this rope" : " use this rope")});
  }
  return rows;
}

std::string value_text(const Json& value) {
  constexpr std::size_t kShort = 8;
  if (value.is_null()) return "not set";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return number(value.get<double>());
  if (!value.is_array()) return value.dump();
  if (value.empty()) return "none";
  const bool numbers = value.front().is_number();
  if (!numbers || value.size() <= kShort) {
    std::vector<std::string> parts;
    for (const Json& element : value) parts.push_back(value_text(element));
    return join(parts, " ");
  }
  const auto list = value.get<std::vector<double>>();
  const auto [low, high] = std::minmax_element(list.begin(), list.end());
  return fmt::format("{} numbers from {} to {}", list.size(), number(*low), number(*high));
}

std::int64_t turning_point(const Recipe& recipe) {
  if (const auto* s = std::get_if<DynamicNtk>(&recipe.scaling)) return s->original_context;
  if (const auto* s = std::get_if<LongRope>(&recipe.scaling)) return s->original_context;
  if (const auto* s = std::get_if<YarnWalkthrough>(&recipe.scaling)) return s->original_context;
  return 0;
}

}  // namespace rotary::cli
