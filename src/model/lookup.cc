// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/lookup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/message.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// A key and its aliases, most common first.
std::vector<std::string_view> aliases(std::string_view key) {
  static const std::map<std::string_view, std::vector<std::string_view>> kAliases = {
      {"hidden_size", {"hidden_size", "n_embd", "d_model", "dim"}},
      {"num_attention_heads", {"num_attention_heads", "num_heads", "n_head", "n_heads"}},
      {"max_position_embeddings",
       {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_sequence_length",
        "seq_length"}},
      {"rope_theta",
       {"rope_theta", "rotary_emb_base", "rotary_embedding_base", "rope_base",
        "memory_attention_rope_theta"}},
      {"partial_rotary_factor",
       {"partial_rotary_factor", "rotary_pct", "rotary_emb_fraction", "rotary_percentage",
        "rope_pct"}},
      {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
  };
  const auto found = kAliases.find(key);
  return found == kAliases.end() ? std::vector<std::string_view>{key} : found->second;
}

const Json* member(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

}  // namespace

double as_number(const Json& value, std::string_view key, const std::string& source) {
  if (!value.is_number() || !std::isfinite(value.as_double())) {
    reject("[Model] ", source, ": ", key, " must be a finite number, got ", quote(value.dump()));
  }
  return value.as_double();
}

std::int64_t as_integer(const Json& value, std::string_view key, const std::string& source) {
  const double number = as_number(value, key, source);
  if (number != std::floor(number) || std::fabs(number) > 0x1p53) {
    reject("[Model] ", source, ": ", key, " must be a whole number, got ", quote(value.dump()));
  }
  return static_cast<std::int64_t>(number);
}

std::vector<double> as_numbers(const Json& value, std::string_view key, const std::string& source) {
  if (!value.is_array()) {
    reject("[Model] ", source, ": ", key, " must be a list of numbers, got ", quote(value.dump()));
  }
  std::vector<double> numbers;
  for (const Json& item : value.elements()) numbers.push_back(as_number(item, key, source));
  return numbers;
}

std::vector<std::int64_t> as_integers(const Json& value, std::string_view key,
                                      const std::string& source) {
  if (!value.is_array()) {
    reject("[Model] ", source, ": ", key, " must be a list of whole numbers, got ",
           quote(value.dump()));
  }
  std::vector<std::int64_t> integers;
  for (const Json& item : value.elements()) integers.push_back(as_integer(item, key, source));
  return integers;
}

void note(std::vector<std::string>& lines, const std::string& line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

Found Lookup::in_file(std::string_view key) const {
  for (const std::string_view alias : aliases(key)) {
    if (const Json* value = member(config_, alias)) {
      return {.value = value, .key = std::string(alias), .assumed = false};
    }
  }
  // DBRX has theta and other attention parameters in attn_config.
  if (const Json* attention = member(config_, "attn_config")) {
    if (const Json* value = member(*attention, key)) {
      return {.value = value, .key = concat("attn_config.", key), .assumed = false};
    }
  }
  return {};
}

Found Lookup::find(std::string_view key) const {
  if (Found found = in_file(key)) return found;
  if (const Json* value = member(family_.defaults, key)) {
    return {.value = value, .key = std::string(key), .assumed = true};
  }
  return {};
}

std::optional<double> Lookup::number(std::string_view key,
                                     std::vector<std::string>& assumed) const {
  const Found found = find(key);
  if (!found) return std::nullopt;
  const double value = as_number(*found.value, found.key, source_);
  if (found.assumed) {
    note(assumed,
         concat(key, " = ", value, " (the default of model_type ", quote(model_type_), ")"));
  }
  return value;
}

std::optional<std::int64_t> Lookup::integer(std::string_view key,
                                            std::vector<std::string>& assumed) const {
  const Found found = find(key);
  if (!found) return std::nullopt;
  if (!found.assumed) return as_integer(*found.value, found.key, source_);
  return static_cast<std::int64_t>(*number(key, assumed));
}

std::optional<std::int64_t> Lookup::evaluate(std::string_view rule,
                                             std::vector<std::string>& assumed) const {
  std::vector<std::string> notes;
  std::int64_t result = 1;
  if (rule.starts_with("2*")) {
    result = 2;
    rule.remove_prefix(2);
  }
  bool first = true;
  while (!rule.empty()) {
    const std::size_t slash = std::min(rule.find('/'), rule.size());
    const std::string key(rule.substr(0, slash));
    rule.remove_prefix(std::min(slash + 1, rule.size()));
    const std::optional<std::int64_t> value = integer(key, notes);
    if (!value) return std::nullopt;
    constexpr std::int64_t kMax = std::int64_t{1} << 31;
    if (*value <= 0 || *value > kMax) {
      reject("[Model] ", source_, ": ", key, " must be 1 to ", kMax, ", got ", *value);
    }
    result = first ? result * *value : result / *value;
    first = false;
  }
  for (const std::string& line : notes) note(assumed, line);
  return result;
}

std::int64_t Lookup::head_dim(std::vector<std::string>& assumed) const {
  // Values of the file have precedence over defaults, whatever the rule.
  for (const std::string& rule : family_.head_dim) {
    const std::string key = rule.substr(0, rule.find('/'));
    const bool plain = key.size() == rule.size();
    if (!plain || !in_file(key)) continue;
    return *evaluate(rule, assumed);
  }
  for (const std::string& rule : family_.head_dim) {
    if (const auto width = evaluate(rule, assumed)) return *width;
  }
  std::string wanted;
  for (const std::string& rule : family_.head_dim) wanted += (wanted.empty() ? "" : " or ") + rule;
  reject("[Model] ", source_, ": head_dim cannot be determined, ", wanted, " is missing");
}

}  // namespace rotary::internal
