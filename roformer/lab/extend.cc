// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `extend`: one trained model whose context is stretched by every recipe, before and after
// a few more steps: perplexity by length, retrieval by depth.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "roformer/lab/labs.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/rope_recipes.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"
#include "roformer/model/rope_config.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
namespace fs = std::filesystem;

Json extend_defaults(bool quick) {
  Json settings = training_defaults(quick ? 400 : 2400, quick ? 3e-3 : 6e-4);
  settings["train_length"] = quick ? 64 : 512;
  settings["rows"] = quick ? 16 : 32;
  settings["lengths"] = quick ? std::vector{64, 128, 256, 512} : std::vector{512, 1024, 2048, 4096};
  settings["factors"] = quick ? std::vector{2, 4} : std::vector{2, 4, 8};
  settings["depths"] = std::vector{0.0, 0.25, 0.5, 0.75, 0.95};
  settings["retrieval_rows"] = quick ? 16 : 128;
  settings["needle_share"] = 0.5;
  settings["needle_pairs"] = quick ? 4 : 16;
  settings["tune_share"] = 0.05;
  settings["tune_learning_rate"] = quick ? 1e-3 : 1e-4;
  settings["model"] = text_model(quick);
  settings["model"]["position_encoding"] = "rope";
  settings["corpus"] = default_corpus(quick);
  if (!quick) settings["corpus"]["held_out_texts"] = 12;
  settings["recipes"] = default_rope_recipes();
  return settings;
}

class ExtendLab final : public Lab {
 public:
  explicit ExtendLab(const LabOptions& options)
      : options_(options),
        settings_(merge_settings(extend_defaults(options.quick), options.config)),
        lengths_(settings_.integers("lengths")),
        factors_(settings_.integers("factors")),
        train_length_(settings_.integer("train_length", 2)),
        recipes_(settings_.list("recipes")),
        text_(load_text(settings_.at("corpus"), options, std::ranges::max(lengths_))) {
    for (const Json& recipe : recipes_) {
      check_keys(recipe, {"name", "rope", "seeds", "encoding_rate"});
      encoding_rate_of(recipe, settings_.at("model"));
      for (const std::int64_t factor : factors_) {
        Config config = base_config();
        apply_rope_change(change_of(recipe, factor, {}), config);
      }
    }
  }

  const Json& settings() const override { return settings_.json(); }

  /// "yarn x4": a recipe and a factor.
  std::vector<Unit> units() const override {
    std::vector<Unit> all;
    for (const Json& recipe : recipes_) {
      for (const std::int64_t factor : factors_) {
        for (Unit unit : units_of({recipe}, options_.seeds)) {
          unit.variant = variant_name(recipe, factor);
          unit.entry = recipe.at("name").as_string();
          all.push_back(std::move(unit));
        }
      }
    }
    // The first one also trains the model.
    if (!all.empty()) all.front().cost = 12.0;
    return all;
  }

  std::int64_t jobs() const override { return 2; }

  std::vector<Row> run(const UnitRun& run) override {
    for (const Json& recipe : recipes_) {
      for (const std::int64_t factor : factors_) {
        if (variant_name(recipe, factor) == run.unit.variant) {
          return run_recipe(run, recipe, factor);
        }
      }
    }
    throw std::logic_error("no such unit: " + run.unit.variant);
  }

 private:
  static std::string variant_name(const Json& recipe, std::int64_t factor) {
    return fmt::format("{} x{}", recipe.at("name").as_string(), factor);
  }

  Config base_config() const {
    Config config = model_config({settings_.at("model")}, Task::kCausalLm, "settings of model");
    config.vocab_size = text_.vocab_size + kNeedleTokens;
    config.max_position_embeddings = train_length_;
    return config;
  }

  NeedleOptions batches(std::int64_t length, std::uint64_t seed) const {
    const std::int64_t tokens = settings_.integer("rows", 1) * train_length_;
    return {.rows = std::max<std::int64_t>(1, tokens / length),
            .length = length,
            .share = settings_.number("needle_share"),
            .pairs = settings_.integer("needle_pairs", 1),
            .seed = seed};
  }

  /// The folder of the trained model of a seed; trains it if that was not done yet. Other units of
  /// the seed wait meanwhile.
  fs::path base_model(const UnitRun& run) {
    const std::lock_guard lock(mutex_);
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const fs::path folder = options_.folder / fmt::format("model-{}", seed);
    if (fs::exists(folder / "model" / "config.json")) return folder / "model";
    const Model model = make_seeded_model(base_config(), seed, run.device);
    UnitRun training = run;
    training.folder = folder;
    TrainPlan plan = plan_of(settings_, run.device);
    plan.options.encoding_rate = encoding_rate_of(settings_.at("model"));
    plan.name = "training";
    plan.progress = {0.0, 0.9};
    const NeedleOptions rows = batches(train_length_, seed);
    train_model(
        *model, plan, [&](std::int64_t step) { return needle_batch(text_, rows, step); }, training);
    save_model(folder / "model", *model);
    return folder / "model";
  }

