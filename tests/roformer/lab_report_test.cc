// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reports of the labs, from results that are written by hand.
#include <map>
#include <utility>

#include "json/json.h"
#include "lab_testing.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
using testing::HasSubstr;
using testing::Not;

class LabReport : public ScratchTest {
 protected:
  std::string report_of(const Results& results) {
    std::filesystem::create_directories(path("lab"));
    write_results(path("lab") / "results.json", results);
    return read_file(write_report(path("lab"), /*png=*/false));
  }
};

/// An image lab with two encodings, of which the first has two seeds.
Results image_results() {
  Results results{.lab = "image", .machine = "m", .commit = "c"};
  results.settings = {{"encodings", Json::Array{{{"name", "none"}, {"seeds", 2}},
                                                {{"name", "learned"}, {"seeds", 1}}}}};
  results.rows = {{.variant = "none", .at = {{"size", 32}}, .metric = "accuracy", .value = 0.5}};
  return results;
}

TEST_F(LabReport, NamesUnitsWithoutRows) {
  Results results = image_results();
  EXPECT_THAT(report_of(results),
              testing::ContainsRegex("## Not run yet\n(.*\n)+\\| none \\| 1 \\| 2 \\|\n"
                                     "\\| learned \\| 0 \\| 1 \\|"));
  results.rows.push_back({.variant = "none", .seed = 1, .metric = "accuracy", .value = 0.5});
  results.rows.push_back({.variant = "learned", .metric = "accuracy", .value = 0.5});
  EXPECT_THAT(report_of(results), Not(HasSubstr("Not run yet")));
}

TEST_F(LabReport, ShowsFailedRuns) {
  Results results = image_results();
  EXPECT_THAT(report_of(results), Not(HasSubstr("Failed runs")));
  results.rows.push_back(
      {.variant = "none", .seed = 1, .metric = std::string(kFailed), .note = "no memory|left"});
  EXPECT_THAT(report_of(results), HasSubstr("## Failed runs\n\n"
                                            "| variant | seed | failed because |\n"
                                            "| --- | --- | --- |\n"
                                            "| none | 1 | no memory/left |\n"));
}

TEST_F(LabReport, NamesUnitsOfLengthThatNoListNames) {
  Results results{.lab = "length", .machine = "m", .commit = "c"};
  results.settings = {
      {"train_length", 8},
      {"steps", 1},
      {"learning_rate", 1e-3},
      {"decoders", Json::Array{{{"name", "rope"}}, {{"name", "t5"}}}},
      {"rates", {{"decoders", Json::Array{"t5"}}, {"learning_rates", Json::Array{1e-3}}}}};
  results.rows = {{.variant = "rope", .at = {{"length", 8}}, .metric = "perplexity", .value = 5.0},
                  {.variant = "cost rope", .metric = "parameters", .value = 5.0},
                  {.variant = "t5", .at = {{"length", 8}}, .metric = "perplexity", .value = 5.0}};
  const std::string missing = "| cost t5 | 0 | 1 |\n| rate t5 | 0 | 1 |\n";
  EXPECT_THAT(report_of(results), HasSubstr("| --- | --- | --- |\n" + missing));
  // An empty list names all decoders.
  results.settings["rates"]["decoders"] = Json::array();
  EXPECT_THAT(report_of(results),
              HasSubstr("| cost t5 | 0 | 1 |\n| rate rope | 0 | 1 |\n| rate t5 | 0 | 1 |\n"));
  results.settings["rates"]["learning_rates"] = Json::array();
  EXPECT_THAT(report_of(results), Not(HasSubstr("| rate ")));
}

