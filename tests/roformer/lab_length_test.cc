// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The labs length, base and extend at a setting of seconds: structure, repeatability, resumption.
#include <algorithm>
#include <set>

#include "lab_testing.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = R"("steps": 4, "warmup_steps": 1, "rows": 2, "train_length": 32,
  "model": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 16, "initializer_range": 0.2},
  "corpus": {"train": "train.txt", "held_out": "held_out.txt", "held_out_texts": 2})";

std::string length_config() {
  return std::string("{") + kModel + R"(, "lengths": [16, 32, 64], "encoder_steps": 2,
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
  EXPECT_EQ(keys_of(results, "cost mine"), std::set<std::string>{"parameters"});
  EXPECT_TRUE(std::ranges::any_of(results.rows, [](const Row& row) {
    return row.variant == "cost mine" && row.metric == "decode_tokens_per_second" &&
           row.value > 0.0;
  }));
  for (const Row& row : results.rows) {
    EXPECT_NE(row.metric, kFailed) << row.variant << ": " << row.note;
    const bool beyond = row.variant.find("learned") != std::string::npos &&
                        row.at.contains("length") && row.at.at("length") > 32;
    EXPECT_EQ(row.has_value(), !beyond) << row.variant << " " << row.metric;
    EXPECT_EQ(row.note, beyond ? "beyond its table" : "") << row.variant;
  }
  const auto report = write_report(quick.folder);
  const std::string text = read_file(report);
  EXPECT_THAT(text, HasSubstr("| mine |"));
  EXPECT_THAT(text, HasSubstr("beyond its table"));
  EXPECT_THAT(text, HasSubstr("Spearman"));
  EXPECT_EQ(std::filesystem::exists(quick.folder / "perplexity.svg"), can_draw());
}

TEST_F(SmallLab, LengthIsRepeatable) {
  expect_repeatable("length", length_config(), {"rope", "t5", "encoder rope"});
}

TEST_F(SmallLab, BaseMeasuresRetrievalAndProofs) {
  LabOptions quick = options(base_config());
  quick.variants = {"base 10000", "partial 0.5", "proportional 0.5", "none", "exact"};
  const Results results = run(find_lab("base"), quick);
  EXPECT_EQ(keys_of(results, "partial 0.5"),
            (std::set<std::string>{"parameters", "training_loss step", "perplexity length",
                                   "retrieval distance", "critical_dim", "negative_distance",
                                   "decay distance"}));
  EXPECT_EQ(keys_of(results, "exact"), (std::set<std::string>{"smallest_base context head_dim",
                                                              "proved_below context head_dim"}));
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

TEST_F(SmallLab, RefusesWrongSettings) {
  const LabInfo& length = find_lab("length");
  const std::string texts = R"("corpus": {"train": "train.txt", "held_out": "held_out.txt"})";
  const auto message = [&](const std::string& config) {
    return thrown([&] { length.make(options("{" + config + "}")); });
  };
  EXPECT_THAT(message(texts + R"(, "lengths": [64],
                                 "decoders": [{"name": "x", "position_encoding": "y"}])"),
              HasSubstr("settings of x"));
  EXPECT_THAT(message(R"("corpus": {"train": "none.txt"})"), HasSubstr("none.txt: no such file"));
  std::filesystem::create_directories(path("data"));
  file("data/packed.txt.xz", "");
  EXPECT_THAT(message(R"("corpus": {"train": "packed.txt"})"), HasSubstr("xz -dk "));
  EXPECT_THAT(message(texts + R"(, "lengths": [16, 100000])"),
              HasSubstr("no held-out text of 100001 tokens"));
}

}  // namespace
}  // namespace rotary::roformer::lab