  RopeChange change_of(const Json& recipe, std::int64_t factor,
                       const std::vector<double>& divisors) const {
    return make_rope_change(recipe, {.factor = static_cast<double>(factor),
                                     .pairs = base_config().head_dim() / 2,
                                     .divisors = divisors});
  }

  Model stretched(const fs::path& base, const Json& recipe, std::int64_t factor,
                  const std::vector<double>& divisors, at::Device device) const {
    const RopeChange change = change_of(recipe, factor, divisors);
    const Model model =
        load_lab_model(base, [&](Config& config) { apply_rope_change(change, config); }, device);
    model->eval();
    model->set_compute_type(compute_type_of(device));
    return model;
  }

  /// The divisors with the lowest loss on rows of the training text of the stretched length, among
  /// the candidates.
  std::vector<double> search(const fs::path& base, const Json& recipe, std::int64_t factor,
                             const UnitRun& run) const {
    const std::int64_t length = train_length_ * factor;
    const std::int64_t pairs = base_config().head_dim() / 2;
    const at::Tensor rows = random_windows(text_, 8, length, /*seed=*/1, /*step=*/0);
    std::vector<double> best;
    double least = INFINITY;
    for (const auto& divisors : candidate_divisors(pairs, static_cast<double>(factor))) {
      const Model model = stretched(base, recipe, factor, divisors, run.device);
      const at::NoGradGuard no_grad;
      const double loss = model->forward(causal_rows(rows).inputs).loss.item<double>();
      if (loss < least) {
        least = loss;
        best = divisors;
      }
      if (run.stop && run.stop()) throw Stopped();
    }
    return best;
  }

  void judge(ModelImpl& model, std::int64_t factor, bool tuned, const UnitRun& run,
             std::vector<Row>& rows) const {
    const double after = tuned ? 1.0 : 0.0;
    for (const std::int64_t length : lengths_) {
      rows.push_back(run.row("perplexity", perplexity_at(model, text_, length, Windows::kDisjoint),
                             {{"length", static_cast<double>(length)}, {"tuned", after}}));
      if (run.stop && run.stop()) throw Stopped();
    }
    const std::int64_t length = train_length_ * factor;
    for (const double depth : settings_.numbers("depths")) {
      // From the beginning of the row to just before the question.
      const auto at = static_cast<std::int64_t>(depth * static_cast<double>(length - 4));
      const double found = retrieval_at(model, text_, length, length - 1 - at,
                                        settings_.integer("retrieval_rows", 1));
      rows.push_back(run.row("retrieval", found, {{"depth", depth}, {"tuned", after}}));
    }
  }

  std::vector<Row> run_recipe(const UnitRun& run, const Json& recipe, std::int64_t factor) {
    const fs::path base = base_model(run);
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const std::vector<double> divisors =
        needs_divisors(recipe) ? search(base, recipe, factor, run) : std::vector<double>();
    const Model model = stretched(base, recipe, factor, divisors, run.device);
    std::vector<Row> rows = {run.row("parameters", static_cast<double>(num_parameters(*model)))};
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      rows.push_back(run.row("divisor", divisors[i], {{"pair", static_cast<double>(i)}}));
    }
    judge(*model, factor, /*tuned=*/false, run, rows);
    TrainPlan plan = plan_of(settings_, run.device);
    plan.options.encoding_rate = encoding_rate_of(recipe, settings_.at("model"));
    plan.name = "tuning";
    plan.progress = {0.9, 1.0};
    plan.options.steps = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(settings_.number("tune_share") *
                                     static_cast<double>(plan.options.steps)));
    plan.options.learning_rate = settings_.number("tune_learning_rate");
    plan.options.schedule.warmup_steps = plan.options.steps / 10;
    const NeedleOptions longer = batches(train_length_ * factor, seed + 1000);
    train_model(
        *model, plan, [&](std::int64_t step) { return needle_batch(text_, longer, step); }, run);
    judge(*model, factor, /*tuned=*/true, run, rows);
    return rows;
  }

  LabOptions options_;
  Settings settings_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> factors_;
  std::int64_t train_length_;
  std::vector<Json> recipes_;
  TextData text_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Lab> make_extend_lab(const LabOptions& options) {
  return std::make_unique<ExtendLab>(options);
}

}  // namespace rotary::roformer::lab
