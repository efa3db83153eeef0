// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Settings of the labs: their defaults, changes by a file, and errors.
#include "json/json.h"
#include "lab_testing.h"
#include "roformer/lab/settings.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
using testing::HasSubstr;

class LabSettingFiles : public ScratchTest {};

TEST_F(LabSettingFiles, ConfigChangesSettings) {
  const Json defaults = {{"steps", 10},
                         {"model", {{"hidden_size", 8}, {"layers", 2}}},
                         {"encodings", Json::Array{{{"name", "rope"}, {"seeds", 3}}}}};
  const auto config = file("c.json", R"({"steps": 5, "model": {"layers": 1},
      "encodings": [{"name": "mine", "x": 1}, {"name": "rope", "seeds": 1}]})");
  const Json merged = merge_settings(defaults, config);
  EXPECT_EQ(merged.at("steps").as_int64(), 5);
  EXPECT_EQ(merged.at("model").at("hidden_size").as_int64(), 8);
  EXPECT_EQ(merged.at("model").at("layers").as_int64(), 1);
  ASSERT_EQ(merged.at("encodings").size(), 2U);
  EXPECT_EQ(merged.at("encodings").elements()[0].at("seeds").as_int64(), 1);
  EXPECT_EQ(merged.at("encodings").elements()[1].at("name").as_string(), "mine");
}

TEST_F(LabSettingFiles, RefusesUnknownSettings) {
  const Json defaults = {{"steps", 10}, {"corpus", {{"train", "a"}}}};
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"stepz": 5})", "stepz: no setting of this lab; perhaps steps"},
           {R"({"steps": "many"})", "steps: must be number"},
           {R"({"corpus": {"trian": "b"}})", "corpus.trian: no setting of this lab; perhaps train"},
           {R"({"corpus": {"train": 3}})", "corpus.train: must be string"},
           {R"({"corpus": 3})", "corpus: must be object"},
           {"[1]", "must be a JSON object"},
           {"{", "c.json"}}) {
    const auto config = file("c.json", text);
    EXPECT_THAT(thrown([&] { merge_settings(defaults, config); }), HasSubstr(message));
  }
}

TEST(LabSettings, NameTheKey) {
  const Settings settings(Json{{"steps", 0}, {"lengths", std::vector{0}}, {"rate", -1.0}});
  EXPECT_THAT(thrown([&] { settings.integer("steps", 1); }), HasSubstr("steps must be"));
  EXPECT_THAT(thrown([&] { settings.integers("lengths"); }), HasSubstr("lengths must be"));
  EXPECT_THAT(thrown([&] { settings.number("rate"); }), HasSubstr("rate must be"));
  EXPECT_THAT(thrown([&] { settings.list("lengths"); }), HasSubstr("names"));
  EXPECT_THAT(thrown([&] { settings.at("none"); }), HasSubstr("no setting none"));
}

TEST(LabSettings, RefuseKeysThatNoModelHas) {
  EXPECT_THAT(thrown([] { model_config({{{"name", "x"}, {"rope_tehta", 3}}}, "settings of x"); }),
              HasSubstr("settings of x: rope_tehta"));
}

}  // namespace
}  // namespace rotary::roformer::lab
