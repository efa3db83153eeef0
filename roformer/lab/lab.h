// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A lab: an experiment as a list of units, each of a variant and a seed, which return rows.
///
///   class MyLab : public Lab {
///     const internal::Json& settings() const override;
///     std::vector<Unit> units() const override;          // e.g. units_of(encodings, seeds)
///     std::vector<Row> run(const UnitRun& run) override; // trains one model, judges it
///   };
///
/// and a line in labs.cc. The runner (runner.h) calls run() for the units that results.json does
/// not have yet, on a GPU for several at once, and writes the file after each. The report is a
/// function of results.json alone (report.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "roformer/lab/results.h"

namespace rotary::roformer::lab {

class Report;

/// What the command line asks for.
struct LabOptions {
  /// Of results.json, report.md, plots and runs/.
  std::filesystem::path folder{};
  /// Of the corpora and images of the full setting.
  std::filesystem::path data{};
  /// The small setting: a CPU, minutes, bundled data.
  bool quick = false;
  /// Seeds of each variant; 0: as many as the variant's entry says.
  std::int64_t seeds = 0;
  c10::Device device = c10::kCPU;
  /// Changes of the settings (settings.h).
  std::filesystem::path config{};
  /// Only these variants, or those that fit patterns (fnmatch(3): "encoder *"); empty: all.
  std::vector<std::string> variants{};
  /// Units at once, on a GPU; 0: as the lab says.
  std::int64_t jobs = 0;
  /// Steps of training as CUDA graphs, on a GPU: sooner, with the same numbers where kernels sum in
  /// a fixed order.
  bool graphs = true;
  /// Runs units again that failed.
  bool retry = false;
  /// Runs all units of `variants` again, whose entries in the settings may have changed since, and
  /// Unit::setting where all units that it decides are among them: their rows and checkpoints are
  /// removed first.
  bool rerun = false;
};

struct Unit {
  std::string variant{};
  std::int64_t seed = 0;
  /// Expected time, relative to the other units.
  double cost = 1.0;
  /// It measures speed: no other unit runs meanwhile. Such units are the first.
  bool alone = false;
  /// The entry of the settings that decides it; empty: the one named as the variant.
  std::string entry{};
  /// A key of the settings that decides units with this `setting` alone; empty: none.
  std::string setting{};
};

/// The unit was interrupted: it has no rows, and continues next time.
class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("stopped") {}
};

/// A unit that is being run.
struct UnitRun {
  Unit unit{};
  c10::Device device = c10::kCPU;
  /// LabOptions::graphs.
  bool graphs = true;
  /// For checkpoints; created when needed, and removed after the unit.
  std::filesystem::path folder{};
  /// Whether the run is to end: then throw Stopped.
  std::function<bool()> stop{};
  /// Share of the unit that is done, from 0 to 1.
  std::function<void(double share)> progress{};

  /// A row of this unit.
  Row row(std::string metric, double value, Coordinates at = {}) const {
    return {.variant = unit.variant,
            .seed = unit.seed,
            .at = std::move(at),
            .metric = std::move(metric),
            .value = value};
  }
  /// A row without a value, and why.
  Row missing(std::string metric, std::string note, Coordinates at = {}) const {
    Row missing = row(std::move(metric), std::numeric_limits<double>::quiet_NaN(), std::move(at));
    missing.note = std::move(note);
    return missing;
  }
};

class Lab {
 public:
  virtual ~Lab() = default;
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  /// Everything that decides the numbers, except variants and seeds of a run.
  virtual const internal::Json& settings() const = 0;
  /// All units, in the order of the rows. Variants and seeds together are unique.
  virtual std::vector<Unit> units() const = 0;
  /// At least one row. Called by several threads at once on a GPU, each with a CUDA stream of its
  /// own. Depends on the unit, the settings and the data alone. An exception other than Stopped
  /// becomes a row "failed".
  virtual std::vector<Row> run(const UnitRun& run) = 0;
  /// Units at once on a GPU.
  virtual std::int64_t jobs() const { return 1; }

 protected:
  Lab() = default;
};

/// An entry of the list of labs.
struct LabInfo {
  std::string_view name;
  /// One line for the help.
  std::string_view about;
  /// Reads the settings and checks them; reads data. Throws std::invalid_argument, IoError.
  std::unique_ptr<Lab> (*make)(const LabOptions& options);
  /// Adds tables, charts and published figures for the results.
  void (*report)(const Results& results, Report& report);
  /// Variants without rows of which the lists of the settings say nothing, such as units that
  /// measure cost; null: there are no such units.
  std::vector<std::string> (*missing)(const Results& results) = nullptr;
};

/// In the order of docs/lab.md.
const std::vector<LabInfo>& labs();
/// Throws std::invalid_argument with the nearest name.
const LabInfo& find_lab(std::string_view name);

/// For each entry of a list in the settings (name, seeds): that many seeds, or `seeds` if that is
/// not 0; without the key `seeds`, one.
std::vector<Unit> units_of(const std::vector<internal::Json>& entries, std::int64_t seeds);
/// Whether options.variants is empty, or names the unit's variant, perhaps by a pattern.
bool is_wanted(const Unit& unit, const LabOptions& options);
/// The entry with this name. Throws std::invalid_argument if there is none.
const internal::Json& entry_of(const std::vector<internal::Json>& entries, std::string_view name);

}  // namespace rotary::roformer::lab
