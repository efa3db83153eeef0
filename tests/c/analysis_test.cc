// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Analyses through C are those of C++, and documents have what the command prints.

#include "rotary/analysis.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "c/rejects.h"
#include "json/json.h"
#include "rotary/dialect.h"
#include "rotary/model.h"
#include "rotary/recipe_json.h"
#include "rotary/rotary_c_analysis.h"

namespace rotary::analysis_test {
namespace {

using internal::Json;

const std::string kGguf = kRoot + "/tests/fuzz/corpus/gguf/llama.gguf";

/// The document of a call that succeeds: document(rotary_rope_inspect, rope).
template <typename Function, typename... Args>
Json document(Function function, Args... args) {
  char* text = nullptr;
  ROTARY_EXPECT_OK(function(args..., &text));
  if (text == nullptr) return {};
  Json json = internal::parse_json(text, "document");
  rotary_text_free(text);
  return json;
}

CRope rope_of(const CModel& model, const char* name = nullptr, std::int64_t context = 0) {
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_model(model.get(), name, context, nullptr, &rope));
  return CRope(rope);
}

std::vector<double> doubles(const Json& list) {
  std::vector<double> values;
  for (const Json& value : list.elements()) {
    values.push_back(value.is_null() ? std::numeric_limits<double>::infinity() : value.as_double());
  }
  return values;
}

// ---- Documents ----------------------------------------------------------------------------------

TEST(CAnalysisTest, InspectHasWhatModelReadReadsAgain) {
  for (const char* name : {"llama-3.1-8b.json", "gemma-3-4b.json", "qwen3-vl-text.json"}) {
    SCOPED_TRACE(name);
    const CModel model = read_model(name);
    const Json json = document(rotary_rope_inspect, rope_of(model).get());
    Json ropes = Json::array();
    ropes.push_back(json.at("rope"));
    const std::string again = Json{{"model_type", "again"}, {"ropes", ropes}}.dump();
    const Model cpp = Model::read(kModels + name);
    const ModelRope& rope = cpp.rope();
    EXPECT_EQ(Model::from_config(again).rope().make_frequencies().values,
              rope.make_frequencies().values);
    const Frequencies f = rope.make_frequencies();
    EXPECT_EQ(doubles(json.at("wavelengths")), wavelengths(f));
    EXPECT_EQ(json.at("pair_axes").elements().size(), static_cast<std::size_t>(f.pairs));
    EXPECT_EQ(json.at("unscaled").elements().size(), static_cast<std::size_t>(f.pairs));
    EXPECT_FALSE(json.at("properties").empty());
    EXPECT_FALSE(json.at("sentences").empty());
    EXPECT_TRUE(json.at("dialect").is_null());
  }
}

TEST(CAnalysisTest, InspectHasTheContextInUse) {
  const CModel model = read_model("llama-3.1-8b.json");
  EXPECT_TRUE(document(rotary_rope_inspect, rope_of(model).get())
                  .at("rope")
                  .at("context_in_use")
                  .is_null());
  const CRope rope = rope_of(model, nullptr, 5000);
  const rotary_threads threads = rotary_threads_init(1);
  rotary_rope* derived = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_with_threads(rope.get(), &threads, &derived));
  const CRope on_threads(derived);
  ROTARY_EXPECT_OK(rotary_rope_with_stream(rope.get(), nullptr, 0, &derived));
  const CRope on_stream(derived);
  for (const rotary_rope* each : {rope.get(), on_threads.get(), on_stream.get()}) {
    EXPECT_EQ(document(rotary_rope_inspect, each).at("rope").at("context_in_use").as_int64(), 5000);
  }
}

TEST(CAnalysisTest, RopesWithoutAFileAreDescribedToo) {
  const rotary_head_layout layout = rotary_head_layout_init(128, ROTARY_PAIRING_HALF);
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(128, 1e4, &layout, nullptr, &made));
  const CRope plain(made);
  EXPECT_EQ(document(rotary_rope_inspect, plain.get()).at("rope").at("theta").as_double(), 1e4);
  rotary_recipe recipe = rotary_recipe_init(128, 1e4);
  recipe.axis_map = R"({"type": "axial", "dims": [64, 64]})";
  ROTARY_EXPECT_OK(rotary_rope_from_recipe(&recipe, 0, &layout, nullptr, &made));
  const CRope axial(made);
  const Json json = document(rotary_rope_inspect, axial.get());
  EXPECT_EQ(json.at("rope").at("axes").elements().size(), 2u);
}

