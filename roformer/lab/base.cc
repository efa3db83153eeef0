// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `base`: bases of the frequencies and partial rotations. Trained: perplexity at and beyond
// the training length, and retrieval by distance. Exact: rotary/analysis.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "roformer/lab/exact_bounds.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"
#include "roformer/model/rope_config.h"
#include "rotary/analysis.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

constexpr const char* kExact = "exact";

Json base_rotations(bool quick) {
  Json all = Json::array();
  for (const double base : {1e4, 1e2, 1e3, 1e5, 1e6}) {
    all.push_back({{"name", fmt::format("base {:g}", base)},
                   {"rope_theta", base},
                   {"seeds", base == 1e4 && !quick ? 3 : 1}});
  }
  for (const double share : {0.75, 0.5, 0.25}) {
    all.push_back({{"name", fmt::format("partial {:g}", share)},
                   {"partial_rotary_factor", share},
                   {"seeds", 1}});
  }
  for (const double share : {0.75, 0.5, 0.25}) {
    const Json rope = {{"rope_type", "proportional"}, {"partial_rotary_factor", share}};
    all.push_back({{"name", fmt::format("proportional {:g}", share)},
                   {"rope_parameters", rope},
                   {"seeds", 1}});
  }
  all.push_back({{"name", "none"}, {"position_encoding", "none"}, {"seeds", 1}});
  return all;
}

Json base_defaults(bool quick) {
  Json settings = training_defaults(quick ? 100 : 1200, quick ? 3e-3 : 6e-4);
  settings["train_length"] = quick ? 64 : 512;
  settings["rows"] = quick ? 16 : 32;
  settings["lengths"] =
      quick ? std::vector{32, 64, 128, 256} : std::vector{128, 256, 512, 1024, 2048, 4096};
  settings["distances"] = quick ? std::vector{8, 16, 32, 60, 120, 250}
                                : std::vector{16, 64, 128, 256, 500, 1000, 2000, 4000};
  settings["retrieval_rows"] = quick ? 24 : 192;
  settings["needle_share"] = 0.5;
  settings["needle_pairs"] = quick ? 4 : 16;
  settings["model"] = text_model(quick);
  settings["corpus"] = default_corpus(quick);
  if (!quick) settings["corpus"]["held_out_texts"] = 12;
  settings["rotations"] = base_rotations(quick);
  settings["exact_head_dims"] = quick ? std::vector{128} : std::vector{64, 128};
  settings["exact_contexts"] =
      quick ? std::vector{1024, 2000, 4000}
            : std::vector{1024, 2000, 4000, 8000, 16000, 32000, 64000, 128000};
  settings["exact"] = {{"models", Json::Array{}}, {"recipes", Json::Array{}}};
  return settings;
}

/// Without recipes and models of one's own the setting is not in results.json.
Json base_settings(const LabOptions& options) {
  Json settings = merge_settings(base_defaults(options.quick), options.config);
  const Json& exact = settings.at("exact");
  const bool unused = std::ranges::all_of(
      exact.members(), [](const auto& one) { return one.value.is_array() && one.value.empty(); });
  if (unused) settings.take("exact");
  return settings;
}

class BaseLab final : public Lab {
 public:
  explicit BaseLab(const LabOptions& options)
      : options_(options),
        settings_(base_settings(options)),
        lengths_(settings_.integers("lengths")),
        distances_(settings_.integers("distances")),
        train_length_(settings_.integer("train_length", 2)),
        entries_(settings_.list("rotations")) {
    if (trains()) {
      text_ = load_text(settings_.at("corpus"), options, std::ranges::max(lengths_));
    }
    for (const Json& entry : entries_) config_of(entry);
    if (settings_.json().contains("exact")) {
      exact_ =
          exact_rotations(settings_.at("exact"), settings_.integers("exact_contexts"), options);
    }
  }

  const Json& settings() const override { return settings_.json(); }

  std::vector<Unit> units() const override {
    std::vector<Unit> all = units_of(entries_, options_.seeds);
    all.push_back({.variant = kExact, .cost = 0.2});
    for (const ExactRotation& one : exact_) all.push_back({.variant = one.variant, .cost = 0.1});
    return all;
  }

  std::int64_t jobs() const override { return 2; }

  std::vector<Row> run(const UnitRun& run) override {
    for (const ExactRotation& one : exact_) {
      if (one.variant == run.unit.variant) return exact_rows(one, run);
    }
    return run.unit.variant == kExact ? run_exact(run) : run_trained(run);
  }

 private:
  /// Whether a unit that is asked for needs a text: the exact part does not.
  bool trains() const {
    return std::ranges::any_of(units_of(entries_, options_.seeds),
                               [&](const Unit& unit) { return is_wanted(unit, options_); });
  }

