// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What a lab measured: results.json.
///
///   {"lab": "length", "machine": "NVIDIA H200", "commit": "1a94890", "settings": {...},
///    "rows": [
///     {"variant": "rope", "seed": 0, "at": {"length": 1024}, "metric": "perplexity",
///      "value": 21.5},
///     {"variant": "learned", "seed": 0, "at": {"length": 1024}, "metric": "perplexity",
///      "value": null, "note": "beyond its table"}]}
///
/// `settings` holds everything that decides the numbers: sizes, data, steps. A run that failed is a
/// row with the metric "failed" and its message as the note. `commit` lists the commits of all
/// rows; a row has its own ("commit"), except in files from before rows had it.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"

namespace rotary::roformer::lab {

/// Coordinates of a number: {"length": 1024}.
using Coordinates = std::map<std::string, double>;

inline constexpr std::string_view kFailed = "failed";

struct Row {
  std::string variant{};
  std::int64_t seed = 0;
  Coordinates at{};
  std::string metric{};
  /// NaN where there is none; `note` then says why.
  double value = std::numeric_limits<double>::quiet_NaN();
  std::string note{};
  /// Of the program that made it; empty if that is not known.
  std::string commit{};

  bool has_value() const noexcept { return std::isfinite(value); }
};

struct Results {
  std::string lab{};
  std::string machine{};
  std::string commit{};
  internal::Json settings = internal::Json::object();
  /// In the order of the lab's units.
  std::vector<Row> rows{};
};

std::string to_json(const Results& results);
/// Throws IoError that names the file and the key.
Results read_results(const std::filesystem::path& path);
/// Replaces the file atomically. Throws IoError.
void write_results(const std::filesystem::path& path, const Results& results);
/// Replaces a file atomically by a text or by bytes. Throws IoError.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

// ---- Reading the rows ---------------------------------------------------------------------------

/// Mean and spread over seeds.
struct Summary {
  /// Seeds with a number.
  std::int64_t count = 0;
  double mean = 0.0;
  /// Standard deviation (of a sample); 0 for one seed.
  double spread = 0.0;
};

/// The rows of a variant, metric and coordinates, over seeds; none if no row has a value.
std::optional<Summary> summarize(const Results& results, std::string_view variant,
                                 std::string_view metric, const Coordinates& at = {});
/// The note of the first such row without a value; empty if there is none.
std::string note_of(const Results& results, std::string_view variant, std::string_view metric,
                    const Coordinates& at = {});

/// In the order of the rows, each once; only those with a row of the metric unless it is empty.
std::vector<std::string> variants_of(const Results& results, std::string_view metric = {});
/// Values of a coordinate among the rows of a metric, ascending.
std::vector<double> values_of(const Results& results, std::string_view metric,
                              const std::string& coordinate);

}  // namespace rotary::roformer::lab
