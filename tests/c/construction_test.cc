// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Construction of ropes in the C API, and their getters.

#include <string>
#include <utility>
#include <vector>

#include "c/ropes.h"
#include "rotary/cuda.h"
#include "rotary/model.h"
#include "rotary/recipe_json.h"
#include "rotary/version.h"

namespace rotary::construction_test {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAreArray;

TEST(CRopeTest, FromThetaAsCpp) {
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(8, 100.0, &layout, nullptr, &rope));
  const CRope c(rope);
  expect_same(c.get(), Rope(plain_frequencies(), plain_layout()), rotary_positions_range(3),
              Positions::range(3));
}

TEST(CRopeTest, FromRecipeAsCpp) {
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  const auto values = [&](const rotary_recipe& recipe, std::int64_t context) {
    rotary_rope* rope = nullptr;
    ROTARY_EXPECT_OK(rotary_rope_from_recipe(&recipe, context, &layout, nullptr, &rope));
    const CRope c(rope);
    rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
    ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &f));
    return std::vector<double>(f.values, f.values + f.pairs * f.axes);
  };
  Recipe cpp{.rotary_dim = 8, .theta = 100.0, .scaling = Yarn{.factor = 4, .original_context = 64}};
  rotary_recipe recipe = rotary_recipe_init(8, 100.0);
  recipe.scaling = R"({"type": "yarn", "factor": 4, "original_context": 64})";
  EXPECT_EQ(values(recipe, 0), make_frequencies(cpp).values);

  cpp.axes = Mrope{.sections = {2, 1, 1}, .order = MropeOrder::kInterleaved};
  cpp.direction = RotationDirection::kBackward;
  cpp.wavelengths = Wavelengths::kWhole;
  cpp.gain = 2.0;
  recipe.axis_map = R"({"type": "mrope", "sections": [2, 1, 1], "order": "interleaved"})";
  recipe.direction = ROTARY_DIRECTION_BACKWARD;
  recipe.wavelengths = ROTARY_WAVELENGTHS_WHOLE;
  recipe.gain = 2.0;
  EXPECT_EQ(values(recipe, 0), make_frequencies(cpp).values);

  const std::string text = to_json(cpp);  // a whole recipe
  rotary_recipe whole = rotary_recipe_init(0, 0.0);
  whole.scaling = text.c_str();
  EXPECT_EQ(values(whole, 0), make_frequencies(cpp).values);

  whole.scaling = R"({"type": "dynamic", "factor": 2, "original_context": 64, "theta": 100,
                      "rotary_dim": 8})";
  cpp = {
      .rotary_dim = 8, .theta = 100.0, .scaling = DynamicNtk{.factor = 2, .original_context = 64}};
  EXPECT_EQ(values(whole, 500), make_frequencies(cpp, 500).values);
}

TEST(CRopeTest, RejectsRecipes) {
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* rope = nullptr;
  rotary_recipe recipe = rotary_recipe_init(8, 100.0);
  recipe.scaling = R"({"type": "yarm"})";
  EXPECT_EQ(rotary_rope_from_recipe(&recipe, 0, &layout, nullptr, &rope), ROTARY_INVALID_ARGUMENT);
  EXPECT_THAT(rotary_last_error(), ::testing::HasSubstr("unknown type \"yarm\""));
  recipe.scaling = "{";
  EXPECT_EQ(rotary_rope_from_recipe(&recipe, 0, &layout, nullptr, &rope), ROTARY_IO_ERROR);
  recipe.scaling = nullptr;
  recipe.direction = 2;
  EXPECT_EQ(rotary_rope_from_recipe(&recipe, 0, &layout, nullptr, &rope), ROTARY_INVALID_ARGUMENT);
  EXPECT_THAT(rotary_last_error(), ::testing::HasSubstr("recipe.direction"));
  EXPECT_EQ(rope, nullptr);
}

TEST(CRopeTest, FromModelAsCpp) {
  // Qwen 2.5 with YaRN scales; DeepSeek writes another pairing than it reads; both have a name.
  for (const char* name : {"qwen2.5-7b-yarn.json", "deepseek-v3.json", "gemma-3-4b.json"}) {
    SCOPED_TRACE(name);
    const CModel model = read_model(name);
    const Model cpp_model = Model::read(kModels + name);
    for (const ModelRope& named : cpp_model.ropes) {
      SCOPED_TRACE(named.name);
      rotary_rope* rope = nullptr;
      ROTARY_EXPECT_OK(
          rotary_rope_from_model(model.get(), named.name.c_str(), 9000, nullptr, &rope));
      const CRope c(rope);
      const Rope cpp = named.make_rope(9000);
      rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
      ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &f));
      EXPECT_THAT(std::vector<double>(f.values, f.values + f.pairs * f.axes),
                  ElementsAreArray(cpp.frequencies().values));
      EXPECT_EQ(f.scale, cpp.frequencies().scale);
      EXPECT_EQ(f.softmax_scale, cpp.frequencies().softmax_scale);

      std::vector<float> x(static_cast<std::size_t>(cpp.layout().head_dim), 1.0F);
      std::vector<float> y = x;
      const auto view = [&](std::vector<float>& data) {
        return TensorView::contiguous(data.data(), DType::kFloat32, {1, 1, cpp.layout().head_dim});
      };
      cpp.rotate(view(x), Positions::range(12345));
      const rotary_tensor tensor = c_tensor(view(y));
      const rotary_positions positions = rotary_positions_range(12345);
      ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), &tensor, nullptr, 1, &positions));
      EXPECT_EQ(x, y);
    }
    // No name: the default rope.
    rotary_rope* rope = nullptr;
    ROTARY_EXPECT_OK(rotary_rope_from_model(model.get(), nullptr, 0, nullptr, &rope));
    const CRope usual(rope);
    rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
    ROTARY_EXPECT_OK(rotary_rope_get_frequencies(usual.get(), &f));
    EXPECT_THAT(std::vector<double>(f.values, f.values + f.pairs * f.axes),
                ElementsAreArray(cpp_model.rope().make_frequencies().values));
  }
}

