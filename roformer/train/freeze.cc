// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/freeze.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "roformer/train/step.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

constexpr std::string_view kLayerPrefix = "layer.";

struct LayerNumbers {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Of "layer.3" and "layer.0-5"; none for other texts.
std::optional<LayerNumbers> layers_of(std::string_view pattern) {
  if (!pattern.starts_with(kLayerPrefix)) return std::nullopt;
  pattern.remove_prefix(kLayerPrefix.size());
  const auto number = [](std::string_view text, std::int64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size() && out >= 0;
  };
  LayerNumbers numbers;
  const std::size_t dash = pattern.find('-');
  if (!number(pattern.substr(0, dash), numbers.first)) return std::nullopt;
  numbers.last = numbers.first;
  if (dash != std::string_view::npos && !number(pattern.substr(dash + 1), numbers.last))
    return std::nullopt;
  return numbers;
}

/// Whether `part` stands in the name between dots or at its ends.
bool has_part(std::string_view name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string_view::npos;
       at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

bool matches(const std::string& parameter, const std::string& pattern) {
  const std::string layer = layer_of(parameter);
  if (const auto wanted = layers_of(pattern)) {
    const auto own = layers_of(layer);
    return own && own->first >= wanted->first && own->first <= wanted->last;
  }
  return layer == pattern || has_part(parameter, pattern);
}

std::int64_t num_layers(const ParameterStore& store) {
  std::int64_t count = 0;
  for (const auto& segment : store.segments()) {
    if (const auto own = layers_of(layer_of(segment.name))) count = std::max(count, own->first + 1);
  }
  return count;
}

}  // namespace

std::vector<bool> frozen_segments(const ParameterStore& store,
                                  const std::vector<std::string>& patterns) {
  const auto& segments = store.segments();
  std::vector<bool> frozen(segments.size(), false);
  for (const std::string& pattern : patterns) {
    const auto numbers = layers_of(pattern);
    const std::int64_t count = num_layers(store);
    if (numbers && (numbers->first > numbers->last || numbers->last >= count)) {
      internal::reject("freeze must name layers from 0 to ", count - 1, ", got ",
                       internal::quote(pattern));
    }
    bool found = false;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      if (pattern.empty() || !matches(segments[i].name, pattern)) continue;
      frozen[i] = true;
      found = true;
    }
    if (!found) {
      internal::reject("freeze must name layers or parameters of the model, got ",
                       internal::quote(pattern));
    }
  }
  if (std::ranges::find(frozen, false) == frozen.end()) {
    internal::reject("freeze must leave parameters to train, got all of the model");
  }
  return frozen;
}

FlatRanges ranges_of(const ParameterStore& store, const std::vector<bool>& chosen, bool value,
                     std::int64_t begin, std::int64_t end) {
  FlatRanges ranges;
  const auto& segments = store.segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (chosen[i] != value) continue;
    // With the padding behind it.
    const std::int64_t next = i + 1 < segments.size() ? segments[i + 1].offset : store.size();
    const std::int64_t first = std::max(segments[i].offset, begin);
    const std::int64_t last = std::min(next, end);
    if (first >= last) continue;
    if (!ranges.empty() && ranges.back().second == first) {
      ranges.back().second = last;
    } else {
      ranges.emplace_back(first, last);
    }
  }
  return ranges;
}

}  // namespace rotary::roformer