TEST(CAnalysisTest, BoundsAreThoseOfCpp) {
  const CRope rope = rope_of(read_model("llama-3.1-8b.json"));
  const Model cpp = Model::read(kModels + "llama-3.1-8b.json");
  const Frequencies f = cpp.rope().make_frequencies();
  const Json json = document(rotary_rope_bounds, rope.get(), 4096, 0);
  EXPECT_EQ(json.at("critical_dim").as_int64(), critical_dim(f, cpp.rope().context.trained));
  EXPECT_EQ(doubles(json.at("turns")), turns(f, 4096));
  EXPECT_EQ(json.at("cosine_sum").at("smallest").as_double(), smallest_cosine_sum(f, 4096).value);
  EXPECT_TRUE(json.at("smallest_base").is_null());
  const Json base = document(rotary_rope_bounds, rope.get(), 512, 1).at("smallest_base");
  EXPECT_EQ(base.at("base").as_double(), smallest_base(cpp.rope().recipe, 512).base);
}

TEST(CAnalysisTest, DiffNamesWhatDiffers) {
  const CModel model = read_model("llama-3.1-8b.json");
  const CRope rope = rope_of(model);
  EXPECT_TRUE(document(rotary_rope_diff, rope.get(), rope.get()).at("same").as_bool());
  rotary_recipe recipe = rotary_recipe_init(128, 5e5);
  rotary_model* other = nullptr;
  ROTARY_EXPECT_OK(rotary_model_with_recipe(model.get(), nullptr, &recipe, &other));
  const CModel plain(other);
  const Json json = document(rotary_rope_diff, rope.get(), rope_of(plain).get());
  EXPECT_FALSE(json.at("same").as_bool());
  EXPECT_EQ(json.at("frequency_ratio").at("largest").as_double(), 8.0);
  const Json shown = document(rotary_rope_inspect, rope_of(plain).get()).at("rope");
  EXPECT_EQ(shown.at("recipe").at("type").as_string(), "default");
  EXPECT_EQ(shown.at("context").at("trained").as_int64(),
            Model::read(kModels + "llama-3.1-8b.json").rope().context.trained);
}

TEST(CAnalysisTest, PlanHasLinesForTheEngine) {
  const CModel model = read_model("llama-3.1-8b.json");
  const Json all = document(rotary_model_plan, model.get(), nullptr, 262144, nullptr);
  EXPECT_EQ(all.at("coverage").as_string(), "beyond");
  EXPECT_EQ(all.at("options").elements().front().at("engines").elements().size(), 4u);
  const Json one = document(rotary_model_plan, model.get(), "default", 262144, "vllm");
  const Json& lines = one.at("options").elements().front().at("engines");
  ASSERT_EQ(lines.elements().size(), 1u);
  EXPECT_THAT(lines.elements().front().at("dialect").as_string(), testing::StartsWith("vllm@"));
}

TEST(CAnalysisTest, DialectsAreThoseOfCpp) {
  const Json list = document(rotary_dialect_list);
  ASSERT_EQ(list.elements().size(), known_dialects().size());
  EXPECT_EQ(list.elements().front().at("name").as_string(), known_dialects().front().full_name());

  const CModel model = read_model("qwen2.5-7b-yarn.json");
  const DialectModel cpp =
      read_dialect(kModels + "qwen2.5-7b-yarn.json", "onnxruntime-genai@2026-08");
  rotary_model* other = nullptr;
  ROTARY_EXPECT_OK(rotary_model_in_dialect(model.get(), "onnxruntime-genai@2026-08", &other));
  const CModel genai(other);
  const CRope rope = rope_of(genai);
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(rope.get(), &f));
  const Frequencies expected = cpp.ropes.front().make_frequencies();
  EXPECT_EQ(std::vector<double>(f.values, f.values + f.pairs), expected.values);
  EXPECT_EQ(f.scale, expected.scale);
  EXPECT_EQ(f.softmax_scale, expected.softmax_scale);
  const Json dropped = document(rotary_rope_inspect, rope.get()).at("dialect").at("dropped_keys");
  EXPECT_EQ(dropped.elements().size(), cpp.ropes.front().dropped_keys.size());
  EXPECT_FALSE(dropped.empty());
}

