// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frozen parameters: which ones, their bits and those of their optimizer state, thawing, resuming.
#include "roformer/train/freeze.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <map>

#include "model_testing.h"
#include "roformer/checkpoint/tensor_files.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/trainer.h"
#include "roformer_testing.h"

namespace rotary::roformer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config freeze_config() {
  Config config = small(Task::kMaskedLm);
  config.num_hidden_layers = 3;
  config.hidden_dropout_prob = 0.1;
  return config;
}

/// Rows of random tokens, every third of which is to be predicted.
class RandomRows {
 public:
  bool next(Batch& batch) {
    batch = Batch();
    batch.rows = 2;
    batch.length = 9;
    for (std::int64_t i = 0; i < 18; ++i) {
      const auto id = static_cast<std::int32_t>((state_.row * 31 + i * i) % 49 + 1);
      batch.ids.push_back(id);
      batch.labels.push_back(i % 3 == 0 ? id : kIgnoreIndex);
    }
    batch.lengths = {9, 9};
    ++state_.row;
    batch.next = state_;
    return true;
  }
  void restore(const StreamState& state) { state_ = state; }

 private:
  StreamState state_{};
};

using Weights = std::map<std::string, at::Tensor>;

Weights weights_by_name(const ModelImpl& model) {
  Weights all;
  for (const auto& item : model.named_parameters()) {
    all.emplace(item.key(), item.value().detach().clone());
  }
  return all;
}

/// The layers and heads of which a parameter differs.
std::vector<std::string> changed(const Weights& a, const Weights& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    if (!at::equal(tensor, b.at(name))) names.push_back(name);
  }
  return names;
}

TrainOptions freeze_options(std::int64_t thaw_at, std::int64_t steps = 6) {
  TrainOptions options;
  options.steps = steps;
  options.learning_rate = 1e-2;
  options.freeze = {"embeddings", "layer.0-1"};
  options.thaw_at = thaw_at;
  options.seed = 5;
  return options;
}

bool is_frozen(const std::string& name) {
  return name.find(".embeddings.") != std::string::npos ||
         name.find("layer.0.") != std::string::npos || name.find("layer.1.") != std::string::npos;
}

using FreezeTest = ScratchTest;

TEST(FreezePatterns, NameLayersAndParameters) {
  const Model model = make(freeze_config());
  const ParameterStore store(*model);
  const auto count = [&](const std::vector<std::string>& patterns) {
    const std::vector<bool> frozen = frozen_segments(store, patterns);
    return std::count(frozen.begin(), frozen.end(), true);
  };
  constexpr int kPerLayer = 16;
  EXPECT_EQ(count({"layer.1"}), kPerLayer);
  EXPECT_EQ(count({"layer.0-1"}), 2 * kPerLayer);
  EXPECT_EQ(count({"layer.0-1", "layer.1-2"}), 3 * kPerLayer);
  EXPECT_EQ(count({"embeddings"}), 4);
  EXPECT_EQ(count({"head"}), 5);
  EXPECT_EQ(count({"query"}), 6);
  EXPECT_EQ(count({"attention.self"}), 18);
  EXPECT_EQ(count({"layer.2.output"}), 4);
  const auto refusal = [&](const std::string& pattern) {
    return thrown([&] { frozen_segments(store, {pattern}); });
  };
  EXPECT_THAT(refusal("layer.3"),
              HasSubstr("freeze must name layers from 0 to 2, got \"layer.3\""));
  EXPECT_THAT(refusal("layer.2-1"), HasSubstr("layers from 0 to 2"));
  EXPECT_THAT(refusal("quer"), HasSubstr("freeze must name layers or parameters of the model"));
  EXPECT_THAT(refusal(""), HasSubstr("freeze must name"));
  EXPECT_THAT(thrown([&] { frozen_segments(store, {"embeddings", "layer.0-2", "head"}); }),
              HasSubstr("freeze must leave parameters to train"));
}

TEST(FreezePatterns, RangesCoverTheBufferOnce) {
  const Model model = make(freeze_config());
  const ParameterStore store(*model, 3);
  const std::vector<bool> frozen = frozen_segments(store, {"query", "layer.1"});
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const std::int64_t size = store.size() / 3;
    FlatRanges all = ranges_of(store, frozen, true, rank * size, (rank + 1) * size);
    const FlatRanges others = ranges_of(store, frozen, false, rank * size, (rank + 1) * size);
    all.insert(all.end(), others.begin(), others.end());
    std::ranges::sort(all);
    std::int64_t next = rank * size;
    for (const auto& [begin, end] : all) {
      EXPECT_EQ(begin, next);
      EXPECT_EQ(begin % 64, 0);
      next = end;
    }
    EXPECT_EQ(next, (rank + 1) * size);
  }
}

