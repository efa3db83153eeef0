// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The labs length, base and extend at a setting of seconds: structure, repeatability, resumption.
#include <algorithm>
#include <map>
#include <set>

#include "lab_testing.h"
#include "rotary/analysis.h"
#include "rotary/frequencies.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = R"("steps": 4, "warmup_steps": 1, "rows": 2, "train_length": 32,
  "model": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 16, "initializer_range": 0.2},
  "corpus": {"train": "train.txt", "held_out": "held_out.txt", "held_out_texts": 2})";

std::string length_config() {
  return std::string("{") + kModel + R"(, "lengths": [16, 32, 64], "encoder_training": {"steps": 2},
    "rates": {"learning_rates": [1e-3, 3e-3], "decoders": ["rope", "mine", "learned"]},
    "decode_tokens": 2, "cost_steps": 2,
    "decoders": [{"name": "mine", "position_encoding": "rope", "rope_theta": 500}]})";
}
std::string base_config() {
  return std::string("{") + kModel + R"(, "lengths": [32, 64], "distances": [8, 40],
    "retrieval_rows": 3, "needle_pairs": 2, "exact_head_dims": [16], "exact_contexts": [20]})";
}
std::string extend_config() {
  return std::string("{") + kModel + R"(, "lengths": [32, 64], "factors": [2], "depths": [0, 0.5],
    "retrieval_rows": 3, "needle_pairs": 2, "tune_share": 0.5})";
}

class SmallLab : public LabTest {
 protected:
  /// Coordinates and metric of the rows of a variant.
  static std::set<std::string> keys_of(const Results& results, const std::string& variant) {
    std::set<std::string> keys;
    for (const Row& row : results.rows) {
      if (row.variant != variant || is_cost(row.metric)) continue;
      std::string key = row.metric;
      for (const auto& [name, value] : row.at) key += " " + name;
      keys.insert(key);
    }
    return keys;
  }
};

TEST_F(SmallLab, LengthHasEveryEncodingAtEveryLength) {
  const LabOptions quick = options(length_config());
  const Results results = run(find_lab("length"), quick);
  EXPECT_EQ(results.lab, "length");
  EXPECT_FALSE(results.machine.empty());
  EXPECT_FALSE(results.commit.empty());
  const std::vector<std::string> variants = variants_of(results);
  for (const char* variant : {"rope", "alibi", "t5", "none", "learned", "xpos", "rope+t5", "mine",
                              "encoder rope", "encoder none"}) {
    EXPECT_NE(std::ranges::find(variants, variant), variants.end()) << variant;
  }
  EXPECT_EQ(keys_of(results, "mine"),
            (std::set<std::string>{"training_loss step", "perplexity length",
                                   "sliding_perplexity length"}));
  EXPECT_EQ(keys_of(results, "encoder rope"),
            (std::set<std::string>{"training_loss step", "masked_accuracy length",
                                   "sliding_masked_accuracy length"}));
  EXPECT_EQ(keys_of(results, "cost mine"), std::set<std::string>{"parameters"});
  EXPECT_EQ(
      keys_of(results, "rate mine"),
      (std::set<std::string>{"choice_perplexity learning_rate", "rate_perplexity learning_rate"}));
  EXPECT_TRUE(keys_of(results, "rate none").empty());
  EXPECT_TRUE(std::ranges::any_of(results.rows, [](const Row& row) {
    return row.variant == "cost mine" && row.metric == "decode_tokens_per_second" &&
           row.value > 0.0;
  }));
  for (const Row& row : results.rows) {
    EXPECT_NE(row.metric, kFailed) << row.variant << ": " << row.note;
    const bool beyond =
        row.variant.ends_with("learned") && row.at.contains("length") && row.at.at("length") > 32;
    EXPECT_EQ(row.has_value(), !beyond) << row.variant << " " << row.metric;
    EXPECT_EQ(row.note, beyond ? "beyond its table" : "") << row.variant;
  }
  const auto report = write_report(quick.folder);
  const std::string text = read_file(report);
  EXPECT_THAT(text, HasSubstr("| mine |"));
  EXPECT_THAT(text, HasSubstr("beyond its table"));
  EXPECT_THAT(text, HasSubstr("Spearman"));
  EXPECT_THAT(text, HasSubstr("| encoding | rate 0.001 | rate 0.003 | best rate |"));
  EXPECT_EQ(std::filesystem::exists(quick.folder / "perplexity.svg"), can_draw());
  // Speeds are medians, with their range.
  const auto speed = [&](const std::string& metric) {
    return summarize(results, "cost rope", metric)->mean;
  };
  for (const std::string metric : {"train_tokens_per_second", "decode_tokens_per_second"}) {
    EXPECT_LE(speed("min_" + metric), speed(metric));
    EXPECT_LE(speed(metric), speed("max_" + metric));
  }
}

