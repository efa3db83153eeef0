// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `length`: models trained on short rows, judged on longer ones, for every encoding; what
// each encoding costs; and which learning rate it likes best.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "roformer/lab/cost.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"
#include "roformer/train/trainer.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Before a measurement: kernels are loaded and memory is allocated on first use.
constexpr std::int64_t kWarmUpSteps = 5;
/// Instead of the numbers of a learning rate at which the loss or a gradient did not stay finite.
constexpr const char* kDiverged = "diverged";

/// As encoding_entry(); and where sinusoids, of a root mean square of 0.71, are added to
/// embeddings, those are brought to their size, as in the first Transformer (docs/lab.md, Method).
Json length_entry(const std::string& name, std::string_view encoding, std::int64_t seeds) {
  Json entry = encoding_entry(name, encoding, seeds);
  if (encoding == "sinusoidal") entry["scale_embedding"] = true;
  return entry;
}

/// Those that papers compare: three seeds of each decoder.
constexpr std::array kCompared = {"rope", "alibi", "t5", "none"};
constexpr std::array kOthers = {"learned",        "sinusoidal", "xpos",    "kerple_log",
                                "kerple_power",   "distance",   "shaw",    "nezha",
                                "transformer_xl", "rope+alibi", "rope+t5", "rope+distance"};

Json length_decoders(bool quick) {
  Json all = Json::array();
  for (const char* name : kCompared) all.push_back(encoding_entry(name, name, quick ? 1 : 3));
  for (const char* name : kOthers) all.push_back(length_entry(name, name, 1));
  return all;
}

/// An encoder's variant is "encoder NAME". xPos needs a causal model: scores of later keys would
/// grow with their distance.
Json length_encoders() {
  Json all = Json::array();
  const auto add = [&](std::string_view name) {
    if (name == "xpos") return;
    all.push_back(length_entry("encoder " + std::string(name), name, 1));
  };
  std::ranges::for_each(kCompared, add);
  std::ranges::for_each(kOthers, add);
  return all;
}

Json length_defaults(bool quick) {
  Json settings = training_defaults(quick ? 100 : 800, quick ? 3e-3 : 1e-3);
  settings["train_length"] = quick ? 64 : 512;
  settings["rows"] = quick ? 16 : 32;
  settings["lengths"] = quick ? std::vector{16, 32, 64, 128, 256, 512}
                              : std::vector{128, 256, 512, 1024, 2048, 4096, 8192};
  settings["model"] = text_model(quick);
  settings["mask_rate"] = 0.15;
  // As in the lab `roformer`: with the rate and the warm-up of the decoders an encoder with a
  // learned table or sinusoids stays at the frequencies of tokens.
  settings["encoder_training"] =
      quick ? training_defaults(100, 3e-3) : training_defaults(2500, 7e-4);
  // Decoders of which learning rates are tried, with the steps of the lab: those that papers rank,
  // and the learned table. An empty list names all.
  settings["rates"] = {
      {"decoders", Json::Array{"rope", "alibi", "t5", "none", "learned", "sinusoidal"}},
      {"learning_rates", quick ? Json::Array{} : Json::Array{5e-4, 1e-3, 2e-3}}};
  settings["cost_steps"] = quick ? 5 : 30;
  settings["decode_tokens"] = quick ? 16 : 64;
  settings["corpus"] = default_corpus(quick);
  if (!quick) settings["corpus"]["held_out_texts"] = 12;
  settings["decoders"] = length_decoders(quick);
  settings["encoders"] = length_encoders();
  return settings;
}

/// Names of the decoders that are trained at several learning rates.
std::vector<std::string> decoders_with_rates(const Json& settings) {
  const Json* rates = settings.find("rates");
  if (rates == nullptr || rates->at("learning_rates").empty()) return {};
  const Json& named = rates->at("decoders");
  std::vector<std::string> names;
  for (const Json& name : named.elements()) names.push_back(name.as_string());
  if (!names.empty()) return names;
  for (const Json& entry : settings.at("decoders").elements()) {
    names.push_back(entry.at("name").as_string());
  }
  return names;
}

/// Whether a training ends with finite numbers.
template <typename Train>
bool converges(const Train& train) {
  try {
    train();
    return true;
  } catch (const NotFinite&) {
    return false;
  }
}

