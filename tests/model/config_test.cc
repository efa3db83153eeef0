// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reading of config.json: aliases of keys, defaults, warnings and errors. Frequencies are compared
// with transformers in golden_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/family.h"
#include "rotary/model.h"

namespace rotary::config_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Model read(const std::string& json) { return Model::from_config(json, "config.json"); }

std::vector<std::string> names(const Model& model) {
  std::vector<std::string> result;
  for (const ModelRope& rope : model.ropes) result.push_back(rope.name);
  return result;
}

template <typename Recipe>
const Recipe& scaling(const ModelRope& rope) {
  return std::get<Recipe>(rope.recipe.scaling);
}

constexpr const char* kLlama = R"("model_type": "llama", "hidden_size": 4096,
  "num_attention_heads": 32, "max_position_embeddings": 8192)";

std::string llama_with(const std::string& more) {
  return std::string("{") + kLlama + ", " + more + "}";
}

TEST(Config, CompleteFileHasNoAssumptions) {
  const ModelRope rope = read(llama_with(R"("rope_theta": 5e5)")).rope();
  EXPECT_EQ(rope.recipe.theta, 5e5);
  EXPECT_EQ(rope.layout.head_dim, 128);
  EXPECT_EQ(*rope.layout.pairing, Pairing::kHalf);
  EXPECT_THAT(rope.assumed, IsEmpty());
  EXPECT_THAT(rope.warnings, IsEmpty());
}

TEST(Config, FamilyDefaultsAreReportedAsAssumed) {
  const ModelRope rope = read(std::string("{") + kLlama + "}").rope();
  EXPECT_EQ(rope.recipe.theta, 10000.0);
  EXPECT_THAT(rope.assumed, Contains(HasSubstr("rope_theta = 10000")));
}

TEST(Config, MissingThetaOfAnUnknownFamilyIsAnError) {
  try {
    read(R"({"model_type": "nobody_knows", "hidden_size": 64, "num_attention_heads": 4,
             "rope_scaling": {"type": "linear", "factor": 2}})");
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("rope_theta is missing"));
    EXPECT_THAT(error.what(), HasSubstr("nobody_knows"));
  }
}

TEST(Config, UnknownFamiliesAreReadWithAssumptions) {
  const ModelRope rope = read(R"({"model_type": "nobody_knows", "hidden_size": 64,
    "num_attention_heads": 4, "rope_theta": 100, "partial_rotary_factor": 0.5})")
                             .rope();
  EXPECT_EQ(rope.recipe.rotary_dim, 8);
  EXPECT_THAT(rope.assumed, Contains(HasSubstr("pairing half")));
}

TEST(Config, AliasesOfThetaAndPartialRotaryFactor) {
  const ModelRope neox = read(R"({"model_type": "gpt_neox", "hidden_size": 6144,
    "num_attention_heads": 64, "rotary_emb_base": 20000, "rotary_pct": 0.5})")
                             .rope();
  EXPECT_EQ(neox.recipe.theta, 20000.0);
  EXPECT_EQ(neox.recipe.rotary_dim, 48);
  const ModelRope gptj = read(R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16,
    "n_positions": 2048, "rotary_dim": 32})")
                             .rope();
  EXPECT_EQ(gptj.layout.head_dim, 256);
  EXPECT_EQ(gptj.recipe.rotary_dim, 32);
  EXPECT_EQ(*gptj.layout.pairing, Pairing::kInterleaved);
  EXPECT_EQ(gptj.context.trained, 2048);
  const ModelRope dbrx = read(R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48,
    "attn_config": {"rope_theta": 500000}})")
                             .rope();
  EXPECT_EQ(dbrx.recipe.theta, 500000.0);
}