// ---- Curves -------------------------------------------------------------------------------------

TEST(CAnalysisTest, CurvesAreThoseOfCpp) {
  const CRope rope = rope_of(read_model("llama-3.1-8b.json"));
  const Frequencies f = Model::read(kModels + "llama-3.1-8b.json").rope().make_frequencies();
  const std::vector<double> distances{0, 1, 2.5, 100, 131072};
  std::vector<double> values(distances.size());
  const auto count = static_cast<std::int64_t>(distances.size());
  ROTARY_EXPECT_OK(rotary_rope_scores(rope.get(), distances.data(), count, values.data()));
  EXPECT_EQ(values, relative_scores(f, distances));
  ROTARY_EXPECT_OK(rotary_rope_decay(rope.get(), distances.data(), count, values.data()));
  EXPECT_EQ(values, decay(f, distances));
}

TEST(CAnalysisTest, AngleErrorsAreThoseOfCpp) {
  const CRope rope = rope_of(read_model("llama-3.1-8b.json"));
  const Frequencies f = Model::read(kModels + "llama-3.1-8b.json").rope().make_frequencies();
  const std::vector<std::int64_t> positions{0, 1, 4095, 131071};
  for (const int method : {0, 1, 2, 3}) {
    SCOPED_TRACE(method);
    double values[4];
    double angles[4];
    std::int64_t pairs[4];
    ROTARY_EXPECT_OK(
        rotary_rope_angle_errors(rope.get(), method, positions.data(), 4, values, angles, pairs));
    const auto expected = angle_errors(f, static_cast<AngleMethod>(method), positions);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(values[i], expected[i].value);
      EXPECT_EQ(angles[i], expected[i].angle);
      EXPECT_EQ(pairs[i], expected[i].pair);
    }
    double alone[4];
    ROTARY_EXPECT_OK(
        rotary_rope_angle_errors(rope.get(), method, positions.data(), 4, alone, nullptr, nullptr));
    EXPECT_EQ(std::vector<double>(alone, alone + 4), std::vector<double>(values, values + 4));
  }
}

TEST(CAnalysisTest, MropeIsTakenAsTextHasIt) {
  const CRope rope = rope_of(read_model("qwen3-vl-text.json"));
  ModelRope text = Model::read(kModels + "qwen3-vl-text.json").rope();
  ASSERT_TRUE(std::holds_alternative<Mrope>(text.recipe.axes));
  text.recipe.axes = OneAxis{};
  const Frequencies f = text.make_frequencies();
  const std::vector<double> distances{1, 77, 4000};
  std::vector<double> values(3);
  ROTARY_EXPECT_OK(rotary_rope_decay(rope.get(), distances.data(), 3, values.data()));
  EXPECT_EQ(values, decay(f, distances));
  const Json json = document(rotary_rope_bounds, rope.get(), 4096, 0);
  EXPECT_EQ(json.at("cosine_sum").at("smallest").as_double(), smallest_cosine_sum(f, 4096).value);
  // Scores have an offset on each axis.
  const std::vector<double> offsets{77, 77, 77};
  ROTARY_EXPECT_OK(rotary_rope_scores(rope.get(), offsets.data(), 1, values.data()));
  EXPECT_EQ(values[0], relative_scores(f, std::vector<double>{77})[0]);
}

TEST(CAnalysisTest, NoValuesNeedNoMemory) {
  const CRope rope = rope_of(read_model("llama-3.1-8b.json"));
  ROTARY_EXPECT_OK(rotary_rope_scores(rope.get(), nullptr, 0, nullptr));
  ROTARY_EXPECT_OK(rotary_rope_decay(rope.get(), nullptr, 0, nullptr));
  ROTARY_EXPECT_OK(rotary_rope_angle_errors(rope.get(), 0, nullptr, 0, nullptr, nullptr, nullptr));
}

