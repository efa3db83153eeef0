// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `learned`: rotations that layers learn (rope_learn) against fixed ones, in a language
// model: quality at and beyond the trained length, and how far the frequencies move.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include "roformer/lab/labs.h"
#include "roformer/lab/report.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_data.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"
#include "roformer/model/learned_change.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

constexpr std::int64_t kLearnedJobs = 2;

Json learned_defaults(bool quick) {
  Json json = {{"corpus", default_corpus(quick)},
               {"rows", quick ? 8 : 32},
               {"train_length", quick ? 64 : 512},
               {"test_lengths", quick ? Json::Array{64, 128, 256} : Json::Array{512, 1024, 2048}},
               {"training", quick ? training_defaults(300, 2e-3) : training_defaults(2000, 1e-3)},
               {"model", default_model(quick)}};
  Json variants = Json::array();
  variants.push_back(Json{{"name", "fixed"}, {"rope_learn", "none"}, {"seeds", quick ? 2 : 3}});
  for (const RopeLearn learn : {RopeLearn::kGain, RopeLearn::kFrequencies, RopeLearn::kPerHead,
                                RopeLearn::kReceptiveField}) {
    variants.push_back(
        Json{{"name", name_of(learn)}, {"rope_learn", name_of(learn)}, {"seeds", quick ? 1 : 2}});
  }
  json["encodings"] = std::move(variants);
  return json;
}

/// Mean over heads and pairs of |f - f0| * length, in turns: by how much the rotation over a row
/// has changed. Texts have one axis.
double turns_of(const LearnedLayer& layer, std::int64_t length) {
  double sum = 0.0;
  for (const std::vector<double>& head : layer.learned) {
    for (std::size_t i = 0; i < head.size(); ++i) sum += std::abs(head[i] - layer.base[i]);
  }
  const auto count = static_cast<double>(layer.learned.size() * layer.base.size());
  return sum / count * static_cast<double>(length) / (2.0 * std::numbers::pi);
}

void add_changes(const ModelImpl& model, std::int64_t length, const UnitRun& run,
                 std::vector<Row>& rows) {
  const std::vector<LearnedLayer> layers = learned_layers(model.roformer());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto layer = static_cast<double>(l);
    const LayerChange change = change_of(layers[l]);
    rows.push_back(run.row("mean_change", change.mean, {{"layer", layer}}));
    rows.push_back(run.row("max_change", change.max, {{"layer", layer}}));
    rows.push_back(run.row("turns", turns_of(layers[l], length), {{"layer", layer}}));
    for (std::size_t i = 0; i < layers[l].pairs(); ++i) {
      rows.push_back(run.row("ratio", mean_ratio(layers[l], i),
                             {{"layer", layer}, {"pair", static_cast<double>(i)}}));
    }
  }
}

class LearnedLab final : public Lab {
 public:
  explicit LearnedLab(const LabOptions& options)
      : options_(options),
        settings_(merge_settings(learned_defaults(options.quick), options.config)),
        test_lengths_(settings_.integers("test_lengths")),
        data_(load_text(settings_.at("corpus"), options, std::ranges::max(test_lengths_))) {
    for (const Json& entry : settings_.list("encodings")) config_of(entry);
  }

  const Json& settings() const override { return settings_.json(); }
  std::vector<Unit> units() const override {
    return units_of(settings_.list("encodings"), options_.seeds);
  }
  std::int64_t jobs() const override { return kLearnedJobs; }

  std::vector<Row> run(const UnitRun& run) override {
    const Json entry = entry_of(settings_.list("encodings"), run.unit.variant);
    const Config config = config_of(entry);
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const Model model = make_seeded_model(config, seed, run.device);
    const std::int64_t count = settings_.integer("rows", 1);
    const std::int64_t length = settings_.integer("train_length", 2);
    TrainPlan plan = plan_of(Settings(settings_.at("training")), run.device);
    plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
    const Trained trained = train_model(
        *model, plan,
        [&](std::int64_t step) { return causal_batch(data_, count, length, seed, step); }, run);
    std::vector<Row> rows;
    add_curve(trained, run, rows);
    rows.push_back(run.row("parameters", static_cast<double>(num_parameters(*model))));
    rows.push_back(run.row("tokens_per_second", trained.tokens_per_second));
    for (const std::int64_t judged : test_lengths_) {
      rows.push_back(run.row("perplexity", perplexity_at(*model, data_, judged, Windows::kDisjoint),
                             {{"length", static_cast<double>(judged)}}));
    }
    add_changes(*model, length, run, rows);
    return rows;
  }

 private:
  Config config_of(const Json& entry) const {
    Config config = model_config({settings_.at("model"), entry}, Task::kCausalLm, "learned");
    config.vocab_size = data_.vocab_size;
    check_config(config);
    encoding_rate_of(entry, settings_.at("model"));  // a wrong one is found before the first unit
    return config;
  }

  LabOptions options_;
  Settings settings_;
  std::vector<std::int64_t> test_lengths_;
  TextData data_;
};

/// A line for each layer: the ratio of learned and first frequency by pair, in percent.
std::vector<Series> ratios_of(const Results& results, const std::string& variant) {
  std::vector<Series> all;
  for (const double layer : values_of(results, "ratio", "layer")) {
    TableOptions options{.factor = 100.0, .at = {{"layer", layer}}, .variants = {variant}};
    for (Series& series : series_over(results, "ratio", "pair", options)) {
      series.label = fmt::format("layer {:.0f}", layer);
      all.push_back(std::move(series));
    }
  }
  return all;
}

}  // namespace

std::unique_ptr<Lab> make_learned_lab(const LabOptions& options) {
  return std::make_unique<LearnedLab>(options);
}

void report_learned(const Results& results, Report& report) {
  report.heading("Perplexity by length");
  report.text(fmt::format("Trained on {} tokens; every length predicts the same held-out tokens.",
                          results.settings.at("train_length").dump()));
  report.table(table_over(results, "perplexity", "length", {.digits = 3}));
  report.heading("Training");
  report.table(table_of(
      results,
      std::array<MetricColumn, 1>{
          {{.metric = "parameters", .head = "parameters", .digits = 0, .same_for_seeds = true}}}));
  report.chart("loss", {.title = "Training loss",
                        .x_label = "step",
                        .y_label = "nats per token",
                        .x_scale = Scale::kLog,
                        .series = series_over(results, "training_loss", "step")});
  report.heading("Change of the frequencies by layer, %");
  report.text(
      "Mean over pairs and heads of |f - f0| / |f0|; f0 is the frequency before training. Slow "
      "pairs "
      "decide it.");
  report.table(table_over(results, "mean_change", "layer", {.digits = 2, .factor = 100.0}));
  report.text("The largest of a layer:");
  report.table(table_over(results, "max_change", "layer", {.digits = 1, .factor = 100.0}));
  report.chart("change",
               {.title = "Mean change of the frequencies",
                .x_label = "layer",
                .y_label = "%",
                .series = series_over(results, "mean_change", "layer", {.factor = 100.0})});
  for (const std::string& variant : variants_of(results, "ratio")) {
    report.chart("ratio_" + variant, {.title = variant + ": learned over first frequency, minus 1",
                                      .x_label = "pair, from the highest frequency",
                                      .y_label = "%",
                                      .series = ratios_of(results, variant)});
  }
  report.text(
      "No paper that the documents name gives such a table for text. RoPE-Mixed (arXiv:2403.13298) "
      "learns frequencies per head for images, where they are directions, too: see the lab image.");
}

}  // namespace rotary::roformer::lab
