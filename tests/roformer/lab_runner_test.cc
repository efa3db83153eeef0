// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The framework of the labs: results and the runner.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "json/json.h"
#include "lab_testing.h"
#include "roformer/lab/machine.h"
#include "roformer/lab/runner.h"
#include "roformer/lab/settings.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Units a, b, c with two seeds; value = 10 * seed + 1.
class ToyLab final : public Lab {
 public:
  explicit ToyLab(Json settings = {{"steps", 3}}) : settings_(std::move(settings)) {}
  const Json& settings() const override { return settings_; }
  std::vector<Unit> units() const override {
    std::vector<Unit> units = units_of({{{"name", "a"}}, {{"name", "b"}}, {{"name", "c"}}}, 2);
    for (Unit& unit : units) {
      unit.alone = unit.variant == alone;
      if (unit.variant == costly) unit.cost = 8.0;
    }
    return units;
  }
  std::vector<Row> run(const UnitRun& run) override {
    ++calls;
    order += run.unit.variant;
    std::this_thread::sleep_for(takes);
    for (const double share : shares) run.progress(share);
    if (run.unit.variant == fails) throw std::runtime_error("out of luck");
    if (run.unit.variant == stops && run.unit.seed == 1) throw Stopped();
    return {run.row("loss", 10.0 * static_cast<double>(run.unit.seed) + 1.0, {{"length", 8}})};
  }

  std::string fails;
  std::string stops;
  std::string alone;
  /// Of which a unit costs 8 times another.
  std::string costly;
  /// That each unit tells, after a time.
  std::vector<double> shares;
  std::chrono::milliseconds takes{0};
  std::string order;
  std::atomic<int> calls = 0;

 private:
  Json settings_;
};

class LabRunner : public LabTest {
 protected:
  LabOptions toy() const { return {.folder = path("toy")}; }
  Results toy_results() const { return read_results(path("toy") / "results.json"); }
};

TEST_F(LabRunner, UnitsThatMeasureSpeedAreTheFirst) {
  ToyLab lab;
  lab.alone = "b";
  EXPECT_TRUE(run_lab("toy", lab, toy(), {}));
  EXPECT_EQ(lab.order, "bbaacc");
  // Rows stay in the order of the units.
  EXPECT_EQ(toy_results().rows.front().variant, "a");
  EXPECT_EQ(toy_results().rows.back().variant, "c");
}

// ---- Results ------------------------------------------------------------------------------------

TEST_F(LabRunner, ResultsRoundTrip) {
  Results results{.lab = "length", .machine = "m", .commit = "c", .settings = {{"steps", 3}}};
  results.rows = {
      {.variant = "rope", .seed = 1, .at = {{"length", 1024}}, .metric = "p", .value = 2.5},
      {.variant = "learned",
       .at = {{"depth", 0.25}},
       .metric = "p",
       .note = "beyond",
       .commit = "1a94890"}};
  write_results(path("r.json"), results);
  const Results read = read_results(path("r.json"));
  EXPECT_EQ(to_json(read), to_json(results));
  EXPECT_EQ(read.rows[0].at.at("length"), 1024);
  EXPECT_FALSE(read.rows[1].has_value());
  EXPECT_EQ(read.rows[1].commit, "1a94890");
  EXPECT_THAT(
      read_file(path("r.json")),
      HasSubstr(R"({"variant":"rope","seed":1,"at":{"length":1024},"metric":"p","value":2.5})"));
}

TEST_F(LabRunner, RefusesFilesThatAreNoResults) {
  for (const char* text : {"", "[]", "{}", R"({"lab": 3})", R"({"lab":"a","machine":"","commit":"",
       "settings":{},"rows":[{"variant":1}]})"}) {
    const auto bad = file("bad.json", text);
    EXPECT_THAT(thrown([&] { read_results(bad); }), HasSubstr("bad.json")) << text;
  }
}

