// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Facts about encodings and scores that hold at any size.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <map>

#include "lab_testing.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/rope_recipes.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;
using testing::HasSubstr;

constexpr std::int64_t kVocabulary = 40;

/// "roper" is RoPE with values rotated, too, and outputs rotated back.
Config small(const std::string& encoding, Task task) {
  if (encoding == "roper") {
    Config config = small("rope", task);
    config.rotary_output = true;
    return config;
  }
  Config config = model_config({{{"hidden_size", 32},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"intermediate_size", 48},
                                 {"initializer_range", 0.2},
                                 {"max_position_embeddings", 64},
                                 {"position_encoding", encoding}}},
                               task, "test");
  config.vocab_size = kVocabulary;
  return config;
}

Model seeded(const std::string& encoding, Task task) {
  Model model = make_seeded_model(small(encoding, task), 5, at::kCPU);
  // Tables and biases that begin as zeros are given values.
  const at::NoGradGuard no_grad;
  at::manual_seed(6);
  for (const at::Tensor& parameter : model->parameters()) {
    if (parameter.count_nonzero().item<std::int64_t>() == 0) parameter.normal_(0.0, 0.3);
  }
  model->eval();
  return model;
}

at::Tensor some_ids(std::int64_t count) {
  at::manual_seed(3);
  return at::randint(1, kVocabulary, {1, count}, at::kLong);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// ---- Encodings ----------------------------------------------------------------------------------

TEST(LabFacts, NoEncodingIsBlindToOrder) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = some_ids(24);
  const at::Tensor order = at::randperm(24, at::kLong);
  for (const char* encoding : {"none", "rope", "roper", "learned", "sinusoidal", "t5", "alibi",
                               "kerple_log", "kerple_power", "distance", "shaw", "nezha",
                               "transformer_xl", "rope+alibi", "rope+t5", "rope+distance"}) {
    const Model model = seeded(encoding, Task::kMaskedLm);
    const at::Tensor plain = model->forward({.ids = ids}).logits.index_select(1, order);
    const at::Tensor permuted = model->forward({.ids = ids.index_select(1, order)}).logits;
    if (std::string(encoding) == "none") {
      EXPECT_LT(distance(plain, permuted), 1e-4) << encoding;
    } else {
      EXPECT_GT(distance(plain, permuted), 1e-3) << encoding;
    }
  }
}

TEST(LabFacts, RelativeEncodingsSeeNoCommonShift) {
  const at::NoGradGuard no_grad;
  const std::int64_t shift = 13;
  const at::Tensor ids = some_ids(20);
  // Padding in front moves the positions, and is not attended to.
  const at::Tensor padding = at::zeros({1, shift}, at::kLong);
  const at::Tensor shifted = at::cat({padding, ids}, 1);
  const at::Tensor mask = at::cat({padding, at::ones_like(ids)}, 1);
  const std::map<std::string, bool> is_relative = {
      {"rope", true},     {"xpos", true},          {"t5", true},
      {"alibi", true},    {"kerple_log", true},    {"kerple_power", true},
      {"distance", true}, {"none", true},          {"rope+alibi", true},
      {"rope+t5", true},  {"rope+distance", true}, {"roper", true},
      {"shaw", true},     {"nezha", true},         {"transformer_xl", true},
      {"learned", false}, {"sinusoidal", false}};
  for (const auto& [encoding, relative] : is_relative) {
    const Model model = seeded(encoding, Task::kCausalLm);
    const at::Tensor plain = model->forward({.ids = ids}).logits;
    const at::Tensor moved =
        model->forward({.ids = shifted, .mask = mask}).logits.narrow(1, shift, ids.size(1));
    if (relative) {
      EXPECT_LT(distance(plain, moved), 1e-4) << encoding;
    } else {
      EXPECT_GT(distance(plain, moved), 1e-3) << encoding;
    }
  }
}

// ---- Scores -------------------------------------------------------------------------------------

TextData random_text() {
  at::manual_seed(9);
  return {.train = at::randint(1, kVocabulary, {4000}, at::kLong).to(at::kShort),
          .held_out = at::randint(1, kVocabulary, {3, 65}, at::kLong),
          .vocab_size = kVocabulary,
          .mask_id = 1};
}