TEST(Config, OldAndNewDictionaries) {
  const char* old_form = R"("rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4,
    "original_max_position_embeddings": 2048})";
  const char* new_form = R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4,
    "original_max_position_embeddings": 2048})";
  for (const char* form : {old_form, new_form}) {
    const ModelRope rope = read(llama_with(form)).rope();
    EXPECT_EQ(scaling<Yarn>(rope).factor, 4.0) << form;
    EXPECT_EQ(scaling<Yarn>(rope).original_context, 2048) << form;
    EXPECT_EQ(rope.recipe.theta, 1e6) << form;
    EXPECT_EQ(rope.context.trained, 2048) << form;
    EXPECT_EQ(rope.context.extended, 8192) << form;
  }
}

TEST(Config, WarnsAboutDictionariesThatDiffer) {
  const ModelRope rope = read(llama_with(R"("rope_scaling": {"type": "linear", "factor": 2},
                         "rope_parameters": {"rope_type": "default", "rope_theta": 5})"))
                             .rope();
  EXPECT_EQ(scaling<Linear>(rope).factor, 2.0);
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("rope_scaling and rope_parameters differ")));
}

TEST(Config, WarnsAboutUnknownKeysWithTheNearestKey) {
  const ModelRope rope = read(llama_with(R"("rope_theta": 1e4, "rope_scaling": {"type": "yarn",
    "factor": 4, "original_max_position_embeddings": 2048, "attn_factor": 1.0, "xyzzy": 1,
    "short_factor": [1]})"))
                             .rope();
  EXPECT_THAT(rope.warnings,
              Contains(HasSubstr("\"attn_factor\" is unknown and ignored; did you mean "
                                 "\"attention_factor\"?")));
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("\"xyzzy\" is unknown and ignored")));
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("\"short_factor\" is ignored")));
}

TEST(Config, WarnsAboutContradictingFactors) {
  const ModelRope rope = read(llama_with(R"("rope_theta": 1e4, "rope_scaling": {"type": "yarn",
    "factor": 7, "original_max_position_embeddings": 2048})"))
                             .rope();
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("factor 7 contradicts")));
}

TEST(Config, DeepseekHasScaleAndSoftmaxScale) {
  const ModelRope rope = read(R"({"model_type": "deepseek_v3", "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840, "rope_theta": 10000, "rope_scaling": {"type": "yarn",
    "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
    "original_max_position_embeddings": 4096}})")
                             .rope();
  const Frequencies f = rope.make_frequencies();
  EXPECT_DOUBLE_EQ(f.scale, 1.0);
  const double m = 0.1 * std::log(40.0) + 1.0;
  EXPECT_NEAR(f.softmax_scale, m * m, 1e-15);
  EXPECT_EQ(*rope.layout.pairing, Pairing::kInterleaved);
  EXPECT_EQ(*rope.layout.output_pairing, Pairing::kHalf);
}

TEST(Config, SparseAttentionHasAnIndexerRope) {
  const Model model = read(R"({"model_type": "deepseek_v32", "rope_theta": 10000})");
  EXPECT_THAT(names(model), ElementsAre("default", "indexer"));
  EXPECT_EQ(*model.rope().layout.pairing, Pairing::kInterleaved);
  EXPECT_EQ(*model.rope("indexer").layout.pairing, Pairing::kHalf);
}

TEST(Config, LayerTypesInOldAndNewFormat) {
  const char* old_form = R"({"model_type": "gemma3_text", "rope_theta": 1e6,
    "rope_local_base_freq": 20000, "rope_scaling": {"rope_type": "linear", "factor": 8},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})";
  const char* new_form = R"({"model_type": "gemma3_text", "rope_parameters": {
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20000}},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})";
  for (const char* form : {old_form, new_form}) {
    const Model model = read(form);
    EXPECT_THAT(names(model), ElementsAre("full_attention", "sliding_attention"));
    EXPECT_EQ(scaling<Linear>(model.rope("full_attention")).factor, 8.0);
    EXPECT_EQ(model.rope("sliding_attention").recipe.theta, 20000.0);
    EXPECT_EQ(model.rope("sliding_attention").recipe.scaling.index(), Scaling(Plain{}).index());
    EXPECT_THAT(model.rope("sliding_attention").layers, ElementsAre(0, 2));
    EXPECT_EQ(&model.rope(), &model.rope("full_attention"));
  }
}

