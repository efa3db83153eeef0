// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Models read through C are those read through C++.

#include "rotary/model.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "c/c_testing.h"

namespace rotary::model_test {
namespace {

const std::string kGguf = kRoot + "/tests/fuzz/corpus/gguf/";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
std::vector<T> list(const auto* values, std::int64_t count) {
  return {values, values + count};
}

void expect_same(const rotary_model_rope& c, const ModelRope& cpp) {
  EXPECT_EQ(c.struct_size, sizeof(rotary_model_rope));
  EXPECT_EQ(c.depends_on_context, depends_on_context(cpp.recipe) ? 1 : 0);
  EXPECT_EQ(c.name, cpp.name);
  EXPECT_EQ(c.scaling, name_of(cpp.recipe.scaling));
  EXPECT_EQ(c.rotary_dim, cpp.recipe.rotary_dim);
  EXPECT_EQ(c.theta, cpp.recipe.theta);
  EXPECT_EQ(c.layout->struct_size, sizeof(rotary_head_layout));
  EXPECT_EQ(c.layout->head_dim, cpp.layout.head_dim);
  EXPECT_EQ(c.layout->rotary_offset, cpp.layout.rotary_offset);
  EXPECT_EQ(c.layout->pairing, static_cast<int>(*cpp.layout.pairing) + 1);
  EXPECT_EQ(c.layout->output_pairing,
            static_cast<int>(cpp.layout.output_pairing.value_or(*cpp.layout.pairing)) + 1);
  EXPECT_EQ(list<std::string>(c.axes, c.num_axes), cpp.axes);
  EXPECT_EQ(list<std::int64_t>(c.layers, c.num_layers), cpp.layers);
  EXPECT_EQ(c.trained_context, cpp.context.trained);
  EXPECT_EQ(c.extended_context, cpp.context.extended);
  EXPECT_EQ(list<std::string>(c.assumed, c.num_assumed), cpp.assumed);
  EXPECT_EQ(list<std::string>(c.warnings, c.num_warnings), cpp.warnings);
}

void expect_same(const rotary_model* c, const Model& cpp) {
  const char* type = nullptr;
  ROTARY_EXPECT_OK(rotary_model_get_type(c, &type));
  EXPECT_EQ(type, cpp.model_type);
  std::int64_t count = -1;
  ROTARY_EXPECT_OK(rotary_model_count_ropes(c, &count));
  ASSERT_EQ(count, static_cast<std::int64_t>(cpp.ropes.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    const ModelRope& named = cpp.ropes[static_cast<std::size_t>(i)];
    SCOPED_TRACE(named.name);
    rotary_model_rope rope = rotary_model_rope_init();
    ROTARY_EXPECT_OK(rotary_model_get_rope(c, i, &rope));
    expect_same(rope, named);
    rope = rotary_model_rope_init();
    ROTARY_EXPECT_OK(rotary_model_find_rope(c, named.name.c_str(), &rope));
    expect_same(rope, named);
  }
  for (const char* no_name : {static_cast<const char*>(nullptr), ""}) {
    rotary_model_rope rope = rotary_model_rope_init();
    ROTARY_EXPECT_OK(rotary_model_find_rope(c, no_name, &rope));
    expect_same(rope, cpp.rope());
  }
}

TEST(CModelTest, EveryExample) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    SCOPED_TRACE(entry.path());
    rotary_model* model = nullptr;
    ROTARY_EXPECT_OK(rotary_model_read(entry.path().c_str(), &model));
    const CModel read(model);
    expect_same(read.get(), Model::read(entry.path()));

    const std::string text = contents(entry.path());
    ROTARY_EXPECT_OK(rotary_model_parse_config(text.data(), text.size(), "the text", &model));
    const CModel parsed(model);
    expect_same(parsed.get(), Model::from_config(text));
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(CModelTest, AssumedWarningsAndLayers) {
  // Says little, and something that is ignored.
  const std::string text =
      R"({"model_type": "gemma3_text", "head_dim": 16, "hidden_size": 64, "num_attention_heads": 4,
          "num_hidden_layers": 4, "sliding_window_pattern": 2,
          "rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta": 3}})";
  rotary_model* model = nullptr;
  ROTARY_EXPECT_OK(rotary_model_parse_config(text.data(), text.size(), nullptr, &model));
  const CModel c(model);
  const Model cpp = Model::from_config(text);
  expect_same(c.get(), cpp);
  std::size_t lines = 0;
  for (const ModelRope& rope : cpp.ropes) lines += rope.assumed.size() + rope.warnings.size();
  EXPECT_GT(lines, 1u);
}

