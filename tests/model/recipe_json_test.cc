// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every scaling on every axis map as JSON, and read again: the same bits.

#include "rotary/recipe_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rope/every_recipe.h"
#include "rotary/error.h"
#include "rotary/model.h"

namespace rotary::recipe_json_test {
namespace {

using ::testing::HasSubstr;

void expect_same(const Frequencies& a, const Frequencies& b, const std::string& what) {
  EXPECT_EQ(a.pairs, b.pairs) << what;
  EXPECT_EQ(a.axes, b.axes) << what;
  EXPECT_EQ(a.values, b.values) << what;
  EXPECT_EQ(a.scale, b.scale) << what;
  EXPECT_EQ(a.softmax_scale, b.softmax_scale) << what;
  EXPECT_EQ(a.growth, b.growth) << what;
  EXPECT_EQ(a.growth_origin, b.growth_origin) << what;
}

/// Every scaling on every axis map, and every other member of a recipe once.
std::vector<Recipe> recipes() {
  std::vector<double> mixed;
  for (int i = 0; i < 24; ++i) mixed.push_back(0.1 + i / 7.0);
  struct Map {
    AxisMap map;
    std::int64_t pairs;
  };
  const std::vector<Map> maps = {
      {OneAxis{}, 12},
      {Axial{.order = AxialOrder::kAlternating}, 6},
      {Axial{.ladder = AxialLadder::kStrided}, 12},
      {Axial{.axes = 3, .dims = {8, 8, 8}, .axis_order = {2, 0, 1}}, 4},
      {Mrope{{4, 5, 3}, MropeOrder::kInterleaved}, 12},
      {Mrope{{4, 5, 3}, MropeOrder::kRoundRobin}, 12},
      {Mrope{{2, 5, 5}, MropeOrder::kSpatialFirst}, 12},
      {Mrope{{2, 5, 5}, MropeOrder::kSpatialBlocks}, 12},
      {Mrope{{3, 3, 3, 3}}, 12},
      {Mixed{.axes = 2, .frequencies = mixed}, 12},
  };
  std::vector<Recipe> result;
  for (const Map& map : maps) {
    for (const Scaling& scaling : every_scaling(map.pairs)) {
      result.push_back(
          {.rotary_dim = 24, .theta = 12345.678901234567, .scaling = scaling, .axes = map.map});
    }
  }
  const Yarn yarn{.factor = 4.1,
                  .original_context = 64,
                  .beta_fast = 30.3,
                  .beta_slow = 1.5,
                  .truncate = false,
                  .mscale = 0.707,
                  .mscale_all_dim = 0.9,
                  .softmax_correction = SoftmaxCorrection::kMscaleAllDimSquared};
  result.push_back({.rotary_dim = 24, .theta = 1e4, .scaling = yarn});
  result.push_back({.rotary_dim = 24,
                    .theta = 1e4,
                    .ladder_dim = 23,
                    .direction = RotationDirection::kBackward,
                    .gain = 0.1});
  result.push_back({.rotary_dim = 24, .theta = 1e4, .wavelengths = Wavelengths::kWhole});
  result.push_back({.rotary_dim = 24,
                    .theta = 1e4,
                    .scaling = YarnWalkthrough{
                        .factor = 4, .original_context = 64, .ramp = WalkthroughRamp::kProse}});
  return result;
}

TEST(RecipeJson, RoundTripGivesTheSameBits) {
  for (const Recipe& recipe : recipes()) {
    const std::string text = to_json(recipe);
    const Recipe again = recipe_from_json(text);
    EXPECT_EQ(to_json(again), text);
    for (const std::int64_t context : {0, 100}) {
      expect_same(make_frequencies(again, context), make_frequencies(recipe, context), text);
    }
  }
}

// The same object as rope_parameters of a config.
TEST(RecipeJson, IsReadAsRopeParameters) {
  for (const Recipe& recipe : recipes()) {
    const std::string text = to_json(recipe);
    const Model model = Model::from_config(
        R"({"model_type": "not_known", "head_dim": 24, "max_position_embeddings": 64,
            "hidden_size": 96, "num_attention_heads": 4, "rope_parameters": )" +
        text + "}");
    const ModelRope& rope = model.rope();
    EXPECT_TRUE(rope.ignored_keys.empty()) << text << rope.ignored_keys.front();
    EXPECT_EQ(static_cast<std::int64_t>(rope.axes.size()), axes_of(recipe.axes)) << text;
    for (const std::int64_t context : {0, 100}) {
      expect_same(rope.make_frequencies(context), make_frequencies(recipe, context), text);
    }
  }
}

TEST(RecipeJson, ReadsNamesOfConfigs) {
  const Recipe recipe = recipe_from_json(
      R"({"rope_type": "llama3", "rope_theta": 500000, "factor": 8, "low_freq_factor": 1,
          "original_max_position_embeddings": 8192, "rotary_dim": 128})");
  const Recipe expected{
      .rotary_dim = 128, .theta = 5e5, .scaling = Llama3{.factor = 8, .original_context = 8192}};
  expect_same(make_frequencies(recipe), make_frequencies(expected), "llama3");
}

TEST(RecipeJson, Rejects) {
  struct Case {
    const char* json;
    const char* message;
  };
  const Case cases[] = {
      {R"([])", "[recipe] r.json: a recipe must be an object, got array"},
      {R"({"type": "yarm"})", "unknown type \"yarm\"; known are default, linear, ntk"},
      {R"({"type": 3})", "the type of a recipe must be a string"},
      {R"({"type": "yarn", "beta_fats": 3})", "unknown key \"beta_fats\"; did you mean"},
      {R"({"type": "linear", "factor": "4"})", "factor"},
      {R"({"type": "yarn", "truncate": 1})", "truncate must be true or false"},
      {R"({"direction": "left"})", "direction must be one of forward, backward, got \"\"left\"\""},
      {R"({"axis_map": {"type": "spiral"}})", "unknown axis_map \"spiral\""},
      {R"({"axis_map": {"type": "mrope", "sections": [1, 2], "order": "odd"}})", "order must be"},
  };
  for (const Case& each : cases) {
    try {
      recipe_from_json(each.json, "r.json");
      ADD_FAILURE() << each.json;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.message)) << each.json;
      EXPECT_THAT(error.what(), HasSubstr("r.json")) << each.json;
    }
  }
  EXPECT_THROW(recipe_from_json("{"), IoError);
}

}  // namespace
}  // namespace rotary::recipe_json_test