TEST_F(FreezeTest, FrozenParametersKeepTheirBits) {
  int runs = 0;
  for (const bool checkpointing : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Model model = make(freeze_config());
      const Weights before = weights_by_name(*model);
      TrainOptions options = freeze_options(0);
      options.checkpointing = checkpointing;
      options.compute_type = type;
      options.folder = path(std::to_string(++runs));
      RandomRows batches;
      Trainer(model, options).run(source_of(batches));
      for (const auto& [name, tensor] : weights_by_name(*model)) {
        EXPECT_EQ(at::equal(tensor, before.at(name)), is_frozen(name)) << name;
      }
      for (const auto& [name, moment] :
           read_tensors(last_checkpoint(options.folder) / "optimizer.safetensors")) {
        if (name != "steps" && is_frozen(name)) {
          EXPECT_EQ(moment.abs().max().item<double>(), 0.0) << name;
        }
      }
      for (const at::Tensor& parameter : model->parameters()) {
        EXPECT_TRUE(parameter.requires_grad());
      }
    }
  }
}

TEST_F(FreezeTest, PartsOfAProductCanBeFrozen) {
  // Fused operations compute one gradient of queries, keys and values.
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Model model = make(freeze_config());
    const Weights before = weights_by_name(*model);
    TrainOptions options = freeze_options(0, 2);
    options.freeze = {"query", "LayerNorm"};
    options.compute_type = type;
    RandomRows batches;
    Trainer(model, options).run(source_of(batches));
    for (const auto& [name, tensor] : weights_by_name(*model)) {
      const bool frozen =
          name.find("query") != std::string::npos || name.find("LayerNorm") != std::string::npos;
      EXPECT_EQ(at::equal(tensor, before.at(name)), frozen) << name;
    }
  }
}

TEST_F(FreezeTest, ThawsAtItsStep) {
  const auto train = [&](std::int64_t thaw_at, std::int64_t steps) {
    const Model model = make(freeze_config());
    RandomRows batches;
    TrainOptions options = freeze_options(thaw_at, 6);
    options.clip_norm = 0.0;  // the norm is over what is trained
    Trainer trainer(model, options);
    trainer.run(source_of(batches), steps);
    return weights_by_name(*model);
  };
  const Weights start = weights_by_name(*make(freeze_config()));
  EXPECT_EQ(changed(train(4, 3), train(0, 3)), std::vector<std::string>());
  const std::vector<std::string> thawed = changed(train(4, 4), train(0, 4));
  EXPECT_FALSE(thawed.empty());
  for (const std::string& name : thawed) EXPECT_TRUE(is_frozen(name)) << name;
  // The first update of Adam has the size of the learning rate, as if its steps began here.
  const std::string query = "roformer.encoder.layer.0.attention.self.query.bias";
  const double step = (train(1, 4).at(query) - train(1, 3).at(query)).abs().max().item<double>();
  const double first = (train(4, 4).at(query) - start.at(query)).abs().max().item<double>();
  EXPECT_GT(first, 0.0);
  EXPECT_LT(first, 2.0 * step);
}

TEST_F(FreezeTest, FrozenPartsAreNotInTheGradientNorm) {
  const auto norm = [&](const std::vector<std::string>& freeze) {
    const Model model = make(freeze_config());
    TrainOptions options = freeze_options(0, 1);
    options.freeze = freeze;
    options.report_every = 1;
    Trainer trainer(model, options);
    double found = 0.0;
    trainer.on_report([&](const StepReport& report) { found = report.gradient_norm; });
    RandomRows batches;
    trainer.run(source_of(batches));
    return found;
  };
  EXPECT_LT(norm({"embeddings", "layer.0-2"}), norm({}));
}

TEST_F(FreezeTest, ResumesBitForBitBeforeAndAfterTheThaw) {
  const auto train = [&](const std::string& run, std::int64_t until) {
    const Model model = make(freeze_config());
    TrainOptions options = freeze_options(4, 8);
    options.folder = path(run);
    RandomRows batches;
    Trainer trainer(model, options);
    trainer.resume();
    trainer.run(source_of(batches), until);
    return weights_by_name(*model);
  };
  const Weights whole = train("whole", 8);
  for (const std::int64_t stop : {2, 3, 4, 6}) {
    const std::string run = "parts-" + std::to_string(stop);
    train(run, stop);
    EXPECT_THAT(changed(train(run, 8), whole), ElementsAre()) << stop;
  }
}

TEST_F(FreezeTest, RejectsThawWithoutFreeze) {
  TrainOptions options = freeze_options(3);
  options.freeze.clear();
  EXPECT_THAT(thrown([&] { Trainer(make(freeze_config()), options); }),
              HasSubstr("thaw_at needs freeze"));
}

}  // namespace
}  // namespace rotary::roformer