class LengthLab final : public Lab {
 public:
  explicit LengthLab(const LabOptions& options)
      : options_(options),
        settings_(merge_settings(length_defaults(options.quick), options.config)),
        lengths_(settings_.integers("lengths")),
        train_length_(settings_.integer("train_length", 2)),
        rows_(settings_.integer("rows", 1)),
        decoders_(settings_.list("decoders")),
        encoders_(settings_.list("encoders")),
        rates_(Settings(settings_.at("rates")).numbers("learning_rates")),
        rated_(decoders_with_rates(settings_.json())),
        text_(load_text(settings_.at("corpus"), options,
                        *std::max_element(lengths_.begin(), lengths_.end()))) {
    // Wrong keys are found before the first unit runs.
    for (const Json& entry : decoders_) config_of(entry, Task::kCausalLm);
    for (const Json& entry : encoders_) config_of(entry, Task::kMaskedLm);
    for (const std::string& name : rated_) entry_of(decoders_, name);
    plan_of(Settings(settings_.at("encoder_training")), options.device);
    for (const double rate : rates_) {
      if (!(rate > 0.0)) {
        internal::reject("[lab length] learning_rates must be positive, got ", rate);
      }
    }
    if (!rates_.empty() && text_.held_out.size(0) < 2) {
      internal::reject("[lab length] learning_rates need two held-out texts, one to choose by");
    }
  }

  const Json& settings() const override { return settings_.json(); }

  std::vector<Unit> units() const override {
    std::vector<Unit> all;
    for (const Json& entry : decoders_) {
      all.push_back({.variant = std::string(kCostPrefix) + entry.at("name").as_string(),
                     .cost = 0.1,
                     .alone = true,
                     .entry = entry.at("name").as_string()});
    }
    std::ranges::move(units_of(decoders_, options_.seeds), std::back_inserter(all));
    for (Unit unit : units_of(encoders_, options_.seeds)) {
      unit.cost =
          Settings(settings_.at("encoder_training")).number("steps") / settings_.number("steps");
      unit.setting = "encoder_training";
      all.push_back(std::move(unit));
    }
    for (const std::string& name : rated_) {
      all.push_back({.variant = std::string(kRatePrefix) + name,
                     .cost = static_cast<double>(rates_.size()),
                     .entry = name,
                     .setting = "rates"});
    }
    return all;
  }

  std::int64_t jobs() const override { return 2; }

  std::vector<Row> run(const UnitRun& run) override {
    if (run.unit.variant.starts_with(kCostPrefix)) return run_cost(run);
    if (run.unit.variant.starts_with(kRatePrefix)) return run_rates(run);
    const bool is_encoder = std::ranges::any_of(encoders_, [&](const Json& entry) {
      return entry.at("name").as_string() == run.unit.variant;
    });
    return is_encoder ? run_encoder(run) : run_decoder(run);
  }

 private:
  Config config_of(const Json& entry, Task task) const {
    Config config = model_config({settings_.at("model"), entry}, task,
                                 "settings of " + entry.at("name").as_string());
    config.vocab_size = text_.vocab_size;
    config.max_position_embeddings = train_length_;
    encoding_rate_of(entry, settings_.at("model"));  // a wrong one is found before the first unit
    return config;
  }

  Trained train_decoder(ModelImpl& model, const TrainPlan& plan, const UnitRun& run) {
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    return train_model(
        model, plan,
        [&](std::int64_t step) { return causal_batch(text_, rows_, train_length_, seed, step); },
        run);
  }

  /// Speed and memory of a few steps of training, and of decoding.
  std::vector<Row> run_cost(const UnitRun& run) {
    const std::string name = run.unit.variant.substr(kCostPrefix.size());
    const Model model = make_seeded_model(config_of(entry_of(decoders_, name), Task::kCausalLm),
                                          /*seed=*/0, run.device);
    std::vector<Row> rows = {run.row("parameters", static_cast<double>(num_parameters(*model)))};
    TrainPlan plan = plan_of(settings_, run.device);
    plan.graphs = false;  // as `roformer pretrain` and most programs train
    plan.name = "warm-up";
    plan.progress = {0.0, 0.2};
    plan.options.steps = kWarmUpSteps;
    train_decoder(*model, plan, run);
    plan.options.steps = settings_.integer("cost_steps", 1);
    reset_training_cost(run.device);
    std::vector<double> speeds;
    for (int i = 0; i < kCostRepeats; ++i) {
      plan.name = "cost-" + std::to_string(i);
      plan.progress = {0.2 + 0.5 * i / kCostRepeats, 0.2 + 0.5 * (i + 1) / kCostRepeats};
      speeds.push_back(train_decoder(*model, plan, run).tokens_per_second);
    }
    add_median("train_tokens_per_second", std::move(speeds), run, rows);
    add_training_memory(run, rows);
    add_decoding_cost(*model,
                      {.rows = rows_,
                       .prompt = train_length_ / 2,
                       .tokens = std::min(settings_.integer("decode_tokens", 1),
                                          train_length_ - train_length_ / 2)},
                      run, rows);
    return rows;
  }