TEST_F(SmallLab, LengthIsRepeatable) {
  expect_repeatable("length", length_config(), {"rope", "t5", "encoder rope", "rate rope"});
}

TEST_F(SmallLab, EncodersHaveATrainingOfTheirOwn) {
  const auto last_step = [&](const std::string& training, const std::string& folder) {
    std::string config = length_config();
    const std::string key = R"("encoder_training": {"steps": 2})";
    config.replace(config.find(key), key.size(), R"("encoder_training": )" + training);
    LabOptions quick = options(config, folder);
    quick.variants = {"encoder rope"};
    return run(find_lab("length"), quick);
  };
  const Results once = last_step(R"({"steps": 3})", "once");
  EXPECT_EQ(values_of(once, "training_loss", "step"), (std::vector<double>{1, 2, 3}));
  const Results other = last_step(R"({"steps": 3, "learning_rate": 0.5})", "other");
  const auto loss = [](const Results& results) {
    return summarize(results, "encoder rope", "training_loss", {{"step", 3}})->mean;
  };
  EXPECT_NE(loss(once), loss(other));
}

TEST_F(SmallLab, RatesNeedATextToChooseBy) {
  std::string config = length_config();
  const std::string key = R"("held_out_texts": 2)";
  config.replace(config.find(key), key.size(), R"("held_out_texts": 1)");
  EXPECT_THAT([&] { run(find_lab("length"), options(config)); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("one to choose by")));
}

TEST_F(SmallLab, RatesThatDivergeAreAnOutcome) {
  std::string config = length_config();
  const std::string key = "[1e-3, 3e-3]";
  config.replace(config.find(key), key.size(), "[1e-3, 1e30]");
  LabOptions quick = options(config);
  quick.variants = {"rate rope"};
  const Results results = run(find_lab("length"), quick);
  for (const char* metric : {"choice_perplexity", "rate_perplexity"}) {
    EXPECT_TRUE(summarize(results, "rate rope", metric, {{"learning_rate", 1e-3}})) << metric;
    EXPECT_EQ(note_of(results, "rate rope", metric, {{"learning_rate", 1e30}}), "diverged");
  }
  EXPECT_EQ(results.rows.size(), 4U);
  const std::string report = read_file(write_report(quick.folder));
  EXPECT_THAT(report, testing::ContainsRegex(R"(\| rope \| [0-9.]+ \| diverged \| 0\.001 \|)"));
}

TEST_F(SmallLab, RatesMayBeAddedWhereAllOfThemAreRunAgain) {
  LabOptions quick = options(length_config());
  quick.variants = {"rope", "rate *"};
  run(find_lab("length"), quick);
  std::string config = length_config();
  const std::string key = "[1e-3, 3e-3]";
  config.replace(config.find(key), key.size(), "[1e-3, 3e-3, 5e-3]");
  LabOptions again = options(config);
  again.rerun = true;
  again.variants = {"rate rope"};
  EXPECT_THAT(thrown([&] { run(find_lab("length"), again); }), HasSubstr("rates: "));
  again.variants = {"rate *"};
  const Results results = run(find_lab("length"), again);
  EXPECT_EQ(values_of(results, "rate_perplexity", "learning_rate"),
            (std::vector<double>{1e-3, 3e-3, 5e-3}));
  EXPECT_TRUE(summarize(results, "rope", "perplexity", {{"length", 16}}));
}

