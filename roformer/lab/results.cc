// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/results.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "io/json_file.h"
#include "io/pending_file.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

Json row_json(const Row& row) {
  Json at = Json::object();
  for (const auto& [name, value] : row.at) {
    constexpr double kWhole = 9007199254740992.0;  // 2^53
    const bool whole = std::abs(value) <= kWhole && std::trunc(value) == value;
    at[name] = whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  }
  Json json = {{"variant", row.variant},
               {"seed", row.seed},
               {"at", at},
               {"metric", row.metric},
               {"value", row.has_value() ? Json(row.value) : Json(nullptr)}};
  if (!row.note.empty()) json["note"] = row.note;
  if (!row.commit.empty()) json["commit"] = row.commit;
  return json;
}

Row read_row(const Json& json) {
  Row row{.variant = json.at("variant").as_string(),
          .seed = json.at("seed").as_int64(),
          .at = {},
          .metric = json.at("metric").as_string()};
  for (const auto& [name, value] : json.at("at").members()) row.at[name] = value.as_double();
  if (const Json& value = json.at("value"); !value.is_null()) row.value = value.as_double();
  if (const Json* note = json.find("note")) row.note = note->as_string();
  if (const Json* commit = json.find("commit")) row.commit = commit->as_string();
  return row;
}

bool matches(const Row& row, std::string_view variant, std::string_view metric,
             const Coordinates& at) {
  return row.variant == variant && row.metric == metric && row.at == at;
}

}  // namespace

std::string to_json(const Results& results) {
  const Json head = {{"lab", results.lab},
                     {"machine", results.machine},
                     {"commit", results.commit},
                     {"settings", results.settings}};
  std::string text = head.dump();
  text.pop_back();
  text += ",\n\"rows\": [";
  // A line for each row, so that files can be compared.
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + row_json(results.rows[i]).dump();
  }
  return text + "\n]}\n";
}

Results read_results(const std::filesystem::path& path) {
  const Json json = internal::read_json_file(path);
  Results results;
  try {
    results.lab = json.at("lab").as_string();
    results.machine = json.at("machine").as_string();
    results.commit = json.at("commit").as_string();
    results.settings = json.at("settings");
    for (const Json& row : json.at("rows").elements()) results.rows.push_back(read_row(row));
  } catch (const std::invalid_argument& error) {
    throw IoError(path.string(), IoError::kNoOffset,
                  "not the results of a lab: " + std::string(error.what()));
  }
  return results;
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  internal::PendingFile file(path);
  file.append(bytes.data(), bytes.size());
  file.commit();
}

void write_results(const std::filesystem::path& path, const Results& results) {
  write_whole_file(path, to_json(results));
}

std::optional<Summary> summarize(const Results& results, std::string_view variant,
                                 std::string_view metric, const Coordinates& at) {
  std::vector<double> values;
  for (const Row& row : results.rows) {
    if (row.has_value() && matches(row, variant, metric, at)) values.push_back(row.value);
  }
  if (values.empty()) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  Summary summary{.count = static_cast<std::int64_t>(values.size())};
  for (const double value : values) summary.mean += value / count;
  for (const double value : values) {
    summary.spread += (value - summary.mean) * (value - summary.mean);
  }
  summary.spread = values.size() > 1 ? std::sqrt(summary.spread / (count - 1)) : 0.0;
  return summary;
}

std::string note_of(const Results& results, std::string_view variant, std::string_view metric,
                    const Coordinates& at) {
  for (const Row& row : results.rows) {
    if (!row.has_value() && matches(row, variant, metric, at)) return row.note;
  }
  return {};
}

std::vector<std::string> variants_of(const Results& results, std::string_view metric) {
  std::vector<std::string> variants;
  for (const Row& row : results.rows) {
    if (!metric.empty() && row.metric != metric) continue;
    if (std::ranges::find(variants, row.variant) == variants.end()) variants.push_back(row.variant);
  }
  return variants;
}

std::vector<double> values_of(const Results& results, std::string_view metric,
                              const std::string& coordinate) {
  std::set<double> values;
  for (const Row& row : results.rows) {
    if (row.metric != metric) continue;
    if (const auto at = row.at.find(coordinate); at != row.at.end()) values.insert(at->second);
  }
  return {values.begin(), values.end()};
}

}  // namespace rotary::roformer::lab