// ---- Rejected calls -----------------------------------------------------------------------------

class CAnalysisRejects : public CApiRejects {};

TEST_F(CAnalysisRejects, Null) {
  char* json = nullptr;
  rotary_model* made = nullptr;
  double x = 0.0;
  const std::int64_t position = 0;
  const rotary_recipe recipe = rotary_recipe_init(128, 1e4);
  const CModel llama = read_model("llama-3.1-8b.json");
  ROTARY_EXPECT_NULL(rotary_model_in_dialect, "model", nullptr, "hf", &made);
  ROTARY_EXPECT_NULL(rotary_model_in_dialect, "dialect", llama.get(), nullptr, &made);
  ROTARY_EXPECT_NULL(rotary_model_in_dialect, "result", llama.get(), "hf", nullptr);
  ROTARY_EXPECT_NULL(rotary_model_with_recipe, "model", nullptr, nullptr, &recipe, &made);
  ROTARY_EXPECT_NULL(rotary_model_with_recipe, "recipe", llama.get(), nullptr, nullptr, &made);
  ROTARY_EXPECT_NULL(rotary_model_with_recipe, "result", llama.get(), nullptr, &recipe, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_inspect, "rope", nullptr, &json);
  ROTARY_EXPECT_NULL(rotary_rope_inspect, "json", c(), nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_bounds, "rope", nullptr, 64, 0, &json);
  ROTARY_EXPECT_NULL(rotary_rope_bounds, "json", c(), 64, 0, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_diff, "a", nullptr, c(), &json);
  ROTARY_EXPECT_NULL(rotary_rope_diff, "b", c(), nullptr, &json);
  ROTARY_EXPECT_NULL(rotary_rope_diff, "json", c(), c(), nullptr);
  ROTARY_EXPECT_NULL(rotary_model_plan, "model", nullptr, nullptr, 64, nullptr, &json);
  ROTARY_EXPECT_NULL(rotary_model_plan, "json", llama.get(), nullptr, 64, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_dialect_list, "json", nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_scores, "rope", nullptr, &x, 1, &x);
  ROTARY_EXPECT_NULL(rotary_rope_scores, "offsets", c(), nullptr, 1, &x);
  ROTARY_EXPECT_NULL(rotary_rope_scores, "scores", c(), &x, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_decay, "rope", nullptr, &x, 1, &x);
  ROTARY_EXPECT_NULL(rotary_rope_decay, "distances", c(), nullptr, 1, &x);
  ROTARY_EXPECT_NULL(rotary_rope_decay, "bound", c(), &x, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_angle_errors, "rope", nullptr, 0, &position, 1, &x, &x, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_angle_errors, "positions", c(), 0, nullptr, 1, &x, &x, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_angle_errors, "values", c(), 0, &position, 1, nullptr, &x,
                     nullptr);
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(made, nullptr);
  rotary_text_free(nullptr);
}

TEST_F(CAnalysisRejects, RopesWithoutARecipe) {
  const double values[] = {1.0, 0.5};
  const rotary_frequencies f = rotary_frequencies_init(values, 1, 2);
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&f, &layout, nullptr, &made));
  const CRope rope(made);
  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(c(), &made));
  const CRope keys(made);
  char* json = reinterpret_cast<char*>(&json);  // must become NULL
  expect_failed(rotary_rope_inspect(rope.get(), &json), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_inspect] rope must be made from a model");
  EXPECT_EQ(json, nullptr);
  expect_failed(rotary_rope_inspect(keys.get(), &json), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_inspect] rope must be made from a model");
  expect_failed(rotary_rope_bounds(rope.get(), 64, 0, &json), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_bounds] rope must be made from a model");
  expect_failed(rotary_rope_diff(c(), rope.get(), &json), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_diff] b must be made from a model");
  double x = 1.0;
  expect_failed(rotary_rope_decay(rope.get(), &x, 1, &x), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_decay] rope must be made from a model");
  const double offset[] = {1.0, 2.0};
  ROTARY_EXPECT_OK(rotary_rope_scores(rope.get(), offset, 1, &x));
  EXPECT_NEAR(x, std::cos(2.0), 1e-15);
}