TEST_F(SmallLab, BaseMeasuresRetrievalAndProofs) {
  LabOptions quick = options(base_config());
  quick.variants = {"base 10000", "partial 0.5", "proportional 0.5", "none", "exact"};
  const Results results = run(find_lab("base"), quick);
  EXPECT_EQ(keys_of(results, "partial 0.5"),
            (std::set<std::string>{"parameters", "training_loss step", "perplexity length",
                                   "retrieval distance", "critical_dim", "negative_distance",
                                   "decay distance"}));
  EXPECT_EQ(keys_of(results, "exact"),
            (std::set<std::string>{"smallest_base context head_dim",
                                   "proved_below context head_dim", "decay distance head_dim"}));
  const Coordinates at = {{"head_dim", 16}, {"context", 20}};
  const auto base = summarize(results, "exact", "smallest_base", at);
  const auto below = summarize(results, "exact", "proved_below", at);
  ASSERT_TRUE(base && below);
  EXPECT_NEAR(base->mean / below->mean, 1.0, 1e-6);
  EXPECT_THAT(read_file(write_report(quick.folder)), HasSubstr("| proportional 0.5 |"));
}

TEST_F(SmallLab, BaseIsRepeatable) {
  expect_repeatable("base", base_config(), {"base 100", "none"});
}

TEST_F(SmallLab, ExtendStretchesOneModel) {
  const LabOptions quick = options(extend_config());
  const Results results = run(find_lab("extend"), quick);
  EXPECT_EQ(variants_of(results).size(), 14U);
  EXPECT_EQ(
      keys_of(results, "yarn x2"),
      (std::set<std::string>{"parameters", "perplexity length tuned", "retrieval depth tuned"}));
  EXPECT_TRUE(keys_of(results, "longrope x2").contains("divisor pair"));
  for (const Row& row : results.rows) {
    EXPECT_NE(row.metric, kFailed) << row.variant << ": " << row.note;
  }
  // These leave texts up to the trained length alone; others do not.
  const auto untuned = [&](const std::string& recipe) {
    return summarize(results, recipe + " x2", "perplexity", {{"length", 32}, {"tuned", 0}})->mean;
  };
  for (const char* recipe : {"dynamic", "yarn_walkthrough"}) {
    EXPECT_DOUBLE_EQ(untuned(recipe), untuned("none")) << recipe;
  }
  EXPECT_NE(untuned("linear"), untuned("none"));
  EXPECT_THAT(read_file(write_report(quick.folder)), HasSubstr("| llama3 x2 |"));
}

TEST_F(SmallLab, ExtendIsRepeatable) {
  expect_repeatable("extend", extend_config(), {"yarn x2", "linear x2"});
}