TEST_F(LabRunner, SummarizesOverSeeds) {
  Results results;
  for (const double value : {1.0, 2.0, 3.0}) {
    results.rows.push_back(
        {.variant = "rope", .at = {{"length", 8}}, .metric = "p", .value = value});
  }
  results.rows.push_back(
      {.variant = "rope", .at = {{"length", 16}}, .metric = "p", .note = "beyond"});
  const auto found = summarize(results, "rope", "p", {{"length", 8}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 3);
  EXPECT_DOUBLE_EQ(found->mean, 2.0);
  EXPECT_DOUBLE_EQ(found->spread, 1.0);
  EXPECT_EQ(cell(*found, 2), "2.00 ± 1.00");
  EXPECT_FALSE(summarize(results, "rope", "p", {{"length", 16}}));
  const Table table = table_over(results, "p", "length");
  EXPECT_THAT(table.head, ElementsAre("variant", "length 8", "length 16"));
  EXPECT_THAT(table.rows.at(0), ElementsAre("rope", "2.00 ± 1.00", "beyond"));
}

// ---- The runner ---------------------------------------------------------------------------------

TEST_F(LabRunner, ContinuesWhereItWasInterrupted) {
  ToyLab whole;
  ASSERT_TRUE(run_lab("toy", whole, {.folder = path("whole")}, {}));
  ToyLab first;
  first.stops = "b";
  EXPECT_FALSE(run_lab("toy", first, toy(), {}));
  EXPECT_EQ(toy_results().rows.size(), 3U);
  ToyLab second;
  EXPECT_TRUE(run_lab("toy", second, toy(), {}));
  EXPECT_EQ(second.calls, 3);
  EXPECT_EQ(read_file(path("toy") / "results.json"), read_file(path("whole") / "results.json"));
  // Nothing is left to do.
  ToyLab third;
  EXPECT_TRUE(run_lab("toy", third, toy(), {}));
  EXPECT_EQ(third.calls, 0);
}

TEST_F(LabRunner, StopsBetweenUnits) {
  ToyLab lab;
  const LabEvents events{.stop = [&] { return lab.calls >= 2; }};
  EXPECT_FALSE(run_lab("toy", lab, toy(), events));
  EXPECT_EQ(lab.calls, 2);
  EXPECT_EQ(toy_results().rows.size(), 2U);
}

TEST_F(LabRunner, ShowsProgressByTheCostOfUnits) {
  ToyLab lab;
  lab.costly = "a";
  lab.shares = {0.5, 0.2};
  std::vector<std::string> shown;
  EXPECT_TRUE(
      run_lab("toy", lab, toy(), {.show = [&](const auto& line) { shown.push_back(line); }}));
  ASSERT_EQ(shown.size(), 18U);
  // 4 of 2 x 8 + 4 x 1; a share does not fall.
  EXPECT_THAT(shown[0], StartsWith("0 of 6 units, 20 %, "));
  EXPECT_THAT(shown[1], StartsWith("0 of 6 units, 20 %, "));
  EXPECT_THAT(shown[2], StartsWith("1 of 6 units, 40 %, "));
  EXPECT_THAT(shown[8], StartsWith("3 of 6 units, 85 %, "));
  EXPECT_EQ(shown.back(), "6 of 6 units, 100 %, 0 s left");
}

TEST_F(LabRunner, ShowsTheTimeLeft) {
  ToyLab lab;
  lab.shares = {0.001};
  lab.takes = std::chrono::milliseconds(20);
  lab.stops = "a";
  std::vector<std::string> shown;
  EXPECT_FALSE(
      run_lab("toy", lab, toy(), {.show = [&](const auto& line) { shown.push_back(line); }}));
  // 20 ms and more for a 6000th of the work: two minutes and more are left.
  EXPECT_THAT(shown.at(0), testing::ContainsRegex("^0 of 6 units, 0 %, .*[0-9]+ min.* left$"));
  EXPECT_THAT(shown.at(1), testing::ContainsRegex("^1 of 6 units, 17 %, [0-9]+ s left$"));
}

TEST_F(LabRunner, RowsNameTheirCommit) {
  ToyLab lab;
  LabOptions some = toy();
  some.variants = {"a"};
  EXPECT_TRUE(run_lab("toy", lab, some, {}));
  // Rows of another commit, and of a file from before rows had one.
  Results before = toy_results();
  before.rows[0].commit = "0000000";
  before.rows[1].commit = "";
  before.commit = "0000000";
  write_results(path("toy") / "results.json", before);
  EXPECT_TRUE(run_lab("toy", lab, toy(), {}));
  const Results after = toy_results();
  EXPECT_EQ(after.commit, "0000000, " + commit_name());
  EXPECT_EQ(after.rows[0].commit, "0000000");
  EXPECT_EQ(after.rows[1].commit, "");
  EXPECT_EQ(after.rows[2].commit, commit_name());
}

TEST_F(LabRunner, KeepsFailedUnits) {
  ToyLab lab;
  lab.fails = "b";
  std::vector<std::string> lines;
  EXPECT_TRUE(
      run_lab("toy", lab, toy(), {.say = [&](const auto& line) { lines.push_back(line); }}));
  EXPECT_EQ(toy_results().rows.size(), 6U);
  EXPECT_EQ(toy_results().rows[2].metric, kFailed);
  EXPECT_EQ(toy_results().rows[2].note, "out of luck");
  EXPECT_THAT(lines.at(2), HasSubstr("failed: out of luck"));
  // Not run again, unless asked for.
  ToyLab again;
  EXPECT_TRUE(run_lab("toy", again, toy(), {}));
  EXPECT_EQ(again.calls, 0);
  LabOptions retry = toy();
  retry.retry = true;
  EXPECT_TRUE(run_lab("toy", again, retry, {}));
  EXPECT_EQ(again.calls, 2);
  EXPECT_TRUE(std::ranges::none_of(toy_results().rows,
                                   [](const Row& row) { return row.metric == kFailed; }));
}

TEST_F(LabRunner, RowsHaveTheOrderOfTheUnits) {
  ToyLab lab;
  LabOptions only = toy();
  only.variants = {"c", "a"};
  EXPECT_TRUE(run_lab("toy", lab, only, {}));
  EXPECT_EQ(lab.calls, 4);
  EXPECT_TRUE(run_lab("toy", lab, toy(), {}));
  std::string order;
  for (const Row& row : toy_results().rows) order += row.variant;
  EXPECT_EQ(order, "aabbcc");
}

TEST_F(LabRunner, RefusesOtherSettingsByName) {
  ToyLab lab;
  EXPECT_TRUE(run_lab("toy", lab, toy(), {}));
  ToyLab other({{"steps", 4}});
  EXPECT_THAT(thrown([&] { run_lab("toy", other, toy(), {}); }),
              HasSubstr("steps: 3 there, 4 here"));
  EXPECT_THAT(thrown([&] { run_lab("game", lab, toy(), {}); }), HasSubstr("lab: toy there"));
  LabOptions wrong = toy();
  wrong.variants = {"d"};
  EXPECT_THAT(thrown([&] { run_lab("toy", lab, wrong, {}); }), HasSubstr("no variant d"));
}

/// Settings with an entry for each variant of the toy; `changed` has another key.
Json toy_entries(const std::string& changed = "") {
  Json entries = Json::array();
  for (const char* name : {"a", "b", "c"}) {
    Json entry = {{"name", name}};
    if (name == changed) entry["rate"] = 3;
    entries.push_back(std::move(entry));
  }
  return {{"steps", 3}, {"encodings", entries}};
}

TEST_F(LabRunner, NumbersOfSeedsAreNoOtherSettings) {
  Json more = toy_entries();
  more["encodings"] = Json::array();
  for (const char* name : {"a", "b", "c"}) {
    more["encodings"].push_back({{"name", name}, {"seeds", 3}});
  }
  EXPECT_EQ(difference(toy_entries(), more), "");
  EXPECT_EQ(difference(more, toy_entries()), "");
  EXPECT_THAT(difference(more, toy_entries("b")), HasSubstr("encodings: "));
}

TEST_F(LabRunner, RunsVariantsAgainWhoseEntriesChanged) {
  ToyLab before(toy_entries());
  EXPECT_TRUE(run_lab("toy", before, toy(), {}));
  ToyLab after(toy_entries("b"));
  LabOptions again = toy();
  again.variants = {"b"};
  EXPECT_THAT(thrown([&] { run_lab("toy", after, again, {}); }), HasSubstr("encodings: "));
  again.rerun = true;
  // Rows of another entry are not taken over.
  ToyLab other(toy_entries("c"));
  EXPECT_THAT(thrown([&] { run_lab("toy", other, again, {}); }), HasSubstr("encodings: "));
  EXPECT_EQ(toy_results().rows.size(), 6U);

  // A checkpoint of the old entry is not continued.
  const auto old = path("toy") / "runs" / "b-1";
  std::filesystem::create_directories(old);
  after.stops = "b";
  EXPECT_FALSE(run_lab("toy", after, again, {}));
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_EQ(after.calls, 2);  // seed 1 was interrupted
  EXPECT_EQ(toy_results().rows.size(), 5U);
  EXPECT_EQ(toy_results().settings, toy_entries("b"));
  // It is continued without the flag, and what is there is not run again.
  again.rerun = false;
  ToyLab last(toy_entries("b"));
  EXPECT_TRUE(run_lab("toy", last, again, {}));
  EXPECT_EQ(last.calls, 1);
  std::string order;
  for (const Row& row : toy_results().rows) order += row.variant;
  EXPECT_EQ(order, "aabbcc");
}

TEST_F(LabRunner, EntryOfSeveralVariantsChangesWithAllOfThem) {
  /// "cost b" measures what the entry b says, as in `length`.
  class CostLab final : public Lab {
   public:
    explicit CostLab(Json settings) : settings_(std::move(settings)) {}
    const Json& settings() const override { return settings_; }
    std::vector<Unit> units() const override {
      return {{.variant = "cost b", .entry = "b"}, {.variant = "b"}, {.variant = "a"}};
    }
    std::vector<Row> run(const UnitRun& run) override { return {run.row("loss", 1.0)}; }

   private:
    Json settings_;
  };
  CostLab before(toy_entries());
  EXPECT_TRUE(run_lab("toy", before, toy(), {}));
  CostLab after(toy_entries("b"));
  LabOptions again = toy();
  again.rerun = true;
  again.variants = {"b"};
  EXPECT_THAT(thrown([&] { run_lab("toy", after, again, {}); }), HasSubstr("encodings: "));
  again.variants = {"*b"};  // a pattern
  EXPECT_TRUE(run_lab("toy", after, again, {}));
  EXPECT_EQ(toy_results().rows.size(), 3U);
}

TEST_F(LabRunner, SettingOfSomeUnitsChangesWithAllOfThem) {
  /// "try b" and "try c" depend on `rates`, as in `length`; `tried` of them are there.
  class RateLab final : public Lab {
   public:
    RateLab(int rates, std::string tried)
        : settings_({{"steps", 3}, {"rates", {{"values", std::vector<int>(rates, 1)}}}}),
          tried_(std::move(tried)) {}
    const Json& settings() const override { return settings_; }
    std::vector<Unit> units() const override {
      std::vector<Unit> units = {{.variant = "a"}};
      for (const char name : tried_) {
        units.push_back({.variant = std::string("try ") + name, .setting = "rates"});
      }
      return units;
    }
    std::vector<Row> run(const UnitRun& run) override {
      ran += run.unit.variant.back();
      return {run.row("loss", 1.0)};
    }
    std::string ran;

   private:
    Json settings_;
    std::string tried_;
  };
  RateLab before(2, "bc");
  EXPECT_TRUE(run_lab("toy", before, toy(), {}));
  LabOptions again = toy();
  again.rerun = true;
  const auto refusal = [&](const std::string& variant, const std::string& tried) {
    again.variants = {variant};
    RateLab after(3, tried);
    return thrown([&] { run_lab("toy", after, again, {}); });
  };
  EXPECT_THAT(refusal("try b", "bc"), HasSubstr("rates: "));
  // Rows of "try c" would stay.
  EXPECT_THAT(refusal("try b", "b"), HasSubstr("rates: "));
  EXPECT_THAT(refusal("a", "bc"), HasSubstr("rates: "));
  again.variants = {"try *"};
  RateLab after(3, "bc");
  EXPECT_TRUE(run_lab("toy", after, again, {}));
  EXPECT_EQ(after.ran, "bc");
  EXPECT_EQ(toy_results().settings, after.settings());
  EXPECT_EQ(toy_results().rows.size(), 3U);
}

TEST_F(LabRunner, VariantsMayBePatterns) {
  ToyLab lab;
  LabOptions some = toy();
  some.variants = {"[ac]"};
  EXPECT_TRUE(run_lab("toy", lab, some, {}));
  EXPECT_EQ(lab.order, "aacc");
  some.variants = {"x*"};
  EXPECT_THAT(thrown([&] { run_lab("toy", lab, some, {}); }), HasSubstr("no variant x*"));
}

TEST(LabList, FindsLabs) {
  for (const LabInfo& info : labs()) EXPECT_EQ(&find_lab(info.name), &info);
  EXPECT_THAT(thrown([] { find_lab("lenght"); }), HasSubstr("perhaps length"));
}

}  // namespace
}  // namespace rotary::roformer::lab