TEST(Config, WarnsAboutUnreadTopLevelKeys) {
  const ModelRope rope = read(llama_with(R"("rope_theta": 1e4, "rope_thetta": 5e5,
    "use_dynamic_ntk": true, "rotary_scaling_factor": 2, "rope_interleave": true)"))
                             .rope();
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("\"rope_thetta\" is not read; did you mean "
                                                "\"rope_theta\"?")));
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("\"use_dynamic_ntk\" is not read")));
  EXPECT_THAT(rope.warnings, Contains(HasSubstr("\"rotary_scaling_factor\" is not read")));
  EXPECT_EQ(rope.warnings.size(), 3u);
}

TEST(Config, LatentAttentionOfUnknownFamilies) {
  const char* scaled = R"("rope_theta": 5e4, "qk_rope_head_dim": 64,
    "max_position_embeddings": 131072, "rope_scaling": {"type": "yarn", "factor": 32,
    "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}})";
  for (const char* type : {"kimi_k2", "nobody_knows"}) {
    const ModelRope rope = read(std::string(R"({"model_type": ")") + type + "\", " + scaled).rope();
    EXPECT_EQ(*rope.layout.pairing, Pairing::kInterleaved) << type;
    EXPECT_NEAR(rope.make_frequencies().softmax_scale, 1.813, 1e-3) << type;
    EXPECT_EQ(rope.assumed.empty(), std::string(type) == "kimi_k2") << type;
  }
}

TEST(Config, AliasesOfRopeCauseNoWarning) {
  for (const char* type : {"rope", "rope_gptj", "rotary"}) {
    const ModelRope rope = read(llama_with(std::string(R"("rope_theta": 1e4,
      "position_embedding_type": ")") + type +
                                           "\""))
                               .rope();
    EXPECT_THAT(rope.warnings, IsEmpty()) << type;
  }
  EXPECT_THAT(read(llama_with(R"("rope_theta": 1e4, "position_embedding_type": "absolute")"))
                  .rope()
                  .warnings,
              Contains(HasSubstr("may not rotate")));
}

TEST(Config, RotaryDimIsRead) {
  const ModelRope rope = read(R"({"model_type": "minimax_m2", "rope_theta": 5e6, "head_dim": 128,
    "rotary_dim": 64})")
                             .rope();
  EXPECT_EQ(rope.recipe.rotary_dim, 64);
}

TEST(Config, LayersByPattern) {
  const Model model = read(R"({"model_type": "gemma3_text", "num_hidden_layers": 7,
    "sliding_window_pattern": 3})");
  EXPECT_THAT(model.rope("full_attention").layers, ElementsAre(2, 5));
  EXPECT_THAT(model.rope("sliding_attention").layers, ElementsAre(0, 1, 3, 4, 6));
}

TEST(Config, LayersWithoutRotation) {
  const Model nested = read(R"({"model_type": "nobody_knows", "head_dim": 64, "rope_parameters": {
    "full_attention": null, "sliding_attention": {"rope_theta": 10000}}})");
  EXPECT_THAT(names(nested), ElementsAre("sliding_attention"));
  const Model llama4 = read(R"({"model_type": "llama4_text", "rope_theta": 5e5,
    "no_rope_layers": [1, 1, 1, 0, 1]})");
  EXPECT_THAT(llama4.rope().layers, ElementsAre(0, 1, 2, 4));  // 1: the layer uses a rope
  const Model interval = read(R"({"model_type": "smollm3", "rope_theta": 5e5,
    "num_hidden_layers": 5, "no_rope_layers": []})");  // every fourth, the default of its class
  EXPECT_THAT(interval.rope().layers, ElementsAre(0, 1, 2, 4));
  const Model thetas = read(R"({"model_type": "granite_swa", "rope_theta": 10000,
    "layer_rope_theta": [0, 10000, 500000, 10000]})");
  EXPECT_THAT(names(thetas), ElementsAre("default", "theta_500000"));
  EXPECT_THAT(thetas.rope().layers, ElementsAre(1, 3));
}