TEST_F(SmallLab, EntriesHaveARateOfTheirOwn) {
  const auto loss = [&](const char* lab, std::string config, const std::string& list,
                        const std::string& rate, const std::string& folder) {
    config.insert(config.size() - 1,
                  ", \"" + list +
                      R"(": [{"name": "mine", "position_encoding": "t5", "encoding_rate": )" +
                      rate + "}]");
    LabOptions quick = options(config, folder + rate);
    quick.variants = {"mine"};
    double last = 0.0;
    for (const Row& row : run(find_lab(lab), quick).rows) {
      EXPECT_NE(row.metric, kFailed) << row.note;
      if (row.metric == "training_loss") last = row.value;
    }
    return last;
  };
  EXPECT_NE(loss("base", base_config(), "rotations", "30.0", "b"),
            loss("base", base_config(), "rotations", "1.0", "b"));
  EXPECT_NE(loss("length", length_config(), "encoders", "30.0", "l"),
            loss("length", length_config(), "encoders", "1.0", "l"));
  EXPECT_THAT(thrown([&] { loss("base", base_config(), "rotations", "0", "x"); }),
              HasSubstr("encoding_rate must be a positive number"));
}

TEST_F(SmallLab, RecipesHaveSeedsAndARateOfTheirOwn) {
  const auto perplexities = [&](const std::string& keys, const std::string& folder) {
    std::string config = extend_config();
    config.insert(config.find("\"initializer_range\""), R"("position_encoding": "rope+t5", )");
    config.insert(config.size() - 1, R"(, "recipes": [{"name": "mine", "rope":
        {"rope_type": "linear", "factor": "factor"})" +
                                         keys + "}]");
    LabOptions quick = options(config, folder);
    quick.variants = {"mine x2"};
    std::map<std::int64_t, double> tuned;
    for (const Row& row : run(find_lab("extend"), quick).rows) {
      EXPECT_NE(row.metric, kFailed) << row.note;
      if (row.metric == "perplexity" && row.at.at("tuned") == 1.0) tuned[row.seed] = row.value;
    }
    return tuned;
  };
  const auto twice = perplexities(R"(, "seeds": 2)", "seeds");
  EXPECT_EQ(twice.size(), 2U);
  EXPECT_NE(twice.at(0), twice.at(1));
  EXPECT_NE(perplexities(R"(, "encoding_rate": 50)", "rate").at(0), twice.at(0));
  EXPECT_THAT(thrown([&] { perplexities(R"(, "sedes": 2)", "wrong"); }),
              HasSubstr("mine: no key sedes in this entry; perhaps seeds"));
}

TEST_F(SmallLab, BaseBoundsRecipesAndModelsOfOnesOwn) {
  std::string config = base_config();
  std::filesystem::create_directories(path("data/model"));
  file("data/model/config.json", R"({"model_type": "llama", "hidden_size": 64,
      "num_attention_heads": 2, "rope_theta": 10000.0, "max_position_embeddings": 300})");
  config.insert(config.size() - 1, R"(, "exact": {"models": ["model/config.json"], "recipes": [
      {"name": "ntk", "recipe": {"type": "ntk", "factor": 2, "rotary_dim": 16, "theta": 1e4}},
      {"name": "xpos", "recipe": {"type": "xpos", "rotary_dim": 16, "theta": 1e4},
       "contexts": [30]}]})");
  LabOptions quick = options(config);
  quick.variants = {"exact *"};
  const Results results = run(find_lab("base"), quick);
  EXPECT_EQ(variants_of(results),
            (std::vector<std::string>{"exact model/config.json", "exact ntk", "exact xpos"}));
  const auto value = [&](const char* variant, const char* metric, double context) {
    return summarize(results, variant, metric, {{"context", context}})->mean;
  };
  const Recipe llama{.rotary_dim = 32, .theta = 1e4};
  const Frequencies frequencies = make_frequencies(llama);
  EXPECT_EQ(value("exact model/config.json", "critical_dim", 300), critical_dim(frequencies, 300));
  EXPECT_EQ(value("exact model/config.json", "smallest_base", 300), smallest_base(llama, 300).base);
  EXPECT_EQ(value("exact ntk", "smallest_base", 20),
            smallest_base({.rotary_dim = 16, .scaling = Ntk{.factor = 2}}, 20).base);
  EXPECT_THAT(note_of(results, "exact xpos", "smallest_base", {{"context", 30}}),
              HasSubstr("growth"));
  const std::string text = read_file(write_report(quick.folder));
  EXPECT_THAT(text, HasSubstr("| model/config.json | 10000 | 300 |"));
  EXPECT_THAT(text, HasSubstr("| exact | 0 | 1 |"));  // not run yet
  // The decay at powers of two and at the context, with the growth of xPos, too.
  for (const double distance : {1.0, 256.0, 300.0}) {
    const Coordinates at = {{"context", 300}, {"distance", distance}};
    EXPECT_EQ(summarize(results, "exact model/config.json", "decay", at)->mean,
              decay(frequencies, std::vector{distance}).front());
  }
  EXPECT_TRUE(summarize(results, "exact xpos", "decay", {{"context", 30}, {"distance", 30}}));
  EXPECT_EQ(std::filesystem::exists(quick.folder / "exact_decay.svg"), can_draw());
  // Without the setting the file is as before.
  const std::unique_ptr<Lab> plain = find_lab("base").make(options(base_config(), "plain"));
  EXPECT_FALSE(plain->settings().contains("exact"));
  const auto wrong = [&](const std::string& exact) {
    std::string changed = base_config();
    changed.insert(changed.size() - 1, ", \"exact\": " + exact);
    return thrown([&] { find_lab("base").make(options(changed)); });
  };
  EXPECT_THAT(wrong(R"({"models": ["none.json"]})"), HasSubstr("none.json"));
  EXPECT_THAT(wrong(R"({"modells": ["none.json"]})"), HasSubstr("modells"));
  EXPECT_THAT(wrong(R"({"recipes": [{"name": "x", "recipe": {"type": "y"}}]})"), HasSubstr("y"));
}

