// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Training of a lab's models: the learning rate of the encoding's own parameters, and rows from
// which a model learns to look keys up.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <map>
#include <set>

#include "lab_testing.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/training.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kVocabulary = 40;

Config tiny_decoder(const std::string& encoding) {
  Config config;
  config.task = Task::kCausalLm;
  config.vocab_size = kVocabulary;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 64;
  config.position_encoding = encoding;
  return config;
}

TextData random_text() {
  at::manual_seed(3);
  TextData data;
  data.train = at::randint(kVocabulary, {4000}).to(at::kShort);
  data.held_out = at::randint(kVocabulary, {4, 129});
  data.vocab_size = kVocabulary;
  return data;
}

/// The change of each parameter in one step.
std::map<std::string, at::Tensor> changes(const std::string& encoding, double rate) {
  const Model model = make_seeded_model(tiny_decoder(encoding), 1, at::kCPU);
  std::map<std::string, at::Tensor> all;
  for (const auto& item : model->named_parameters()) {
    all[item.key()] = -item.value().detach().clone();
  }
  const TextData data = random_text();
  TrainPlan plan;
  plan.options.steps = 1;
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
      const bool own = name.find("encoder.encoding.") != std::string::npos;
      scaled += own ? 1 : 0;
      EXPECT_TRUE(at::allclose(often.at(name), change * (own ? 30.0 : 1.0), 1e-3, 1e-6))
          << encoding << " " << name;
      if (own) EXPECT_GT(change.abs().max().item<double>(), 5e-4) << name;
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

// Every row with pairs has each key with one value only, and shows it more than once.
TEST(Needles, PairsOfARowAgree) {
  const TextData data = random_text();
  const NeedleOptions options{.rows = 8, .length = 64, .share = 0.5, .pairs = 4, .seed = 5};
  const at::Tensor ids = needle_batch(data, options, 1).inputs.ids;
  for (std::int64_t row = 0; row < options.rows; ++row) {
    std::map<std::int64_t, std::multiset<std::int64_t>> values;
    for (std::int64_t i = 0; i + 1 < options.length; ++i) {
      const auto key = ids[row][i].item<std::int64_t>();
      if (key < kVocabulary || key >= kVocabulary + kNumKeys) continue;
      values[key].insert(ids[row][i + 1].item<std::int64_t>());
    }
    EXPECT_EQ(values.empty(), row >= 4) << row;
    std::size_t repeated = 0;
    for (const auto& [key, found] : values) {
      EXPECT_EQ(found.count(*found.begin()), found.size()) << "row " << row << ", key " << key;
      EXPECT_GE(*found.begin(), kVocabulary + kNumKeys);
      repeated += found.size() > 1 ? 1 : 0;
    }
    if (row < 4) EXPECT_GE(repeated, 2U) << row;
  }
}

}  // namespace
}  // namespace rotary::roformer::lab
