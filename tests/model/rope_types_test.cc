// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every rope_type: the recipe that its keys describe, and the keys that it does not read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::rope_types_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ModelRope rope_of(const std::string& parameters) {
  return Model::from_config(
             R"({"model_type": "roformer", "hidden_size": 32, "num_attention_heads": 4,
      "max_position_embeddings": 64, "rope_parameters": )" +
                 parameters + "}",
             "config.json")
      .rope();
}

struct RopeType {
  std::string parameters;  // without the braces
  Scaling scaling;
  Wavelengths wavelengths = Wavelengths::kExact;
};

std::vector<RopeType> every_type() {
  const std::vector<double> four = {1, 2, 3, 4};
  const std::vector<double> ones = {1, 1, 1, 1};
  return {
      {R"("rope_type": "default")", Plain{}},
      {R"("rope_type": "linear", "factor": 4)", Linear{.factor = 4}},
      {R"("rope_type": "ntk", "factor": 4)", Ntk{.factor = 4}},
      {R"("rope_type": "ntk", "factor": 4, "mixed_b": 0.6)", Ntk{.factor = 4, .mixed_b = 0.6}},
      {R"("rope_type": "ntk_alpha", "alpha": 8)", NtkAlpha{.alpha = 8}},
      {R"("rope_type": "dynamic", "factor": 2)", DynamicNtk{.factor = 2, .original_context = 64}},
      {R"("rope_type": "dynamic", "factor": 2, "original_max_position_embeddings": 16)",
       DynamicNtk{.factor = 2, .original_context = 16}},
      {R"("rope_type": "dynamic", "alpha": 3)",
       DynamicNtk{.factor = 1, .original_context = 64, .alpha = 3}},
      {R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16)",
       Yarn{.factor = 4, .original_context = 16}},
      {R"("rope_type": "yarn_paper", "factor": 4, "original_max_position_embeddings": 16,
          "alpha": 2, "beta": 8)",
       YarnPaper{.factor = 4, .original_context = 16, .alpha = 2, .beta = 8}},
      {R"("rope_type": "yarn_walkthrough", "factor": 4, "original_max_position_embeddings": 16)",
       YarnWalkthrough{.factor = 4, .original_context = 16}},
      {R"("rope_type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4],
          "original_max_position_embeddings": 16)",
       LongRope{.short_factor = ones, .long_factor = four, .original_context = 16, .factor = 4}},
      {R"("rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 16,
          "low_freq_factor": 1, "high_freq_factor": 4)",
       Llama3{.factor = 8, .original_context = 16}},
      {R"("rope_type": "proportional", "partial_rotary_factor": 0.5)",
       Proportional{.fraction = 0.5}},
      {R"("rope_type": "divisors", "divisor": [1, 2, 3, 4])", Divisors{four}},
      {R"("rope_type": "learnable", "log_gain": [1, 2, 3, 4])", Learnable{four}},
      {R"("rope_type": "receptive_field", "alpha": 0.3, "rho": 0.5)",
       ReceptiveField{.alpha = 0.3, .rho = 0.5}},
      {R"("rope_type": "xpos", "scale_base": 128, "gamma": 0.3, "origin": 5)",
       Xpos{.scale_base = 128, .gamma = 0.3, .origin = 5}},
      {R"("rope_type": "resonance")", Plain{}, Wavelengths::kWhole},
      {R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16,
          "resonance": true)",
       Yarn{.factor = 4, .original_context = 16}, Wavelengths::kWhole},
  };
}

TEST(RopeTypes, KeysDescribeTheRecipe) {
  for (const RopeType& type : every_type()) {
    const ModelRope rope = rope_of("{" + type.parameters + "}");
    EXPECT_EQ(name_of(rope.recipe.scaling), name_of(type.scaling)) << type.parameters;
    EXPECT_THAT(rope.ignored_keys, IsEmpty()) << type.parameters;
    const Recipe wanted{
        .rotary_dim = 8, .theta = 10000, .scaling = type.scaling, .wavelengths = type.wavelengths};
    for (const std::int64_t context : {0, 16, 17, 64, 65, 4096}) {
      const Frequencies got = rope.make_frequencies(context);
      const Frequencies f = make_frequencies(wanted, context);
      EXPECT_EQ(got.values, f.values) << type.parameters << " at " << context;
      EXPECT_EQ(got.scale, f.scale) << type.parameters << " at " << context;
      EXPECT_EQ(got.growth, f.growth) << type.parameters;
      EXPECT_EQ(got.growth_origin, f.growth_origin) << type.parameters;
    }
  }
}

TEST(RopeTypes, OtherKeysAreReported) {
  for (const RopeType& type : every_type()) {
    const ModelRope rope = rope_of("{" + type.parameters + R"(, "wrong": 1})");
    EXPECT_THAT(rope.ignored_keys, ElementsAre("wrong")) << type.parameters;
  }
  EXPECT_THAT(rope_of(R"({"rope_type": "linear", "factor": 4, "beta_fast": 32})").ignored_keys,
              ElementsAre("beta_fast"));
}

TEST(RopeTypes, PartialRotationHoldsForEveryType) {
  const ModelRope rope = rope_of(R"({"rope_type": "default", "partial_rotary_factor": 0.5})");
  EXPECT_EQ(rope.recipe.rotary_dim, 4);
  EXPECT_EQ(rope.layout.head_dim, 8);
}

TEST(RopeTypes, NeedTheirKeys) {
  const std::pair<std::string, std::string> cases[] = {
      {"ntk_alpha", "alpha"},  {"yarn_paper", "factor"},  {"yarn_walkthrough", "factor"},
      {"divisors", "divisor"}, {"learnable", "log_gain"}, {"receptive_field", "alpha"}};
  for (const auto& [type, key] : cases) {
    try {
      rope_of(R"({"rope_type": ")" + type + R"("})");
      ADD_FAILURE() << type;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()),
                "[Model] config.json: rope_type \"" + type + "\" needs the key \"" + key + "\"");
    }
  }
}

}  // namespace
}  // namespace rotary::rope_types_test