  Config config_of(const Json& entry) const {
    Config config = model_config({settings_.at("model"), entry}, Task::kCausalLm,
                                 "settings of " + entry.at("name").as_string());
    config.vocab_size = text_.vocab_size + kNeedleTokens;
    config.max_position_embeddings = train_length_;
    encoding_rate_of(entry, settings_.at("model"));  // a wrong one is found before the first unit
    return config;
  }

  std::vector<Row> run_trained(const UnitRun& run) {
    const Json& entry = entry_of(entries_, run.unit.variant);
    const Config config = config_of(entry);
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const Model model = make_seeded_model(config, seed, run.device);
    TrainPlan plan = plan_of(settings_, run.device);
    plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
    plan.progress = {0.0, 0.8};
    const NeedleOptions batches{.rows = settings_.integer("rows", 1),
                                .length = train_length_,
                                .share = settings_.number("needle_share"),
                                .pairs = settings_.integer("needle_pairs", 1),
                                .seed = seed};
    const Trained trained = train_model(
        *model, plan, [&](std::int64_t step) { return needle_batch(text_, batches, step); }, run);
    std::vector<Row> rows = {run.row("parameters", static_cast<double>(num_parameters(*model)))};
    add_curve(trained, run, rows);
    for (const std::int64_t length : lengths_) {
      rows.push_back(run.row("perplexity", perplexity_at(*model, text_, length, Windows::kDisjoint),
                             {{"length", static_cast<double>(length)}}));
      if (run.stop && run.stop()) throw Stopped();
    }
    for (const std::int64_t distance : distances_) {
      rows.push_back(run.row("retrieval",
                             retrieval_at(*model, text_, row_length(distance), distance,
                                          settings_.integer("retrieval_rows", 1)),
                             {{"distance", static_cast<double>(distance)}}));
    }
    if (run.unit.seed == 0) add_exact(config, run, rows);
    return rows;
  }

  /// The shortest judged length that holds a pair at this distance.
  std::int64_t row_length(std::int64_t distance) const {
    std::int64_t best = std::ranges::max(lengths_);
    for (const std::int64_t length : lengths_) {
      if (length >= train_length_ && length > distance + 2) best = std::min(best, length);
    }
    return best;
  }

  /// What is exact of the rotation of a trained variant: the critical dimension at the training
  /// length, the first distance with a negative sum of cosines, and that sum by distance.
  void add_exact(const Config& config, const UnitRun& run, std::vector<Row>& rows) const {
    if (!rotates(config)) return;
    const std::int64_t longest = std::ranges::max(lengths_);
    const Frequencies frequencies = layer_ropes(config).ropes.front().make_frequencies();
    rows.push_back(
        run.row("critical_dim", static_cast<double>(critical_dim(frequencies, train_length_))));
    if (const auto first = negative_distance(frequencies, longest)) {
      rows.push_back(run.row("negative_distance", static_cast<double>(*first)));
    } else {
      rows.push_back(run.missing("negative_distance", fmt::format("none up to {}", longest)));
    }
    add_decay(frequencies, longest, {}, run, rows);
  }

  /// By head width: the smallest base that serves a context, proved; the decay with base 10,000.
  std::vector<Row> run_exact(const UnitRun& run) const {
    std::vector<Row> rows;
    for (const std::int64_t width : settings_.integers("exact_head_dims")) {
      for (const std::int64_t context : settings_.integers("exact_contexts")) {
        const BaseBound found = smallest_base({.rotary_dim = width, .theta = 1e4}, context);
        const Coordinates at = {{"head_dim", static_cast<double>(width)},
                                {"context", static_cast<double>(context)}};
        Row row = run.row("smallest_base", found.base, at);
        row.note = found.interval_proof ? "interval proof" : "grid proof";
        rows.push_back(std::move(row));
        rows.push_back(run.row("proved_below", found.lower, at));
        if (run.stop && run.stop()) throw Stopped();
      }
      add_decay(make_frequencies({.rotary_dim = width, .theta = 1e4}),
                std::ranges::max(settings_.integers("exact_contexts")),
                {{"head_dim", static_cast<double>(width)}}, run, rows);
    }
    return rows;
  }

  LabOptions options_;
  Settings settings_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> distances_;
  std::int64_t train_length_;
  std::vector<Json> entries_;
  /// Empty if nothing is trained.
  TextData text_;
  std::vector<ExactRotation> exact_;
};

}  // namespace

std::vector<std::string> missing_base_units(const Results& results) {
  const std::vector<std::string> found = variants_of(results);
  if (std::ranges::find(found, kExact) != found.end()) return {};
  return {kExact};
}

std::unique_ptr<Lab> make_base_lab(const LabOptions& options) {
  return std::make_unique<BaseLab>(options);
}

}  // namespace rotary::roformer::lab