TEST(Config, PartsOfComposites) {
  const Model published = read(R"({"model_type": "qwen2_5_vl", "hidden_size": 3584,
    "num_attention_heads": 28, "rope_theta": 1e6, "max_position_embeddings": 128000,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16}})");
  EXPECT_THAT(names(published), ElementsAre("text.default", "vision.default"));
  EXPECT_THAT(published.rope().axes, ElementsAre("t", "h", "w"));
  EXPECT_THAT(published.rope("vision.default").axes, ElementsAre("h", "w"));
  EXPECT_EQ(published.rope("vision.default").layout.head_dim, 80);

  const Model llava = read(R"({"model_type": "llava", "text_config": {"hidden_size": 4096,
    "num_attention_heads": 32, "rope_theta": 1e4}, "vision_config": {"model_type": "clip"}})");
  EXPECT_THAT(names(llava), ElementsAre("text.default"));
}

TEST(Config, UnsupportedPartsAreSkippedWithAWarning) {
  const Model model = read(R"({"model_type": "llava", "text_config": {"model_type": "llama"},
    "vision_config": {"model_type": "vjepa2", "rope_theta": 100}})");
  EXPECT_THAT(names(model), ElementsAre("text.default"));
  EXPECT_THAT(model.rope().warnings, Contains(HasSubstr("part \"vision\" is left out")));
}

/// What is no rotation, or not in a config, is refused in one line that says why.
TEST(Config, RefusedFamiliesSayWhy) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"vjepa2", "the two members of a pair turn by different angles, which is no rotation"},
      {"lightglue", "its frequencies are weights of the checkpoint"},
      {"hunyuan_vl_vision", "it has no rotation"},
  };
  for (const auto& [type, reason] : kRefused) {
    try {
      read(R"({"hidden_size": 64, "model_type": ")" + std::string(type) + "\"}");
      ADD_FAILURE() << type;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(
          std::string(error.what())
              .find("[Model] config.json: model_type \"" + std::string(type) + "\": " + reason),
          0u)
          << error.what();
    }
  }
}

TEST(Config, RotationUnderACondition) {
  EXPECT_THROW(
      read(R"({"model_type": "wav2vec2-bert", "position_embeddings_type": "relative_key"})"),
      std::invalid_argument);
  EXPECT_THAT(
      names(read(R"({"model_type": "wav2vec2-bert", "position_embeddings_type": "rotary"})")),
      ElementsAre("default"));
}

/// A rotation that is left out beside others that are read is a warning of theirs.
TEST(Config, LeftOutRotationsSayWhy) {
  const Model music = read(R"({"model_type": "musicflamingo", "head_dim": 1280,
    "rope_parameters": {"rope_theta": 1200, "partial_rotary_factor": 0.2, "rope_type": "default"},
    "text_config": {"model_type": "qwen2"}})");
  EXPECT_THAT(names(music), ElementsAre("text.default"));
  EXPECT_EQ(music.rope().recipe.theta, 10000.0);
  EXPECT_THAT(music.rope().warnings, Contains(HasSubstr("products of time stamps and indices")));
  const Model hunyuan = read(R"({"model_type": "hunyuan_vl", "text_config": {
    "model_type": "hunyuan_vl_text", "head_dim": 128, "rope_scaling": {"type": "xdrope",
    "alpha": 1000, "xdrope_section": [16, 16, 16, 16]}}})");
  EXPECT_THAT(hunyuan.rope().axes, ElementsAre("t"));
  EXPECT_THAT(hunyuan.rope().warnings, Contains(HasSubstr("image tokens are left out")));
  const Model esmfold = read(R"({"model_type": "esmfold2", "esmc_config": {
    "model_type": "esmc", "hidden_size": 960, "num_attention_heads": 15}})");
  EXPECT_THAT(names(esmfold), ElementsAre("esmc.default"));
  EXPECT_THAT(esmfold.rope().warnings, Contains(HasSubstr("the rotation of its atoms is left out: "
                                                          "coordinates and residue numbers")));
  const Model mistral = read(R"({"model_type": "mistral_large4_text"})");
  EXPECT_THAT(mistral.rope().warnings, Contains(HasSubstr("exp(rotary_emb.alpha)")));
}

