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
#include <vector>

#include "reference/golden_file.h"
#include "rotary/model.h"

namespace rotary {
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
std::vector<std::int64_t> positions_of(const Json& file, const Json& row) {
  std::vector<std::int64_t> all;
  if (row.contains("position_ids")) {
    for (const Json& axis : row.at("position_ids")) {
      const auto one = axis.get<std::vector<std::int64_t>>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  const auto kind = row.at("positions").get<std::string>();
  const std::string axes = kind == "t" ? "T" : kind == "thw" ? "THW" : "HW";
  for (const char axis : axes) {
    const auto one = file.at(std::string(1, axis)).get<std::vector<std::int64_t>>();
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

void expect_module(const ModelRope& rope, const Json& row, const Json& file) {
  const std::vector<std::int64_t> positions = positions_of(file, row);
  const std::int64_t last = *std::max_element(positions.begin(), positions.end());
  const Frequencies frequencies = rope.make_frequencies(last + 1);
  expect_frequencies(frequencies, row.at("inv_freq").get<std::vector<double>>());
  // Phi-MoE applies its scale in forward, not through attention_scaling; the row then has it.
  const double scale =
      row.value("cos_at_first_position", row.at("attention_scaling").get<double>());
  EXPECT_NEAR(frequencies.scale, scale, 1e-6 * scale);

  const auto width = row.at("head_dim").get<std::int64_t>();
  constexpr std::int64_t kTokens = 8;
  constexpr std::int64_t kHeads = 2;
  std::vector<float> q = query(static_cast<std::size_t>(kTokens * kHeads * width));
  const Rope turn(frequencies, layout_for(rope, width));
  turn.rotate(TensorView::contiguous(q.data(), DType::kFloat32, {kTokens, kHeads, width}),
              Positions::ids(ConstTensorView::contiguous(
                  positions.data(), DType::kInt64,
                  {static_cast<std::int64_t>(positions.size()) / kTokens, kTokens})));
  // Some files have the first positions and the first head only.
  ASSERT_FALSE(row.at("q_out").empty());
  for (std::size_t t = 0; t < row.at("q_out").size(); ++t) {
    std::int64_t furthest = 0;
    for (std::size_t i = t; i < positions.size(); i += kTokens) {
      furthest = std::max(furthest, positions[i]);
    }
    const double tolerance = 5e-6 + 2.5e-7 * static_cast<double>(furthest);
    const auto wanted = row.at("q_out").at(t).get<std::vector<double>>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(q[t * static_cast<std::size_t>(kHeads * width) + i], wanted[i], tolerance)
          << "token " << t << " at " << i;
    }
  }
}

std::string rope_name(const Json& row) {
  const Json layer = row.value("layer_type", Json());
  const std::string name = layer.is_string() ? layer.get<std::string>() : "default";
  if (!row.contains("part")) return name;
  return row.at("part").get<std::string>() + "." + name;
}

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, AgreeWithTransformers) {
  const Json file = load_golden(GetParam());
  ASSERT_FALSE(file.at("rows").empty());
  for (const Json& row : file.at("rows")) {
    SCOPED_TRACE(row.at("family").get<std::string>() + " " + row.at("module").get<std::string>() +
                 " " + row.at("layer_type").dump());
    const Model model = Model::from_config(row.at("config").dump());
    expect_module(model.rope(rope_name(row)), row, file);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Families, testing::Values("families.json", "families_more.json"));

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
}  // namespace rotary