  /// A training at each learning rate; one that diverges is an outcome as others are. Half of the
  /// held-out texts are for the choice of a rate, the other half judges.
  std::vector<Row> run_rates(const UnitRun& run) {
    const Json& entry = entry_of(decoders_, run.unit.variant.substr(kRatePrefix.size()));
    const Config config = config_of(entry, Task::kCausalLm);
    TextData choosing = text_;
    TextData judging = text_;
    const std::int64_t texts = text_.held_out.size(0);
    choosing.held_out = text_.held_out.narrow(0, 0, texts / 2);
    judging.held_out = text_.held_out.narrow(0, texts / 2, texts - texts / 2);
    TrainPlan plan = plan_of(settings_, run.device);
    plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
    std::vector<Row> rows;
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      const auto count = static_cast<double>(rates_.size());
      plan.name = "rate-" + std::to_string(i);
      plan.progress = {static_cast<double>(i) / count, static_cast<double>(i + 1) / count};
      plan.options.learning_rate = rates_[i];
      const Model model =
          make_seeded_model(config, static_cast<std::uint64_t>(run.unit.seed), run.device);
      const bool diverged = !converges([&] { train_decoder(*model, plan, run); });
      for (const auto& [metric, data] :
           {std::pair("choice_perplexity", &choosing), std::pair("rate_perplexity", &judging)}) {
        const double perplexity =
            diverged ? NAN : perplexity_at(*model, *data, train_length_, Windows::kDisjoint);
        const Coordinates at = {{"learning_rate", rates_[i]}};
        rows.push_back(std::isfinite(perplexity) ? run.row(metric, perplexity, at)
                                                 : run.missing(metric, kDiverged, at));
      }
    }
    return rows;
  }

  std::vector<Row> run_decoder(const UnitRun& run) {
    const Json& entry = entry_of(decoders_, run.unit.variant);
    const Config config = config_of(entry, Task::kCausalLm);
    const Model model =
        make_seeded_model(config, static_cast<std::uint64_t>(run.unit.seed), run.device);
    TrainPlan plan = plan_of(settings_, run.device);
    plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
    plan.progress = {0.0, 0.7};
    std::vector<Row> rows;
    add_curve(train_decoder(*model, plan, run), run, rows);
    for (const std::int64_t length : lengths_) {
      const Coordinates at = {{"length", static_cast<double>(length)}};
      if (run.stop && run.stop()) throw Stopped();
      for (const auto& [metric, windows] : {std::pair("perplexity", Windows::kDisjoint),
                                            std::pair("sliding_perplexity", Windows::kSliding)}) {
        rows.push_back(is_beyond_table(config, length)
                           ? run.missing(metric, kBeyondTable, at)
                           : run.row(metric, perplexity_at(*model, text_, length, windows), at));
      }
    }
    return rows;
  }

  std::vector<Row> run_encoder(const UnitRun& run) {
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const Json& entry = entry_of(encoders_, run.unit.variant);
    const Config config = config_of(entry, Task::kMaskedLm);
    const Model model = make_seeded_model(config, seed, run.device);
    TrainPlan plan = plan_of(Settings(settings_.at("encoder_training")), run.device);
    plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
    plan.progress = {0.0, 0.8};
    const double rate = settings_.number("mask_rate");
    const Trained trained = train_model(
        *model, plan,
        [&](std::int64_t step) {
          return masked_batch(text_, rows_, train_length_, rate, seed, step);
        },
        run);
    std::vector<Row> rows;
    add_curve(trained, run, rows);
    for (const std::int64_t length : lengths_) {
      const Coordinates at = {{"length", static_cast<double>(length)}};
      if (run.stop && run.stop()) throw Stopped();
      for (const auto& [metric, windows] :
           {std::pair("masked_accuracy", Windows::kDisjoint),
            std::pair("sliding_masked_accuracy", Windows::kSliding)}) {
        rows.push_back(
            is_beyond_table(config, length)
                ? run.missing(metric, kBeyondTable, at)
                : run.row(metric, masked_accuracy_at(*model, text_, length, rate, windows), at));
      }
    }
    return rows;
  }

  LabOptions options_;
  Settings settings_;
  std::vector<std::int64_t> lengths_;
  std::int64_t train_length_;
  std::int64_t rows_;
  std::vector<Json> decoders_;
  std::vector<Json> encoders_;
  std::vector<double> rates_;
  /// Names of the decoders that are trained at them.
  std::vector<std::string> rated_;
  TextData text_;
};

}  // namespace

std::vector<std::string> missing_length_units(const Results& results) {
  const std::vector<std::string> found = variants_of(results);
  std::vector<std::string> missing;
  const auto add = [&](std::string variant) {
    if (std::ranges::find(found, variant) == found.end()) missing.push_back(std::move(variant));
  };
  for (const Json& entry : results.settings.at("decoders").elements()) {
    add(std::string(kCostPrefix) + entry.at("name").as_string());
  }
  for (const std::string& name : decoders_with_rates(results.settings)) {
    add(std::string(kRatePrefix) + name);
  }
  return missing;
}

std::unique_ptr<Lab> make_length_lab(const LabOptions& options) {
  return std::make_unique<LengthLab>(options);
}

}  // namespace rotary::roformer::lab
