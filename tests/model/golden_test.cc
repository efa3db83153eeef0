// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Agreement with Hugging Face transformers for every recorded rotary module: frequencies and scale
// to 1e-6, and a rotated query. tests/golden/README.md describes the data.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reference/golden_file.h"
#include "rotary/dialect.h"
#include "rotary/model.h"

namespace rotary::golden_test {
namespace {

using Json = nlohmann::json;
using reference::load_golden;

/// The query of the golden rows: q[i] = ((i*7919+13) % 2003)/1001.5 - 1, float32.
std::vector<float> query(std::size_t size) {
  std::vector<float> q(size);
  for (std::size_t i = 0; i < size; ++i) {
    q[i] = static_cast<float>(static_cast<double>((i * 7919 + 13) % 2003) / 1001.5 - 1.0);
  }
  return q;
}

/// Positions as [axes, tokens]: those of the row, or T, H, W of the file for the axes of the rope.
/// Those of image patches are fractions.
std::vector<double> positions_of(const Json& file, const Json& row) {
  std::vector<double> all;
  if (row.contains("position_ids")) {
    for (const Json& axis : row.at("position_ids")) {
      const auto one = axis.get<std::vector<double>>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  const auto kind = row.at("positions").get<std::string>();
  const std::string axes = kind == "t" ? "T" : kind == "thw" ? "THW" : "HW";
  for (const char axis : axes) {
    const auto one = file.at(std::string(1, axis)).get<std::vector<double>>();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Compares frequencies as sorted lists; the rotated query checks their order.
void expect_frequencies(const Frequencies& ours, std::vector<double> theirs) {
  std::vector<double> sizes;
  for (std::int64_t pair = 0; pair < ours.pairs; ++pair) {
    double sum = 0.0;
    for (std::int64_t axis = 0; axis < ours.axes; ++axis) sum += std::fabs(ours(pair, axis));
    sizes.push_back(sum);
  }
  ASSERT_EQ(sizes.size() % theirs.size(), 0u) << theirs.size();
  const std::vector<double> once = theirs;
  while (theirs.size() < sizes.size()) theirs.insert(theirs.end(), once.begin(), once.end());
  std::sort(sizes.begin(), sizes.end());
  std::sort(theirs.begin(), theirs.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_NEAR(sizes[i], theirs[i], 1e-6 * theirs[i]) << "sorted pair " << i;
  }
}

/// The head as the family's apply function receives it: the whole head, or only the rotary slice.
HeadLayout layout_for(const ModelRope& rope, std::int64_t width) {
  HeadLayout layout = rope.layout;
  if (layout.head_dim != width && rope.recipe.rotary_dim == width) {
    layout.head_dim = width;
    layout.rotary_offset = 0;
  }
  return layout;
}

/// Rotates the query [kTokens, kHeads, width] in place.
constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kHeads = 2;

void rotate(const ModelRope& rope, const Frequencies& frequencies,
            const std::vector<double>& positions, std::vector<float>& q) {
  const auto width = static_cast<std::int64_t>(q.size()) / (kTokens * kHeads);
  const std::vector<std::int64_t> whole(positions.begin(), positions.end());
  const std::vector<float> real(positions.begin(), positions.end());
  const bool fractions = !std::equal(positions.begin(), positions.end(), whole.begin());
  const auto axes = static_cast<std::int64_t>(positions.size()) / kTokens;
  const Rope turn(frequencies, layout_for(rope, width));
  turn.rotate(
      TensorView::contiguous(q.data(), DType::kFloat32, {kTokens, kHeads, width}),
      Positions::ids(
          fractions ? ConstTensorView::contiguous(real.data(), DType::kFloat32, {axes, kTokens})
                    : ConstTensorView::contiguous(whole.data(), DType::kInt64, {axes, kTokens})));
}

/// The rotated query against the row's, which may have the first positions and the first head only.
void expect_query(const std::vector<float>& q, const Json& row,
                  const std::vector<double>& positions) {
  const std::size_t stride = q.size() / kTokens;
  ASSERT_FALSE(row.at("q_out").empty());
  for (std::size_t t = 0; t < row.at("q_out").size(); ++t) {
    double furthest = 0.0;
    for (std::size_t i = t; i < positions.size(); i += kTokens) {
      furthest = std::max(furthest, positions[i]);
    }
    const double tolerance = 5e-6 + 2.5e-7 * furthest;
    const auto wanted = row.at("q_out").at(t).get<std::vector<double>>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(q[t * stride + i], wanted[i], tolerance) << "token " << t << " at " << i;
    }
  }
}

std::vector<float> query_of(const Json& row) {
  return query(static_cast<std::size_t>(kTokens * kHeads * row.at("head_dim").get<std::int64_t>()));
}

void expect_module(const ModelRope& rope, const Json& row, const Json& file) {
  const std::vector<double> positions = positions_of(file, row);
  const double last = *std::max_element(positions.begin(), positions.end());
  const Frequencies frequencies = rope.make_frequencies(static_cast<std::int64_t>(last) + 1);
  expect_frequencies(frequencies, row.at("inv_freq").get<std::vector<double>>());
  // Phi-MoE applies its scale in forward, not through attention_scaling; the row then has it.
  const double scale =
      row.value("cos_at_first_position", row.at("attention_scaling").get<double>());
  EXPECT_NEAR(frequencies.scale, scale, 1e-6 * scale);
  std::vector<float> q = query_of(row);
  rotate(rope, frequencies, positions, q);
  expect_query(q, row, positions);
}

/// A rope for each axis, one after the other (Gemma 4's vision tower).
void expect_axis_ropes(const Model& model, const Json& row, const Json& file) {
  const std::vector<double> positions = positions_of(file, row);
  std::vector<float> q = query_of(row);
  ASSERT_EQ(model.ropes.size(), positions.size() / kTokens);
  for (std::size_t axis = 0; axis < model.ropes.size(); ++axis) {
    const auto first = positions.begin() + static_cast<std::ptrdiff_t>(axis * kTokens);
    const Frequencies frequencies = model.ropes[axis].make_frequencies();
    expect_frequencies(frequencies, row.at("inv_freq").get<std::vector<double>>());
    rotate(model.ropes[axis], frequencies, {first, first + kTokens}, q);
  }
  expect_query(q, row, positions);
}

std::string rope_name(const Json& row) {
  const Json layer = row.value("layer_type", Json());
  const std::string name = layer.is_string() ? layer.get<std::string>() : "default";
  if (!row.contains("part")) return name;
  return row.at("part").get<std::string>() + "." + name;
}

void expect_row(const Model& model, const Json& row, const Json& file) {
  if (row.at("apply") == "apply_multidimensional_rope") return expect_axis_ropes(model, row, file);
  expect_module(model.rope(rope_name(row)), row, file);
}

/// What the transformers of a version makes of a config.
Model in_version(const Json& config, const char* dialect) {
  Model model;
  for (DialectRope& rope : dialect_from_config(config.dump(), dialect).ropes) {
    model.ropes.push_back(std::move(rope.rope));
  }
  return model;
}

struct FamiliesFile {
  const char* name;
  const char* dialect;
};

class Families : public testing::TestWithParam<FamiliesFile> {};

TEST_P(Families, AgreeWithTransformers) {
  const Json file = load_golden(GetParam().name);
  ASSERT_FALSE(file.at("rows").empty());
  for (const Json& row : file.at("rows")) {
    SCOPED_TRACE(row.at("family").get<std::string>() + " " + row.at("module").get<std::string>() +
                 " " + row.at("layer_type").dump());
    expect_row(in_version(row.at("config"), GetParam().dialect), row, file);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Families,
                         testing::Values(FamiliesFile{"families.json", "hf@5.17"},
                                         FamiliesFile{"families_more.json", "hf@5.17"},
                                         FamiliesFile{"families_5.23.json", "hf@5.23"}));

/// Rows of the newest transformers hold without a dialect.
TEST(NewestFamilies, AreTheDefault) {
  const Json file = load_golden("families_5.23.json");
  for (const Json& row : file.at("rows")) {
    SCOPED_TRACE(row.at("module").get<std::string>() + " " + row.at("layer_type").dump());
    expect_row(Model::from_config(row.at("config").dump()), row, file);
  }
}

/// Nothing but the model type: the defaults of families.inc are those of the config classes.
TEST(NewestFamilies, HaveTheDefaultsOfTheirConfigs) {
  const Json file = load_golden("families_5.23.json");
  for (const Json& row : file.at("rows")) {
    // Classes of parts may have no type of their own.
    const auto type = row.at("config").at("model_type").get<std::string>();
    if (row.at("given").get<bool>() || type.empty()) continue;
    SCOPED_TRACE(row.at("module").get<std::string>() + " " + row.at("layer_type").dump());
    const Json config = {{"model_type", type}};
    EXPECT_NO_THROW(expect_row(Model::from_config(config.dump()), row, file));
  }
}

/// Every model type of the newest transformers with a rotation has a row.
TEST(NewestFamilies, AreAllKnown) {
  const Json file = load_golden("families_5.23.json");
  EXPECT_EQ(file.at("not_run"), Json::object());
  const std::vector<std::string> known = known_model_types();
  ASSERT_GT(file.at("model_types").size(), 200u);
  for (const Json& type : file.at("model_types")) {
    EXPECT_TRUE(std::binary_search(known.begin(), known.end(), type.get<std::string>())) << type;
  }
}

/// Three vision and text towers rotate otherwise since 5.17.
TEST(NewestFamilies, DifferFrom517) {
  for (const char* type : {"cohere_compass_text", "minimax_m3_vl_vision", "step3p5_vision"}) {
    SCOPED_TRACE(type);
    const Json config = {{"model_type", type}, {"rope_theta", 10000}};
    const Frequencies newest = in_version(config, "hf").rope().make_frequencies();
    const Frequencies older = in_version(config, "hf@5.17").rope().make_frequencies();
    EXPECT_NE(newest.values, older.values);
    EXPECT_EQ(Model::from_config(config.dump()).rope().make_frequencies().values, newest.values);
  }
}

/// What is refused, or left out, is no rotation of queries and keys by positions: transformers
/// itself was measured. Norms that a rotation keeps, ratios that would be 1.
TEST(NewestFamilies, RefusedOnesAreNoRotations) {
  const Json measured = load_golden("families_5.23.json").at("not_rotations");
  const auto value = [&](const char* name) { return measured.at(name).at("value").get<double>(); };
  EXPECT_GT(value("vjepa2"), 1e-2);
  EXPECT_GT(value("hunyuan_vl image tokens"), 1e-2);
  EXPECT_GT(value("lightglue"), 1.0);
  EXPECT_GT(std::fabs(value("musicflamingo") - 1.0), 0.5);
  EXPECT_GT(value("esmfold2 atoms"), 1.0);
}

class Configs : public testing::TestWithParam<const char*> {};

TEST_P(Configs, AgreeWithTransformers) {
  const Json file = load_golden(GetParam());
  ASSERT_FALSE(file.at("rows").empty());
  for (const Json& row : file.at("rows")) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    const Model model = Model::from_config(row.at("config").dump());
    for (const Json& module : row.at("modules")) {
      SCOPED_TRACE(rope_name(module));
      expect_module(model.rope(rope_name(module)), module, file);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Configs, testing::Values("legacy.json", "legacy_more.json"));

/// Rows without positions were recorded before any call: the trained length.
class Scalings : public testing::TestWithParam<const char*> {};

TEST_P(Scalings, AgreeWithTransformers) {
  const Json file = load_golden(GetParam());
  ASSERT_FALSE(file.at("rows").empty());
  for (const Json& row : file.at("rows")) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    const Model model = Model::from_config(row.at("config").dump());
    std::vector<std::int64_t> positions;
    if (row.contains("positions")) positions = row.at("positions").get<std::vector<std::int64_t>>();
    const std::int64_t context =
        positions.empty() ? 0 : *std::max_element(positions.begin(), positions.end()) + 1;
    const Frequencies ours = model.rope().make_frequencies(context);
    expect_frequencies(ours, row.at("inv_freq").get<std::vector<double>>());
    EXPECT_NEAR(ours.scale, row.at("attention_scaling").get<double>(), 1e-6);
    for (std::size_t t = 0; row.contains("cos") && t < positions.size(); ++t) {
      const auto cos = row.at("cos").at(t).get<std::vector<double>>();
      const auto sin = row.at("sin").at(t).get<std::vector<double>>();
      for (std::size_t i = 0; i < static_cast<std::size_t>(ours.pairs); ++i) {
        const double angle = ours.values[i] * static_cast<double>(positions[t]);
        const double tolerance = 5e-6 + 2.5e-7 * static_cast<double>(positions[t]);
        ASSERT_NEAR(std::cos(angle) * ours.scale, cos[i], tolerance) << t << " " << i;
        ASSERT_NEAR(std::sin(angle) * ours.scale, sin[i], tolerance) << t << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Scalings, testing::Values("scaling.json", "scaling_more.json"));

}  // namespace
}  // namespace rotary::golden_test