/// Gemma 4's vision tower: columns on the first half of the head, rows on the second.
TEST(Config, AxesWithSlicesAreRopesOfTheirOwn) {
  const Model gemma = read(R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text"},
    "vision_config": {"model_type": "gemma4_vision", "rope_parameters": {"rope_theta": 100}}})");
  EXPECT_THAT(names(gemma),
              ElementsAre("text.full_attention", "text.sliding_attention", "vision.w", "vision.h"));
  const ModelRope& rows = gemma.rope("vision.h");
  EXPECT_THAT(rows.axes, ElementsAre("h"));
  EXPECT_EQ(rows.layout.head_dim, 64);
  EXPECT_EQ(rows.layout.rotary_offset, 32);
  EXPECT_EQ(rows.recipe.rotary_dim, 32);
  EXPECT_EQ(gemma.rope("vision.w").layout.rotary_offset, 0);
}

/// Molmo 2: layers that are not listed keep the theta without the scaling.
TEST(Config, LayersWithoutScaling) {
  const Model molmo = read(R"({"model_type": "molmo2_text", "num_hidden_layers": 4,
    "rope_scaling_layers": [1, 3], "rope_parameters": {"rope_type": "yarn", "rope_theta": 500000,
    "factor": 8, "original_max_position_embeddings": 8192}})");
  EXPECT_THAT(names(molmo), ElementsAre("default", "unscaled"));
  EXPECT_THAT(molmo.rope("default").layers, ElementsAre(1, 3));
  EXPECT_THAT(molmo.rope("unscaled").layers, ElementsAre(0, 2));
  EXPECT_EQ(molmo.rope("unscaled").recipe.theta, 500000.0);
  EXPECT_TRUE(std::holds_alternative<Plain>(molmo.rope("unscaled").recipe.scaling));
}

TEST(Config, UnknownPartsAreSkippedWithAWarning) {
  const Model model = read(R"({"model_type": "llava", "text_config": {"model_type": "llama",
    "rope_theta": 1e4}, "audio_config": {"model_type": "nobody_knows", "hidden_size": 64,
    "rope_theta": 1e4}})");
  EXPECT_THAT(names(model), ElementsAre("text.default"));
  EXPECT_THAT(model.rope().warnings, Contains(HasSubstr("part \"audio\" is left out")));
}

TEST(Config, LongRopeRegimeFollowsTheContextInUse) {
  const Model model = read(R"({"model_type": "phi3", "hidden_size": 8, "num_attention_heads": 2,
    "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
    "rope_theta": 10000, "rope_scaling": {"type": "su", "short_factor": [1, 2],
    "long_factor": [4, 8]}})");
  EXPECT_TRUE(depends_on_context(model.rope().recipe));
  EXPECT_DOUBLE_EQ(model.rope().make_frequencies(4096)(0), 1.0);
  EXPECT_DOUBLE_EQ(model.rope().make_frequencies(4097)(0), 0.25);
}