TEST(CModelTest, Gguf) {
  for (const char* name : {"llama.gguf", "longrope.gguf", "sections.gguf"}) {
    SCOPED_TRACE(name);
    rotary_model* model = nullptr;
    ROTARY_EXPECT_OK(rotary_model_read((kGguf + name).c_str(), &model));
    const CModel read(model);
    expect_same(read.get(), Model::read(kGguf + name));
    const std::string bytes = contents(kGguf + name);
    ROTARY_EXPECT_OK(rotary_model_parse_gguf(bytes.data(), bytes.size(), nullptr, &model));
    const CModel parsed(model);
    expect_same(parsed.get(), Model::from_gguf(bytes));
  }
}

TEST(CModelTest, Folder) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "rotary_c_model_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << contents(kModels + "llama-3.1-8b.json");
  rotary_model* model = nullptr;
  ROTARY_EXPECT_OK(rotary_model_read(folder.c_str(), &model));
  const CModel c(model);
  expect_same(c.get(), Model::read(folder));
  std::filesystem::remove_all(folder);
}

TEST(CModelTest, RejectsUnreadableFiles) {
  rotary_model* model = reinterpret_cast<rotary_model*>(&model);  // must become NULL
  expect_same_error(
      rotary_model_read("no/such/config.json", &model), [] { Model::read("no/such/config.json"); },
      ROTARY_IO_ERROR);
  EXPECT_EQ(model, nullptr);
  const std::string bad = "{\"model_type\": ";
  expect_same_error(
      rotary_model_parse_config(bad.data(), bad.size(), "here.json", &model),
      [&] { Model::from_config(bad, "here.json"); }, ROTARY_IO_ERROR);
  expect_same_error(
      rotary_model_parse_config(bad.data(), bad.size(), nullptr, &model),
      [&] { Model::from_config(bad); }, ROTARY_IO_ERROR);
  const std::string cut = contents(kGguf + "llama.gguf").substr(0, 40);
  expect_same_error(
      rotary_model_parse_gguf(cut.data(), cut.size(), "cut.gguf", &model),
      [&] { Model::from_gguf(cut, "cut.gguf"); }, ROTARY_IO_ERROR);
  EXPECT_EQ(model, nullptr);
}

TEST(CModelTest, RejectsInvalidContent) {
  rotary_model* model = nullptr;
  const std::string text =
      R"({"model_type": "llama", "head_dim": 16, "rope_theta": 1e4,
          "rope_scaling": {"rope_type": "unheard_of", "factor": 2}})";
  expect_same_error(rotary_model_parse_config(text.data(), text.size(), nullptr, &model),
                    [&] { Model::from_config(text); });
}

TEST(CModelTest, RejectsUnknownRopes) {
  const CModel c = read_model("gemma-3-4b.json");
  std::int64_t count = 0;
  ROTARY_EXPECT_OK(rotary_model_count_ropes(c.get(), &count));
  rotary_model_rope rope = rotary_model_rope_init();
  for (const std::int64_t index : {std::int64_t{-1}, count, std::int64_t{1} << 62}) {
    expect_failed(rotary_model_get_rope(c.get(), index, &rope), ROTARY_INVALID_ARGUMENT,
                  "[rotary_model_get_rope] index must be 0 to " + std::to_string(count - 1),
                  "got " + std::to_string(index));
  }
  const Model cpp = Model::read(kModels + "gemma-3-4b.json");
  expect_same_error(rotary_model_find_rope(c.get(), "nobody", &rope), [&] { cpp.rope("nobody"); });
  EXPECT_EQ(rope.name, nullptr);
}

}  // namespace
}  // namespace rotary::model_test