TEST(LabScores, UniformModelHasThePerplexityOfItsVocabulary) {
  const Model model = make_seeded_model(small("rope", Task::kCausalLm), 1, at::kCPU);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : model->parameters()) parameter.zero_();
  const TextData data = random_text();
  for (const Windows windows : {Windows::kDisjoint, Windows::kSliding}) {
    for (const std::int64_t length : {8, 32, 64}) {
      EXPECT_NEAR(perplexity_at(*model, data, length, windows), kVocabulary, 1e-3);
    }
  }
}

TEST(LabScores, WindowsCountEveryTokenOnce) {
  const Model model = seeded("rope", Task::kCausalLm);
  const TextData data = random_text();
  // One row: sliding or not is the same.
  EXPECT_NEAR(perplexity_at(*model, data, 64, Windows::kDisjoint),
              perplexity_at(*model, data, 64, Windows::kSliding), 1e-6);
  // Sliding rows by hand.
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (std::int64_t text = 0; text < 3; ++text) {
    for (std::int64_t first = 0; first + 32 <= 64; first += 16) {
      const at::Tensor row = data.held_out[text].narrow(0, first, 33);
      const at::Tensor logits =
          model->forward({.ids = row.narrow(0, 0, 32).unsqueeze(0)}).logits[0].log_softmax(-1);
      const at::Tensor next = row.narrow(0, 1, 32).unsqueeze(1);
      const std::int64_t skip = first == 0 ? 0 : 16;
      sum -= logits.gather(1, next).narrow(0, skip, 32 - skip).sum().item<double>();
    }
  }
  EXPECT_NEAR(perplexity_at(*model, data, 32, Windows::kSliding), std::exp(sum / (3 * 64)), 1e-4);
  EXPECT_THAT(thrown([&] { perplexity_at(*model, data, 48, Windows::kDisjoint); }),
              HasSubstr("must divide"));
}

TEST(LabScores, MaskedTokensOfSlidingRowsCountOnce) {
  TextData data = random_text();
  const auto at = [&](ModelImpl& model, std::int64_t length, Windows windows) {
    return masked_accuracy_at(model, data, length, 0.5, windows);
  };
  const Model model = seeded("rope", Task::kMaskedLm);
  // One row: sliding or not is the same.
  EXPECT_EQ(at(*model, 64, Windows::kDisjoint), at(*model, 64, Windows::kSliding));
  // By hand: the middle half of a row, and what no other row has.
  const at::NoGradGuard no_grad;
  const MaskedTokens masked =
      mask_rows(data.held_out.narrow(1, 0, 64).contiguous(), data, 0.5, 0, 0);
  std::int64_t right = 0;
  for (std::int64_t text = 0; text < 3; ++text) {
    for (const std::int64_t first : {0, 16, 32}) {
      const std::int64_t from = first == 0 ? 0 : 8;
      const std::int64_t to = first == 32 ? 32 : 24;
      const at::Tensor ids = masked.ids[text].narrow(0, first, 32).unsqueeze(0);
      const at::Tensor found = model->forward({.ids = ids}).logits[0].argmax(-1);
      right += found.eq(masked.labels[text].narrow(0, first, 32))
                   .narrow(0, from, to - from)
                   .sum()
                   .item<std::int64_t>();
    }
  }
  EXPECT_DOUBLE_EQ(at(*model, 32, Windows::kSliding), static_cast<double>(right) / (3 * 32));
  // A model that always says 0 is right everywhere in a text of zeros.
  for (const at::Tensor& parameter : model->parameters()) parameter.zero_();
  data.held_out.zero_();
  for (const Windows windows : {Windows::kDisjoint, Windows::kSliding}) {
    for (const std::int64_t length : {2, 8, 32, 64}) EXPECT_EQ(at(*model, length, windows), 1.0);
  }
}

