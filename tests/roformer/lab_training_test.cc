// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Training of a lab's models: the learning rate of the encoding's own parameters.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <map>

#include "io/json_file.h"
#include "lab_testing.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_data.h"
#include "roformer/lab/training.h"
#include "roformer/train/checkpoints.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kPlainTokens = 40;

Config tiny_decoder(const std::string& encoding) {
  Config config;
  config.task = Task::kCausalLm;
  config.vocab_size = kPlainTokens;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 64;
  config.position_encoding = encoding;
  return config;
}

TextData plain_text() {
  at::manual_seed(3);
  TextData data;
  data.train = at::randint(kPlainTokens, {4000}).to(at::kShort);
  data.held_out = at::randint(kPlainTokens, {4, 129});
  data.vocab_size = kPlainTokens;
  return data;
}

/// The change of each parameter in one step.
std::map<std::string, at::Tensor> changes(const std::string& encoding, double rate) {
  const Model model = make_seeded_model(tiny_decoder(encoding), 1, at::kCPU);
  std::map<std::string, at::Tensor> all;
  for (const auto& item : model->named_parameters()) {
    all[item.key()] = -item.value().detach().clone();
  }
  const TextData data = plain_text();
  TrainPlan plan;
  plan.options.steps = 2;  // the rate of the last one is 0
  plan.options.learning_rate = 1e-3;
  plan.options.adamw.weight_decay = 0.0;
  plan.options.encoding_rate = rate;
  train_model(*model, plan, [&](std::int64_t step) { return causal_batch(data, 4, 32, 0, step); },
              {.folder = "none"});
  for (const auto& item : model->named_parameters()) all[item.key()] += item.value().detach();
  return all;
}

TEST(EncodingRate, ScalesTheStepsOfTheEncodingAlone) {
  for (const char* encoding : {"t5", "kerple_log", "distance", "shaw", "rope+t5"}) {
    const auto once = changes(encoding, 1.0);
    const auto often = changes(encoding, 30.0);
    int scaled = 0;
    for (const auto& [name, change] : once) {
      const bool own = name.find("encoder.encoding.") != std::string::npos ||
                       name.find("self.relative.") != std::string::npos;
      scaled += own ? 1 : 0;
      EXPECT_TRUE(at::allclose(often.at(name), change * (own ? 30.0 : 1.0), 1e-3, 1e-6))
          << encoding << " " << name;
      if (!own) continue;
      EXPECT_GT(change.abs().max().item<double>(), 1e-4) << name;
    }
    EXPECT_GT(scaled, 0) << encoding;
  }
}

TEST(EncodingRate, IsAKeyOfAnEntry) {
  EXPECT_EQ(encoding_rate_of({{"name", "rope"}}), 1.0);
  EXPECT_EQ(encoding_rate_of({{"encoding_rate", 8}}), 8.0);
  EXPECT_THAT([] { encoding_rate_of({{"encoding_rate", 0}}); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("encoding_rate must be a positive number, got 0")));
  // Encodings with biases have one, others do not, and a model's config does not know the key.
  EXPECT_GT(encoding_rate_of(encoding_entry("rope+t5", "rope+t5", 1)), 1.0);
  EXPECT_EQ(encoding_rate_of(encoding_entry("rope", "rope", 3)), 1.0);
  EXPECT_EQ(model_config({encoding_entry("mine", "t5", 1)}, "here").position_encoding, "t5");
}

class LabTraining : public ScratchTest {};

TEST_F(LabTraining, ContinuesFromACheckpointWhoseCurveIsItsPointsAlone) {
  const TextData data = plain_text();
  const auto train = [&](std::int64_t interrupt_at) {
    TrainPlan plan;
    plan.curve_points = 3;
    plan.options.steps = 6;
    plan.options.learning_rate = 1e-3;
    std::int64_t at_step = 0;
    const UnitRun run{.folder = path("run"), .stop = [&] { return at_step == interrupt_at; }};
    const Model model = make_seeded_model(tiny_decoder("rope"), 1, at::kCPU);
    return train_model(
               *model, plan,
               [&](std::int64_t step) {
                 at_step = step;
                 return causal_batch(data, 4, 32, 0, step);
               },
               run)
        .curve;
  };
  const auto whole = train(0);
  EXPECT_THROW(train(4), Stopped);
  const auto checkpoint = last_checkpoint(path("run") / "model");
  const internal::Json points = internal::read_json_file(checkpoint / "curve.json").at("points");
  EXPECT_EQ(points.size(), 2U);
  write_whole_file(checkpoint / "curve.json", points.dump());
  internal::Json state = internal::read_json_file(checkpoint / "trainer.json");
  state["files"].take("curve.json");  // its checksum
  write_whole_file(checkpoint / "trainer.json", state.dump());
  EXPECT_EQ(train(0), whole);
}

}  // namespace
}  // namespace rotary::roformer::lab
