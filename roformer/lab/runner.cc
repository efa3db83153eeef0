// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/runner.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <fmt/core.h>
#include <ftw.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "roformer/lab/machine.h"
#include "roformer/lab/settings.h"
#include "roformer/train/run_lock.h"
#include "support/message.h"
#include "support/nearest.h"

namespace rotary::roformer::lab {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using Clock = std::chrono::steady_clock;

bool is_row_of(const Row& row, const Unit& unit) {
  return row.variant == unit.variant && row.seed == unit.seed;
}

/// "rope, seed 0"
std::string label_of(const Unit& unit) {
  return fmt::format("{}, seed {}", unit.variant, unit.seed);
}

/// A folder name for a variant: letters, digits, '.', '-' and '_' stay.
std::string folder_name(const Unit& unit) {
  std::string name = unit.variant;
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '.' || letter == '-';
    if (!plain) letter = '_';
  }
  return fmt::format("{}-{}", name, unit.seed);
}

std::string duration_text(double seconds) {
  if (!(seconds < 1e8)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void check_variants(const std::vector<Unit>& units, const std::vector<std::string>& wanted) {
  std::vector<std::string_view> known;
  for (const Unit& unit : units) known.push_back(unit.variant);
  for (const std::string& variant : wanted) {
    const LabOptions only{.variants = {variant}};
    if (std::ranges::any_of(units, [&](const Unit& u) { return is_wanted(u, only); })) continue;
    const std::string_view near = internal::nearest(variant, known);
    internal::reject("[lab] --variants: no variant ", variant,
                     near.empty() ? "" : internal::concat("; perhaps ", near));
  }
}

/// Entries of the settings that only units decide which run again.
std::vector<std::string> entries_of_reruns(const std::vector<Unit>& units,
                                           const LabOptions& options) {
  const auto entry_of_unit = [](const Unit& unit) {
    return unit.entry.empty() ? unit.variant : unit.entry;
  };
  std::vector<std::string> entries;
  for (const Unit& unit : units) {
    const std::string entry = entry_of_unit(unit);
    if (std::ranges::all_of(units, [&](const Unit& other) {
          return entry_of_unit(other) != entry || is_wanted(other, options);
        })) {
      entries.push_back(entry);
    }
  }
  return entries;
}

/// Keys of the settings (Unit::setting) that decide nothing but units which run again. Rows of
/// units that the lab does not have now may be of any key.
std::set<std::string> settings_of_reruns(const std::vector<Unit>& units, const Results& results,
                                         const LabOptions& options) {
  std::set<std::string> keys;
  const bool only_known = std::ranges::all_of(results.rows, [&](const Row& row) {
    return is_wanted({.variant = row.variant}, options) ||
           std::ranges::any_of(units, [&](const Unit& u) { return u.variant == row.variant; });
  });
  if (!only_known) return keys;
  for (const Unit& unit : units) keys.insert(unit.setting);
  for (const Unit& unit : units) {
    if (!is_wanted(unit, options)) keys.erase(unit.setting);
  }
  keys.erase("");
  return keys;
}

/// The results of the folder; new ones if there are none.
Results open_results(std::string_view name, const Lab& lab, const std::vector<Unit>& units,
                     const LabOptions& options) {
  const fs::path path = options.folder / "results.json";
  const std::string machine = machine_name(options.device);
  const std::string commit = commit_name();
  if (!fs::exists(path)) {
    return {.lab = std::string(name),
            .machine = machine,
            .commit = commit,
            .settings = lab.settings(),
            .rows = {}};
  }
  Results results = read_results(path);
  const auto refuse = [&path](const std::string& what) {
    throw OtherLab(
        fmt::format("{} holds other results ({}): choose another folder", path.string(), what));
  };
  if (results.lab != name) refuse(fmt::format("lab: {} there, {} here", results.lab, name));
  if (results.machine != machine) {
    refuse(fmt::format("machine: {} there, {} here", results.machine, machine));
  }
  Json settings = results.settings;
  if (options.rerun) {
    settings = with_entries_of(settings, lab.settings(), entries_of_reruns(units, options));
    for (const std::string& key : settings_of_reruns(units, results, options)) {
      settings[key] = lab.settings().at(key);
    }
  }
  if (std::string other = difference(settings, lab.settings()); !other.empty()) refuse(other);
  results.settings = lab.settings();
  // All commits that have made rows are named.
  if (results.commit.find(commit) == std::string::npos) results.commit += ", " + commit;
  return results;
}

/// The state that the threads of a run share.
class Board {
 public:
  Board(Results results, std::vector<Unit> all, std::vector<std::size_t> todo,
        const LabOptions& options, const LabEvents& events)
      : results_(std::move(results)),
        all_(std::move(all)),
        todo_(std::move(todo)),
        shares_(todo_.size(), 0.0),
        options_(options),
        events_(events) {}

  bool stop() {
    const std::lock_guard lock(mutex_);
    return stop_locked();
  }

  /// The next unit; none at the end, nor where the next one has another `alone`.
  std::optional<std::size_t> next(bool alone) {
    const std::lock_guard lock(mutex_);
    if (next_ == todo_.size() || unit(next_).alone != alone || stop_locked()) return std::nullopt;
    return next_++;
  }
  const Unit& unit(std::size_t job) const { return all_[todo_[job]]; }

  void progress(std::size_t job, double share) {
    const std::lock_guard lock(mutex_);
    shares_[job] = std::clamp(share, shares_[job], 1.0);
    show();
  }

  void finish(std::size_t job, std::vector<Row> rows, double seconds) {
    const std::lock_guard lock(mutex_);
    std::string line = fmt::format("{}: {}", label_of(unit(job)), duration_text(seconds));
    for (const Row& row : rows) {
      if (row.metric == kFailed) line += ", failed: " + row.note;
    }
    for (Row& row : rows) row.commit = commit_name();
    std::erase_if(results_.rows, [&](const Row& row) { return is_row_of(row, unit(job)); });
    std::ranges::move(rows, std::back_inserter(results_.rows));
    sort_rows();
    write_results(options_.folder / "results.json", results_);
    shares_[job] = 1.0;
    ++done_;
    if (events_.say) events_.say(line);
    show();
  }

  /// An error outside the units, such as a full disk: it ends the run.
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    stopped_ = true;
  }
  void set_stopped() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  /// After all threads: false if stopped.
  bool end() {
    if (error_) std::rethrow_exception(error_);
    return done_ == static_cast<std::int64_t>(todo_.size());
  }

 private:
  bool stop_locked() {
    stopped_ = stopped_ || (events_.stop && events_.stop());
    return stopped_;
  }

  /// In the order of the lab's units, whatever the order in which they ended; then the rest.
  void sort_rows() {
    const auto index_of = [this](const Row& row) {
      return std::ranges::find_if(all_, [&](const Unit& u) { return is_row_of(row, u); }) -
             all_.begin();
    };
    std::ranges::stable_sort(results_.rows, {}, index_of);
  }

  void show() {
    if (!events_.show) return;
    double done = 0.0;
    double total = 0.0;
    for (std::size_t job = 0; job < todo_.size(); ++job) {
      done += shares_[job] * unit(job).cost;
      total += unit(job).cost;
    }
    const double share = total > 0.0 ? done / total : 1.0;
    const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
    std::string text = fmt::format("{} of {} units, {:.0f} %", done_, todo_.size(), 100 * share);
    if (share > 0.0) {
      text += fmt::format(", {} left", duration_text(elapsed / share * (1.0 - share)));
    }
    events_.show(text);
  }

  std::mutex mutex_;
  Results results_;
  std::vector<Unit> all_;
  /// Indices into all_.
  std::vector<std::size_t> todo_;
  std::vector<double> shares_;
  const LabOptions& options_;
  const LabEvents& events_;
  std::size_t next_ = 0;
  std::int64_t done_ = 0;
  bool stopped_ = false;
  std::exception_ptr error_;
  Clock::time_point began_ = Clock::now();
};

std::string message_of(const std::exception& error) {
  // PyTorch's errors have a backtrace.
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

/// With everything in it; links are not followed, errors ignored. Not remove_all(), for the reason
/// in roformer/checkpoint/folder.h.
void remove_tree(const fs::path& folder) noexcept {
  const auto remove = [](const char* path, const struct stat*, int, struct FTW*) {
    return std::remove(path);
  };
  ::nftw(folder.c_str(), remove, /*descriptors=*/16, FTW_DEPTH | FTW_PHYS);
}

/// Removes rows and checkpoints of the units that are to run again, of seeds that are not asked for
/// now, too. The file is written at once: when the run is continued, it is without them.
void drop_wanted(const std::vector<Unit>& units, const LabOptions& options, Results& results) {
  std::erase_if(results.rows,
                [&](const Row& row) { return is_wanted({.variant = row.variant}, options); });
  for (const Unit& unit : units) {
    if (is_wanted(unit, options)) remove_tree(options.folder / "runs" / folder_name(unit));
  }
  write_results(options.folder / "results.json", results);
}

/// With its number: "cuda" is the current GPU.
c10::Device numbered(c10::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

void run_unit(Lab& lab, Board& board, std::size_t job, const LabOptions& options) {
  const Unit& unit = board.unit(job);
  const UnitRun run{.unit = unit,
                    .device = numbered(options.device),
                    .graphs = options.graphs,
                    .folder = options.folder / "runs" / folder_name(unit),
                    .stop = [&board] { return board.stop(); },
                    .progress = [&board, job](double share) { board.progress(job, share); }};
  const auto began = Clock::now();
  std::vector<Row> rows;
  try {
    rows = lab.run(run);
  } catch (const Stopped&) {
    return board.set_stopped();
  } catch (const std::exception& error) {
    rows = {run.missing(std::string(kFailed), message_of(error))};
  }
  board.finish(job, std::move(rows), std::chrono::duration<double>(Clock::now() - began).count());
  remove_tree(run.folder);
}

/// Runs units that are `alone`, or the others; on a GPU in a stream of this thread's own, as the
/// default stream has no CUDA graphs.
void run_units(Lab& lab, Board& board, const LabOptions& options, bool alone) {
  try {
    std::optional<c10::StreamGuard> stream;
    if (!options.device.is_cpu()) {
      const c10::impl::VirtualGuardImpl device(options.device.type());
      stream.emplace(device.getStreamFromGlobalPool(options.device));
    }
    while (const auto job = board.next(alone)) run_unit(lab, board, *job, options);
  } catch (...) {
    board.fail(std::current_exception());
  }
}

}  // namespace

bool run_lab(std::string_view name, Lab& lab, const LabOptions& options, const LabEvents& events) {
  const RunLock lock(options.folder);
  std::vector<Unit> all = lab.units();
  check_variants(all, options.variants);
  Results results = open_results(name, lab, all, options);
  if (options.retry) {
    std::erase_if(results.rows, [](const Row& row) { return row.metric == kFailed; });
  }
  if (options.rerun) drop_wanted(all, options, results);
  std::vector<std::size_t> todo;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool done =
        std::ranges::any_of(results.rows, [&](const Row& row) { return is_row_of(row, all[i]); });
    if (is_wanted(all[i], options) && !done) todo.push_back(i);
  }
  std::stable_partition(todo.begin(), todo.end(), [&all](std::size_t i) { return all[i].alone; });
  const bool cuda = options.device.is_cuda();
  const std::int64_t jobs = cuda ? (options.jobs > 0 ? options.jobs : lab.jobs()) : 1;
  const auto threads =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(jobs, 1)), todo.size());
  Board board(std::move(results), std::move(all), std::move(todo), options, events);
  if (!options.device.is_cpu()) {
    // The lab's data are there before other streams read them.
    const c10::impl::VirtualGuardImpl guard(options.device.type());
    guard.synchronizeDevice(numbered(options.device).index());
  }
  run_units(lab, board, options, /*alone=*/true);
  if (threads <= 1) {
    run_units(lab, board, options, /*alone=*/false);
    return board.end();
  }
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&] { run_units(lab, board, options, /*alone=*/false); });
  }
  for (std::thread& worker : workers) worker.join();
  return board.end();
}

}  // namespace rotary::roformer::lab