TEST_F(SmallLab, TheExactPartOfBaseNeedsNoText) {
  LabOptions full{.folder = path("exact"),
                  .config = file("exact.json", R"({"exact_head_dims": [16, 32],
                      "exact_contexts": [20, 30], "exact": {"recipes": [
                      {"name": "yarn", "recipe": {"type": "yarn", "factor": 4, "rotary_dim": 16,
                       "theta": 1e4, "original_context": 16}}]}})"),
                  .variants = {"exact*"}};
  const Results results = run(find_lab("base"), full);
  EXPECT_EQ(variants_of(results), (std::vector<std::string>{"exact", "exact yarn"}));
  const std::string report = read_file(write_report(full.folder));
  EXPECT_THAT(report, HasSubstr("grid proof |"));
  EXPECT_THAT(report, HasSubstr("| context | smallest base, head of 16 |"));
  const Coordinates at = {{"head_dim", 32}, {"distance", 16}};
  EXPECT_EQ(summarize(results, "exact", "decay", at)->mean,
            decay(make_frequencies({.rotary_dim = 32, .theta = 1e4}), std::vector{16.0}).front());
  // What is trained needs it, and says so before the first unit.
  full.variants = {"exact", "base 100"};
  EXPECT_THAT(thrown([&] { find_lab("base").make(full); }), HasSubstr("--data"));
}

TEST_F(SmallLab, RefusesWrongSettings) {
  const LabInfo& length = find_lab("length");
  const std::string texts = R"("corpus": {"train": "train.txt", "held_out": "held_out.txt"})";
  const auto message = [&](const std::string& config) {
    return thrown([&] { length.make(options("{" + config + "}")); });
  };
  EXPECT_THAT(message(texts + R"(, "lengths": [64],
                                 "decoders": [{"name": "x", "position_encoding": "y"}])"),
              HasSubstr("settings of x"));
  EXPECT_THAT(message(texts + R"(, "rates": {"learning_rate": [1]})"),
              HasSubstr("rates.learning_rate: no setting of this lab; perhaps learning_rates"));
  EXPECT_THAT(message(R"("corpus": {"train": "none.txt"})"), HasSubstr("none.txt: no such file"));
  std::filesystem::create_directories(path("data"));
  file("data/packed.txt.xz", "");
  EXPECT_THAT(message(R"("corpus": {"train": "packed.txt"})"), HasSubstr("xz -dk "));
  EXPECT_THAT(message(texts + R"(, "lengths": [16, 100000])"),
              HasSubstr("no held-out text of 100001 tokens"));
}

}  // namespace
}  // namespace rotary::roformer::lab