TEST_F(CAnalysisRejects, SeveralAxes) {
  rotary_recipe recipe = rotary_recipe_init(8, 1e4);
  recipe.axis_map = R"({"type": "axial", "dims": [4, 4]})";
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_recipe(&recipe, 0, &layout, nullptr, &made));
  const CRope axial(made);
  double x = 1.0;
  const std::int64_t position = 1;
  expect_failed(rotary_rope_decay(axial.get(), &x, 1, &x), ROTARY_INVALID_ARGUMENT,
                "[decay] rope 'default' has 2 axes; one is needed");
  expect_failed(rotary_rope_angle_errors(axial.get(), 0, &position, 1, &x, nullptr, nullptr),
                ROTARY_INVALID_ARGUMENT, "[precision] rope 'default' has 2 axes; one is needed");
  EXPECT_EQ(x, 1.0);
}

TEST_F(CAnalysisRejects, NumbersOutOfRange) {
  char* json = nullptr;
  double x = 0.5;
  const std::int64_t position = 0;
  for (const std::int64_t context :
       {std::int64_t{0}, std::int64_t{-1}, (1 << 24) + std::int64_t{1}}) {
    expect_failed(rotary_rope_bounds(c(), context, 0, &json), ROTARY_INVALID_ARGUMENT,
                  "[bounds] context must be 1 to 16777216", "got " + std::to_string(context));
  }
  expect_failed(rotary_rope_bounds(c(), 64, 2, &json), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_bounds] smallest_base must be 0 to 1, got 2");
  expect_failed(rotary_rope_scores(c(), &x, -1, &x), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_scores] count must not be negative, got -1");
  expect_failed(rotary_rope_scores(c(), &x, std::numeric_limits<std::int64_t>::max(), &x),
                ROTARY_INVALID_ARGUMENT, "[rotary_rope_scores] count must be at most ");
  expect_failed(rotary_rope_decay(c(), &x, -1, &x), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_decay] count must not be negative, got -1");
  for (const int method : {-1, 4}) {
    expect_failed(rotary_rope_angle_errors(c(), method, &position, 1, &x, nullptr, nullptr),
                  ROTARY_INVALID_ARGUMENT, "[rotary_rope_angle_errors] method must be 0 to 3");
  }
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(x, 0.5);
}

TEST_F(CAnalysisRejects, ModelsWithoutAConfig) {
  rotary_model* made = nullptr;
  ROTARY_EXPECT_OK(rotary_model_read(kGguf.c_str(), &made));
  const CModel gguf(made);
  const CModel llama = read_model("llama-3.1-8b.json");
  ROTARY_EXPECT_OK(rotary_model_in_dialect(llama.get(), "hf", &made));
  const CModel hf(made);
  char* json = nullptr;
  for (const rotary_model* model : {gguf.get(), hf.get()}) {
    expect_failed(rotary_model_plan(model, nullptr, 64, nullptr, &json), ROTARY_INVALID_ARGUMENT,
                  "[rotary_model_plan] model must have been read from a config.json");
    expect_failed(rotary_model_in_dialect(model, "hf", &made), ROTARY_INVALID_ARGUMENT,
                  "[rotary_model_in_dialect] model must have been read from a config.json");
    EXPECT_EQ(made, nullptr);
  }
}

TEST_F(CAnalysisRejects, UnknownNames) {
  const CModel llama = read_model("llama-3.1-8b.json");
  rotary_model* made = nullptr;
  char* json = nullptr;
  const std::string path = kModels + "llama-3.1-8b.json";
  expect_same_error(rotary_model_in_dialect(llama.get(), "nobody", &made),
                    [&] { read_dialect(path, "nobody"); });
  const rotary_recipe recipe = rotary_recipe_init(128, 1e4);
  expect_same_error(rotary_model_with_recipe(llama.get(), "nobody", &recipe, &made),
                    [&] { Model::read(path).rope("nobody"); });
  expect_failed(rotary_model_plan(llama.get(), nullptr, 1 << 20, "nobody", &json),
                ROTARY_INVALID_ARGUMENT, "[plan] ", "nobody");
  EXPECT_EQ(json, nullptr);
}

}  // namespace
}  // namespace rotary::analysis_test