TEST(Config, AcceptsPythonsInfinity) {
  const Model model = read(llama_with(R"("rope_theta": 1e4, "time_step_limit": [0.0, Infinity],
    "x": -Infinity, "y": NaN, "text": "NaN \" Infinity")"));
  EXPECT_EQ(model.rope().recipe.theta, 1e4);
}

struct Bad {
  const char* name;
  std::string json;
  const char* message;
};

class BadConfig : public testing::TestWithParam<Bad> {};

TEST_P(BadConfig, NamesRuleAndValue) {
  try {
    read(GetParam().json);
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Config, BadConfig,
    testing::Values(
        Bad{"empty", "", "config.json: not valid JSON"},
        Bad{"truncated", R"({"model_type": "llama")", "config.json: not valid JSON (at byte"},
        Bad{"list", "[1, 2]", "must be a JSON object"},
        Bad{"nested", std::string(100000, '[') + std::string(100000, ']'), "nested deeper"},
        Bad{"no_rope", R"({"model_type": "bert", "hidden_size": 64})", "no rotation found"},
        Bad{"type", llama_with(R"("rope_scaling": {"type": "yarm", "factor": 2})"),
            "unknown rope_type \"yarm\""},
        Bad{"type_number", llama_with(R"("rope_scaling": {"type": 7})"), "must be a string"},
        Bad{"no_factor", llama_with(R"("rope_scaling": {"type": "linear"})"),
            "rope_type \"linear\" needs the key \"factor\""},
        Bad{"factor_text", llama_with(R"("rope_scaling": {"type": "linear", "factor": "8"})"),
            "factor must be a finite number, got \"\"8\"\""},
        Bad{"factor_zero", llama_with(R"("rope_scaling": {"type": "linear", "factor": 0})"),
            "linear factor must be positive and finite, got 0"},
        Bad{"dictionary", llama_with(R"("rope_scaling": "yarn")"),
            "rope_scaling must be an object, got"},
        Bad{"theta_zero", llama_with(R"("rope_theta": 0)"), "theta must be positive"},
        Bad{"theta_text", llama_with(R"("rope_theta": "big")"),
            "rope_theta must be a finite number"},
        Bad{"partial", R"({"model_type": "phi", "partial_rotary_factor": 2})",
            "partial_rotary_factor must be in [0, 1], got 2"},
        Bad{"odd", R"({"model_type": "llama", "head_dim": 7})", "rotary_dim must be even, got 7"},
        Bad{"too_wide", R"({"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": 32})",
            "rotary_dim must be 1 to head_dim 16, got 32"},
        Bad{"no_heads", R"({"model_type": "nobody", "hidden_size": 64, "rope_theta": 1e4})",
            "head_dim cannot be determined"},
        Bad{"heads_zero", R"({"model_type": "llama", "num_attention_heads": 0})",
            "num_attention_heads must be 1 to"},
        Bad{"short_list",
            R"({"model_type": "phi3", "rope_scaling": {"type": "longrope", "short_factor": [1],
               "long_factor": [1]}})",
            "longrope short_factor must have one entry a pair (48), got 1"},
        Bad{"sections",
            R"({"model_type": "qwen2_vl_text", "hidden_size": 4096, "num_attention_heads": 32,
               "rope_parameters": {"mrope_section": [1, 2, 3]}})",
            "mrope sections must add up to 64 pairs, got 6"},
        Bad{"sections_kind", R"({"model_type": "qwen2_vl_text", "mrope_section": "tall"})",
            "mrope_section must be a list"},
        Bad{"huge_head", R"({"model_type": "llama", "head_dim": 9007199254740992})",
            "head_dim must be 1 to"},
        Bad{"wide_head", R"({"model_type": "llama", "head_dim": 2000000000})",
            "rotary_dim must be 2 to"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Config, RejectsUnknownRopeName) {
  const Model model = read(llama_with(R"("rope_theta": 1e4)"));
  try {
    static_cast<void>(model.rope("vision.default"));
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no rope named \"vision.default\"; there are: default"));
  }
}

TEST(Families, EveryRowIsReadable) {
  const std::vector<std::string> types = known_model_types();
  EXPECT_GT(types.size(), 300u);
  EXPECT_THAT(types, Contains("llama"));
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
  for (const std::string& type : types) {  // throws for a row that is not
    EXPECT_NE(internal::find_family(type), nullptr) << type;
    EXPECT_NE(internal::find_family(type, "5.17"), nullptr) << type;
  }
  EXPECT_NE(internal::find_family("step3p5_vision"),
            internal::find_family("step3p5_vision", "5.17"));
  EXPECT_EQ(internal::find_family("llama"), internal::find_family("llama", "5.17"));
  EXPECT_EQ(internal::find_family("lla"), nullptr);
}

}  // namespace
}  // namespace rotary::config_test