TEST(CRopeTest, ReturnsItsParameters) {
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  const Frequencies rich = rich_frequencies();
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &f));
  EXPECT_EQ(f.struct_size, sizeof(f));
  EXPECT_EQ(f.pairs, 3);
  EXPECT_EQ(f.axes, 2);
  EXPECT_THAT(std::vector<double>(f.values, f.values + 6), ElementsAreArray(rich.values));
  EXPECT_THAT(std::vector<double>(f.growth, f.growth + 6), ElementsAreArray(rich.growth));
  EXPECT_EQ(f.scale, 1.125);
  EXPECT_EQ(f.softmax_scale, 1.5);
  EXPECT_EQ(f.growth_origin, 2.0);

  rotary_head_layout layout = rotary_head_layout_init(0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_layout(c.get(), &layout));
  EXPECT_EQ(layout.struct_size, sizeof(layout));
  EXPECT_EQ(layout.head_dim, 8);
  EXPECT_EQ(layout.rotary_offset, 1);
  EXPECT_EQ(layout.pairing, ROTARY_PAIRING_INTERLEAVED);
  EXPECT_EQ(layout.output_pairing, ROTARY_PAIRING_HALF);

  // Output pairing filled in, no growth.
  const CRope plain = c_rope(plain_frequencies(), plain_layout());
  ROTARY_EXPECT_OK(rotary_rope_get_layout(plain.get(), &layout));
  EXPECT_EQ(layout.output_pairing, ROTARY_PAIRING_HALF);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(plain.get(), &f));
  EXPECT_EQ(f.growth, nullptr);
}

TEST(CRopeTest, OptionsAsCpp) {
  rotary_threads threads = rotary_threads_init(2);
  rotary_rope_options options = rotary_rope_options_init();
  options.precision = ROTARY_PRECISION_REFERENCE;
  options.cache_policy = ROTARY_CACHE_HYBRID;
  options.cache_positions = 50;
  options.threads = &threads;
  const CRope c = c_rope(plain_frequencies(), plain_layout(), &options);
  const Rope cpp(plain_frequencies(), plain_layout(),
                 {.precision = Precision::kReference,
                  .cache = {.policy = CachePolicy::kHybrid, .positions = 50},
                  .threads = {.count = 2}});
  // In the table, across its end, far beyond it. There the reference is not the exact angle.
  for (const std::int64_t first : {0, 47, 123'456'789}) {
    expect_same(c.get(), cpp, rotary_positions_range(first), Positions::range(first));
  }
  QueryAndKey exact;
  QueryAndKey reference;
  const rotary_positions far = rotary_positions_range(123'456'789);
  Rope(plain_frequencies(), plain_layout()).rotate(exact.q(), Positions::range(123'456'789));
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), reference.tensors().data(), nullptr, 1, &far));
  EXPECT_NE(exact.q_bytes, reference.q_bytes);

  threads.count = 99;  // was copied
  rotary_rope_options asked = rotary_rope_options_init();
  ROTARY_EXPECT_OK(rotary_rope_get_options(c.get(), &asked));
  EXPECT_EQ(asked.precision, ROTARY_PRECISION_REFERENCE);
  EXPECT_EQ(asked.cache_policy, ROTARY_CACHE_HYBRID);
  EXPECT_EQ(asked.cache_positions, 50);
  ASSERT_NE(asked.threads, nullptr);
  EXPECT_EQ(asked.threads->struct_size, sizeof(rotary_threads));
  EXPECT_EQ(asked.threads->count, 2);
  EXPECT_EQ(asked.threads->parallel_for, nullptr);

  // A rope made with what another one was made with.
  options = asked;
  options.cache_policy = ROTARY_CACHE_ALL;
  const CRope again = c_rope(plain_frequencies(), plain_layout(), &options);
  expect_same(again.get(), cpp, rotary_positions_range(10), Positions::range(10));
}

TEST(CRopeTest, InverseGrowthAsCpp) {
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  rotary_rope* keys = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(c.get(), &keys));
  const CRope c_keys(keys);
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c_keys.get(), &f));
  EXPECT_THAT(std::vector<double>(f.growth, f.growth + 6),
              ElementsAreArray(with_inverse_growth(rich_frequencies()).growth));
  EXPECT_THAT(f.growth[0], DoubleEq(-0.01));
}

TEST(CRopeTest, CopiesWhatItIsGiven) {
  CRope c;
  {
    Frequencies f = plain_frequencies();
    c = c_rope(f, plain_layout());
    f.values.assign(f.values.size(), -1.0);
  }
  expect_same(c.get(), Rope(plain_frequencies(), plain_layout()), rotary_positions_range(3),
              Positions::range(3));
}

TEST(CRopeTest, FreeTakesNull) {
  rotary_rope_free(nullptr);
  rotary_model_free(nullptr);
  rotary_table_free(nullptr);
}

TEST(CVersionTest, IsThatOfTheHeaders) {
  EXPECT_EQ(rotary_c_api_version(), ROTARY_C_API_VERSION);
  EXPECT_STREQ(rotary_version(), ROTARY_VERSION_STRING);
}

TEST(CVersionTest, KnowsTheGpusThatCppKnows) {
  EXPECT_EQ(rotary_has_cuda(), has_cuda() ? 1 : 0);
  EXPECT_EQ(rotary_cuda_device_count(), cuda_device_count());
}

}  // namespace
}  // namespace rotary::construction_test