TEST(LabScores, MasksTheSameTokensForEveryLength) {
  const TextData data = random_text();
  const at::Tensor ids = data.held_out.narrow(1, 0, 64).contiguous();
  const MaskedTokens one = mask_rows(ids, data, 0.15, 4, 2);
  const MaskedTokens two = mask_rows(ids, data, 0.15, 4, 2);
  EXPECT_TRUE(at::equal(one.ids, two.ids));
  EXPECT_EQ(one.indices.numel(), 3 * 9);
  const at::Tensor labelled = one.labels.ne(kIgnored);
  EXPECT_EQ(labelled.sum().item<std::int64_t>(), 3 * 9);
  EXPECT_TRUE(at::equal(one.labels.masked_select(labelled), ids.masked_select(labelled)));
  EXPECT_TRUE(at::equal(one.ids.masked_select(labelled.logical_not()),
                        ids.masked_select(labelled.logical_not())));
}

// ---- Retrieval ----------------------------------------------------------------------------------

TEST(LabNeedle, EachKeyStandsTwiceOrOftenWithOneValue) {
  const TextData data = random_text();
  const TrainingBatch batch =
      needle_batch(data, {.rows = 6, .length = 64, .share = 0.5, .pairs = 4, .seed = 2}, 7);
  const at::Tensor ids = at::cat({batch.inputs.ids, batch.inputs.labels->narrow(1, 63, 1)}, 1);
  for (std::int64_t row = 0; row < 6; ++row) {
    std::map<std::int64_t, std::vector<std::int64_t>> values;
    for (std::int64_t i = 0; i < 64; ++i) {
      const auto id = ids[row][i].item<std::int64_t>();
      if (id >= kVocabulary && id < kVocabulary + kNumKeys) {
        values[id].push_back(ids[row][i + 1].item<std::int64_t>());
      }
    }
    EXPECT_EQ(values.size(), row < 3 ? 4U : 0U);
    const bool filled = row % 2 == 1;
    std::int64_t pairs = 0;
    for (const auto& [key, found] : values) {
      EXPECT_TRUE(filled || found.size() == 2U);
      for (const std::int64_t value : found) EXPECT_EQ(value, found.front());
      EXPECT_GE(found.front(), kVocabulary + kNumKeys);
      pairs += std::ssize(found);
    }
    EXPECT_GE(pairs, filled && row < 3 ? 64 / (2 + kMaxGap) : 0);
  }
  EXPECT_TRUE(at::equal(
      batch.inputs.ids,
      needle_batch(data, {.rows = 6, .length = 64, .share = 0.5, .pairs = 4, .seed = 2}, 7)
          .inputs.ids));
  EXPECT_THAT(thrown([&] { needle_batch(data, {.length = 16, .pairs = 8}, 1); }),
              HasSubstr("pairs"));
}

TEST(LabNeedle, AnUntrainedModelGuesses) {
  Config config = small("rope", Task::kCausalLm);
  config.vocab_size = kVocabulary + kNeedleTokens;
  const Model model = make_seeded_model(config, 1, at::kCPU);
  model->eval();
  const TextData data = random_text();
  EXPECT_LT(retrieval_at(*model, data, 32, 20, 32), 0.3);
  EXPECT_THAT(thrown([&] { retrieval_at(*model, data, 32, 32, 4); }), HasSubstr("distance"));
}

// ---- Recipes ------------------------------------------------------------------------------------

TEST(LabRecipes, AllFitAModel) {
  const Json recipes = default_rope_recipes();
  for (const Json& recipe : recipes.elements()) {
    for (const double factor : {2.0, 8.0}) {
      Config config = small("rope", Task::kCausalLm);
      apply_rope_change(make_rope_change(recipe, {.factor = factor, .pairs = 4}), config);
      EXPECT_EQ(config.rope_parameters.empty(), recipe.at("name").as_string() == "none");
    }
  }
  const Json wrong = {{"name", "x"}, {"rope", {{"rope_type", "linear"}, {"factor", "much"}}}};
  EXPECT_THAT(thrown([&] { make_rope_change(wrong, {}); }), HasSubstr("much"));
}

TEST(LabRecipes, SearchedDivisorsNeverFall) {
  for (const auto& divisors : candidate_divisors(16, 4.0)) {
    ASSERT_EQ(divisors.size(), 16U);
    EXPECT_TRUE(std::ranges::is_sorted(divisors));
    EXPECT_GE(divisors.front(), 1.0);
    EXPECT_NEAR(divisors.back(), 4.0, 1e-9);
  }
}

}  // namespace
}  // namespace rotary::roformer::lab
