// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Configs that would cost far more than their size: a limit and a clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "io/io_testing.h"
#include "rotary/error.h"
#include "rotary/model.h"

namespace rotary::limits_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

/// A small Llama config with more members.
std::string config(const std::string& members) {
  return R"({"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4,
             "max_position_embeddings": 4096, "rope_theta": 10000.0, )" +
         members + "}";
}

/// item(0), item(1), ..., separated by commas.
std::string list(int count, const std::function<std::string(int)>& item) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + item(i);
  return text;
}

Model read(const std::string& members) { return Model::from_config(config(members), "x.json"); }

TEST(ConfigLimits, RopesOfOneDictionary) {
  const auto dictionaries = [](int count) {
    return "\"rope_parameters\": {" +
           list(count,
                [](int i) {
                  return "\"layer" + std::to_string(i) + R"(": {"rope_type": "default"})";
                }) +
           "}";
  };
  EXPECT_THAT(read(dictionaries(256)).ropes, SizeIs(256));
  EXPECT_THAT([&] { read(dictionaries(257)); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("x.json"), HasSubstr("more than 256 ropes"))));
}

TEST(ConfigLimits, DifferentThetasOfLayers) {
  const auto thetas = [](int count, int different) {
    return "\"layer_rope_theta\": [" +
           list(count, [=](int i) { return std::to_string(1000 + i % different); }) + "]";
  };
  EXPECT_THAT(read(thetas(50'000, 256)).ropes, SizeIs(256));
  EXPECT_THAT(
      [&] { read(thetas(1000, 257)); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("more than 256 different values: 257")));
}

TEST(ConfigLimits, Parts) {
  const std::string parts = list(
      300, [](int i) { return "\"p" + std::to_string(i) + "_config\": " + config("\"a\": 1"); });
  EXPECT_THAT([&] { read(parts); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("more than 256 ropes in all parts")));
}

TEST(ConfigLimits, UnreadKeys) {
  const Model model =
      read(list(5000, [](int i) { return "\"rope_key" + std::to_string(i) + "\": 1"; }));
  EXPECT_THAT(model.ropes.front().warnings, SizeIs(17));
  EXPECT_THAT(model.ropes.front().warnings.back(), HasSubstr("4984 more keys"));
}

// Linear in the number of layers: with 20,000 a quadratic reader takes seconds.
TEST(ConfigLimits, PerLayerHeadDims) {
  const int layers = 20'000;
  const Model model =
      read("\"layer_types\": [" + list(layers, [](int) { return "\"full_attention\""; }) +
           R"(], "rope_parameters": {"full_attention": {"rope_type": "default"}},
          "per_layer_config": {)" +
           list(layers,
                [=](int i) {
                  return "\"" + std::to_string(i) + R"(": {"head_dim": )" +
                         (i == layers - 1 ? "32" : "null") + "}";
                }) +
           "}");
  EXPECT_EQ(model.ropes.front().layout.head_dim, 32);
}

TEST(ConfigLimits, InvalidParametersNameTheFileAndTheRope) {
  EXPECT_THAT([] { read(R"("head_dim": 268435456)"); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("x.json: rope \"default\""), HasSubstr("rotary_dim must be"))));
}

TEST(ConfigLimits, LongFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << std::string((16 << 20) + 1, ' ');
  EXPECT_THAT([&] { Model::read(folder / "config.json"); },
              ThrowsMessage<IoError>(HasSubstr("16 MiB")));
}

}  // namespace
}  // namespace rotary::limits_test