TEST_F(LabReport, SaysThatEncodersWereNotJudgedOnSlidingRows) {
  Results results{.lab = "length", .machine = "m", .commit = "c"};
  results.settings = {{"train_length", 8}, {"decoders", Json::array()}};
  const auto add = [&](const char* variant, const char* metric) {
    results.rows.push_back(
        {.variant = variant, .at = {{"length", 8}}, .metric = metric, .value = 0.5});
  };
  EXPECT_THAT(report_of(results), Not(HasSubstr("encoders, sliding rows")));
  add("encoder rope", "masked_accuracy");
  add("encoder t5", "masked_accuracy");
  EXPECT_THAT(report_of(results),
              HasSubstr("Not judged yet on sliding rows: encoder rope, encoder t5."));
  add("encoder rope", "sliding_masked_accuracy");
  EXPECT_THAT(report_of(results), HasSubstr("on sliding rows: encoder t5."));
  add("encoder t5", "sliding_masked_accuracy");
  EXPECT_THAT(report_of(results), Not(HasSubstr("Not judged yet")));
}

// ---- Published figures --------------------------------------------------------------------------

TEST(LabRanks, RankCorrelation) {
  const std::map<std::string, double> ours = {{"a", 1}, {"b", 2}, {"c", 9}, {"d", 3}};
  EXPECT_THAT(rank_sentence("theirs", ours, {{"a", 10}, {"b", 20}, {"c", 30}}),
              HasSubstr("1.00 (3"));
  EXPECT_THAT(rank_sentence("theirs", ours, {{"a", 30}, {"b", 20}, {"c", 10}}), HasSubstr("-1.00"));
  EXPECT_THAT(rank_sentence("theirs", ours, {{"a", 30}}), HasSubstr("too few"));
}

TEST_F(LabReport, BaseStandsBesidePublishedRotations) {
  Results results{.lab = "base", .machine = "m", .commit = "c"};
  results.settings = {{"train_length", 512}};
  const auto add = [&](const char* variant, double perplexity) {
    results.rows.push_back(
        {.variant = variant, .at = {{"length", 512}}, .metric = "perplexity", .value = perplexity});
  };
  add("proportional 0.75", 4.0);
  add("base 1000", 1.0);  // has no published counterpart
  EXPECT_THAT(report_of(results), HasSubstr("| Wiki | too few | 1 |"));
  add("partial 0.75", 5.0);
  add("base 10000", 6.0);
  add("proportional 0.25", 7.0);
  add("none", 8.0);
  const std::string report = report_of(results);
  EXPECT_THAT(report, HasSubstr("| RoPE, base 10,000 | base 10000 | 4.4627 | 6.4429 |"));
  // FlanV2 has base 10,000 before the partial rotation: 1 - 6 * 2 / (5 * 24).
  EXPECT_THAT(report, HasSubstr("| Wiki | 1.00 | 5 |\n| FlanV2 | 0.90 | 5 |"));
}

TEST_F(LabReport, ExtendStandsBesideTwoPublishedContexts) {
  Results results{.lab = "extend", .machine = "m", .commit = "c"};
  results.settings = {{"train_length", 512},
                      {"tune_share", 0.05},
                      {"factors", Json::Array{2, 4}},
                      {"recipes", Json::array()}};
  const auto add = [&](const char* variant, double length, double perplexity) {
    results.rows.push_back({.variant = variant,
                            .at = {{"length", length}, {"tuned", 0}},
                            .metric = "perplexity",
                            .value = perplexity});
  };
  for (const auto& [recipe, perplexity] :
       {std::pair("longrope", 1.0), std::pair("yarn", 2.0), std::pair("dynamic", 3.0)}) {
    add((std::string(recipe) + " x2").c_str(), 1024, perplexity);
    add((std::string(recipe) + " x4").c_str(), 2048, -perplexity);
  }
  const std::string report = report_of(results);
  EXPECT_THAT(report, HasSubstr("| dynamic NTK | 3.50 | 3.87 |"));
  EXPECT_THAT(report, HasSubstr("| 1024 (2 times) | 8k (2 times) | 1.00 | 3 |\n"
                                "| 2048 (4 times) | 16k (4 times) | -1.00 | 3 |"));
}

}  // namespace
}  // namespace rotary::roformer::lab
