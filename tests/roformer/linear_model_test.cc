// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// RoFormer with every linear attention: config, learning, checkpoints, decoding, and a cost that is
// linear in the length.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/optim/adam.h>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cost_counter.h"
#include "roformer/model/model.h"
#include "roformer/model_testing.h"
#include "roformer/roformer_testing.h"

namespace rotary::roformer {
namespace {

constexpr double kTolerance = 5e-5;

struct LinearCase {
  std::string name;
  std::string keys;  // of config.json
};

void PrintTo(const LinearCase& linear_case, std::ostream* stream) { *stream << linear_case.name; }

std::vector<LinearCase> linear_cases() {
  const std::vector<LinearCase> kernels = {
      {"elu", ""},
      {"relu", R"(,"linear_kernel":"relu")"},
      {"cosine", R"(,"linear_kernel":"cosine")"},
      {"rotated", R"(,"linear_kernel":"rotated")"},
      {"favor_before", R"(,"linear_kernel":"favor","favor_rotation":"before")"},
      {"favor_after", R"(,"linear_kernel":"favor","favor_features":32)"}};
  const std::vector<LinearCase> decays = {{"", ""},
                                          {"_slopes", R"(,"linear_decay":true)"},
                                          {"_constant", R"(,"linear_decay":0.03)"},
                                          {"_learned", R"(,"linear_decay":"learned")"}};
  std::vector<LinearCase> all;
  for (const LinearCase& kernel : kernels) {
    for (const LinearCase& decay : decays) {
      all.push_back({kernel.name + decay.name, kernel.keys + decay.keys});
    }
  }
  return all;
}

class LinearModel : public testing::TestWithParam<LinearCase> {
 protected:
  static Config config(Task task) {
    const std::string text = R"({"attention_type":"linear")" + GetParam().keys + "}";
    Config config = small(task);
    const Config parsed = parse_config(text, "config");
    config.attention_type = parsed.attention_type;
    config.linear = parsed.linear;
    config.hidden_dropout_prob = 0.0;
    return config;
  }
};

TEST_P(LinearModel, ConfigRoundTrips) {
  const Config written = config(Task::kMaskedLm);
  const Config read = parse_config(to_json(written), "config");
  EXPECT_EQ(read.linear, written.linear);
  EXPECT_EQ(read.attention_type, AttentionKind::kLinear);
}

TEST_P(LinearModel, PaddingAndPackingChangeNothing) {
  const at::NoGradGuard no_grad;
  const Model m = make(config(Task::kMaskedLm));
  const at::Tensor ids = ids_of(1, 12);
  const at::Tensor first = m->forward({.ids = ids.narrow(1, 0, 7)}).logits;
  const at::Tensor second = m->forward({.ids = ids.narrow(1, 7, 5)}).logits;
  at::Tensor mask = at::ones({1, 12}, at::kLong);
  mask.narrow(1, 7, 5).zero_();
  EXPECT_LE(apart(m->forward({.ids = ids, .mask = mask}).logits.narrow(1, 0, 7), first),
            kTolerance);
  const at::Tensor cuts = at::tensor({0, 7, 12}, at::kInt);
  EXPECT_LE(apart(m->forward({.ids = ids, .cu_seqlens = cuts}).logits, at::cat({first, second}, 1)),
            kTolerance);
}

TEST_P(LinearModel, CachedDecodingMatchesOnePass) {
  const at::NoGradGuard no_grad;
  const Model m = make(config(Task::kCausalLm));
  const at::Tensor ids = ids_of(2, 80);
  at::Tensor mask = at::ones({2, 80}, at::kLong);
  mask[1].narrow(0, 0, 3).zero_();  // padding on the left, as in generation from several prompts
  for (const bool padded : {false, true}) {
    const auto mask_to = [&](std::int64_t end) {
      return padded ? std::optional(mask.narrow(1, 0, end)) : std::nullopt;
    };
    const at::Tensor whole = m->forward({.ids = ids, .mask = mask_to(80)}).logits;
    Cache cache;
    std::vector<at::Tensor> parts;
    std::int64_t first = 0;
    for (const std::int64_t tokens : {70, 1, 1, 3, 5}) {
      const at::Tensor part = ids.narrow(1, first, tokens);
      first += tokens;
      parts.push_back(m->forward({.ids = part, .mask = mask_to(first), .cache = &cache}).logits);
    }
    const at::Tensor steps = at::cat(parts, 1);
    EXPECT_LE(apart(steps[0], whole[0]), kTolerance);
    EXPECT_LE(apart(steps[1].narrow(0, 3, 77), whole[1].narrow(0, 3, 77)), kTolerance);
  }
}

/// A row has one token of 8 classes, at a random position, among 30 others. Every other token is to
/// name it, which only attention can tell: without it the loss is ln 8 = 2.08.
struct FindTheClass {
  explicit FindTheClass(std::int64_t rows) {
    constexpr std::int64_t kTokens = 16;
    ids = at::randint(20, 50, {rows, kTokens}, at::kLong);
    const at::Tensor classes = at::randint(1, 9, {rows, 1}, at::kLong);
    const at::Tensor at_position = at::randint(0, kTokens, {rows, 1}, at::kLong);
    ids.scatter_(1, at_position, classes);
    labels = classes.expand({rows, kTokens}).clone();
    labels.scatter_(1, at_position, kIgnored);
  }
  at::Tensor ids;
  at::Tensor labels;
};

TEST_P(LinearModel, LearnsAndIsSavedWithEqualLogits) {
  at::manual_seed(3);
  Config tiny = config(Task::kMaskedLm);
  tiny.num_hidden_layers = 1;
  const Model m = make_model(tiny);
  std::vector<at::Tensor> trained;
  for (const at::Tensor& p : m->parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  ::torch::optim::Adam optimizer(trained, ::torch::optim::AdamOptions(0.004));
  double loss = 0.0;
  for (int step = 0; step < 400; ++step) {
    const FindTheClass task(16);
    optimizer.zero_grad();
    const at::Tensor now = m->forward({.ids = task.ids, .labels = task.labels}).loss;
    now.backward();
    optimizer.step();
    loss = step == 0 ? now.item<double>() : 0.8 * loss + 0.2 * now.item<double>();
    if (loss < 0.5) break;
  }
  EXPECT_LT(loss, 0.5);

  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("roformer-linear-" + GetParam().name);
  remove_tree(folder);
  save_model(folder, *m);
  const Model loaded = load_complete_model(folder);
  m->eval();
  const at::Tensor ids = ids_of(2, 20);
  EXPECT_TRUE(at::equal(loaded->forward({.ids = ids}).logits, m->forward({.ids = ids}).logits));
  remove_tree(folder);
}

// ---- Cost ---------------------------------------------------------------------------------------

/// Of a forward and a backward pass over one row.
Cost cost_of(Config config, std::int64_t length) {
  at::manual_seed(5);
  config.num_hidden_layers = 1;
  const Model m = make_model(config);
  const at::Tensor ids = at::randint(1, 50, {1, length}, at::kLong);
  const CostCounter counter;
  m->forward({.ids = ids, .labels = ids}).loss.backward();
  return counter.cost();
}

TEST_P(LinearModel, CostIsLinearInTheLength) {
  for (const Task task : {Task::kMaskedLm, Task::kCausalLm}) {
    const Cost once = cost_of(config(task), 1024);
    const Cost twice = cost_of(config(task), 2048);
    EXPECT_GT(once.operations, 0.0);
    EXPECT_LE(twice.operations, 2.05 * once.operations) << twice.growth_since(once);
    EXPECT_LE(twice.peak_bytes, 2.05 * once.peak_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearModel, testing::ValuesIn(linear_cases()),
                         [](const auto& info) { return info.param.name; });

/// The guard itself: softmax attention, which is quadratic in operations, and a bias on its scores,
/// which is so in memory.
TEST(CostCounter, SeesQuadraticCost) {
  Config config = small(Task::kMaskedLm);
  const Cost once = cost_of(config, 1024);
  const Cost twice = cost_of(config, 2048);
  EXPECT_GT(twice.operations, 3.0 * once.operations);
  config.position_encoding = "alibi";
  EXPECT_GT(cost_of(config, 2048).peak_bytes, 3.0 * cost_of(config, 1024).peak_bytes);
}

TEST(LinearConfig, RejectsWithOneLine) {
  const auto refusal = [](const std::string& keys) {
    return thrown([&] { parse_config("{" + keys + "}", "config.json"); });
  };
  EXPECT_THAT(refusal(R"("linear_kernel":"relu")"),
              testing::HasSubstr("config.json: linear_kernel, favor_rotation, favor_features and "
                                 "linear_decay are for attention_type \"linear\""));
  const std::string linear = R"("attention_type":"linear",)";
  for (const auto& [keys, message] :
       {std::pair(R"("linear_kernel":"selu")",
                  "linear_kernel must be one of elu, relu, cosine, rotated, favor, got \"selu\""),
        std::pair(R"("favor_rotation":"before")",
                  "favor_rotation and favor_features are for linear_kernel \"favor\", got \"elu\""),
        std::pair(R"("linear_kernel":"favor","favor_features":7)",
                  "favor_features must be even, from 2 to 1024"),
        std::pair(R"("linear_kernel":"favor","favor_features":4096)",
                  "favor_features must be even, from 2 to 1024"),
        std::pair(R"("linear_decay":-1)",
                  "linear_decay must be true, false, \"learned\" or a number above 0, got -1"),
        std::pair(R"("linear_decay":"fast")",
                  "linear_decay must be true, false, \"learned\" or a number above 0")}) {
    EXPECT_THAT(refusal(linear + keys), testing::HasSubstr(message)) << keys;
  }
}

}  // namespace
}  // namespace rotary::roformer
