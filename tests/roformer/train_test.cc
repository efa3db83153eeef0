// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The trainer: arithmetic of a step, resuming from checkpoints, non-finite losses.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

#include "roformer/train/checkpoints.h"
#include "roformer/train/event_file.h"
#include "roformer/train/trainer.h"
#include "roformer_testing.h"

namespace rotary::roformer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config small_config(double dropout = 0.0) {
  Config config;
  config.task = Task::kMaskedLm;
  config.vocab_size = 40;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.hidden_dropout_prob = dropout;
  config.attention_probs_dropout_prob = dropout;
  config.initializer_range = 0.1;
  return config;
}

Model small_model(double dropout = 0.0) {
  at::manual_seed(7);
  return make_model(small_config(dropout));
}

/// Rows in which each token is the one before plus 1; every third is labelled.
class Counting {
 public:
  explicit Counting(std::int64_t rows, std::int64_t batches = 1000000)
      : rows_(rows), batches_(batches) {}

  bool next(Batch& batch) {
    if (given_ == batches_) return false;
    constexpr std::int64_t kLength = 12;
    batch = Batch();
    batch.rows = rows_;
    batch.length = kLength;
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t first = (static_cast<std::int64_t>(state_.row) * 7) % 25 + 2;
      for (std::int64_t i = 0; i < kLength; ++i) {
        // Rows differ in their number of labels, so that a mean of means is not the mean.
        const bool masked = i % 3 == 1 && !(state_.row % 2 == 0 && i == 10);
        batch.ids.push_back(masked ? 1 : first + i);
        batch.labels.push_back(masked ? first + i : kIgnoreIndex);
      }
      batch.lengths.push_back(kLength);
      ++state_.row;
    }
    ++given_;
    batch.next = state_;
    return true;
  }
  void restore(const StreamState& state) { state_ = state; }

 private:
  std::int64_t rows_;
  std::int64_t batches_;
  std::int64_t given_ = 0;
  StreamState state_{};
};

at::Tensor weights(const ModelImpl& model) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : model.parameters())
    all.push_back(parameter.detach().flatten());
  return at::cat(all).clone();
}

struct Losses {
  std::vector<double> values;
  void listen(Trainer& trainer) {
    trainer.on_report([this](const StepReport& report) { values.push_back(report.loss); });
  }
};

TrainOptions quick(std::int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  options.learning_rate = 1e-2;
  options.report_every = 1;
  return options;
}

using TrainTest = ScratchTest;

// ---- Parameters ---------------------------------------------------------------------------------

TEST(ParameterStoreTest, KeepsTheValuesOfTheModel) {
  const Model model = small_model();
  const at::Tensor before = weights(*model);
  const ParameterStore store(*model, 3);
  EXPECT_TRUE(at::equal(before, weights(*model)));
  EXPECT_EQ(store.size() % 3, 0);
  Counting batches(2);
  Batch batch;
  batches.next(batch);
  model->forward(to_inputs(batch, Task::kMaskedLm, at::kCPU)).loss.backward();
  for (const auto& segment : store.segments()) {
    EXPECT_EQ(segment.parameter.grad().data_ptr(), segment.gradient.data_ptr()) << segment.name;
    EXPECT_EQ(segment.parameter.dim() >= 2, segment.offset < store.num_decaying()) << segment.name;
  }
  EXPECT_GT(store.gradients().abs().sum().item<double>(), 0.0);
}

// ---- Steps --------------------------------------------------------------------------------------

TEST(TrainerTest, Learns) {
  const Model model = small_model();
  Trainer trainer(model, quick(150));
  Losses losses;
  losses.listen(trainer);
  Counting batches(8);
  const TrainOutcome end = trainer.run(source_of(batches));
  EXPECT_EQ(end.ending, Ending::kDone);
  EXPECT_EQ(end.step, 150);
  ASSERT_EQ(losses.values.size(), 150u);
  EXPECT_GT(losses.values.front(), 3.0);
  EXPECT_LT(losses.values.back(), 0.5 * losses.values.front());
}

TEST(TrainerTest, AccumulatedBatchesMatchOneLargeBatch) {
  const auto train = [](std::int64_t rows, std::int64_t accumulate) {
    const Model model = small_model();
    TrainOptions options = quick(4);
    options.accumulate = accumulate;
    options.clip_norm = 0.5;
    Trainer trainer(model, options);
    Losses losses;
    losses.listen(trainer);
    Counting batches(rows);
    trainer.run(source_of(batches));
    return losses.values;
  };
  const std::vector<double> whole = train(6, 1);
  const std::vector<double> parts = train(1, 6);
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 2e-5) << i;
}

/// Change of the weights in one step that is plain gradient descent with rate 1: with an epsilon
/// far above the gradients, AdamW divides all of them by that alone.
struct DescentStep {
  at::Tensor change;
  StepReport report;
};
DescentStep descend(double clip_norm) {
  constexpr double kEpsilon = 1e4;
  const Model model = small_model();
  TrainOptions options = quick(1);
  options.learning_rate = kEpsilon;
  options.schedule.shape = ScheduleShape::kConstant;
  options.adamw.epsilon = kEpsilon;
  options.adamw.weight_decay = 0.0;
  options.clip_norm = clip_norm;
  options.gradients_every = 1;
  DescentStep step;
  const at::Tensor before = weights(*model);
  Trainer trainer(model, options);
  trainer.on_report([&](const StepReport& report) { step.report = report; });
  Counting batches(4);
  trainer.run(source_of(batches));
  step.change = (before - weights(*model)).to(at::kDouble);
  return step;
}

TEST(TrainerTest, ClipsTheGradient) {
  const DescentStep whole = descend(0.0);
  const double norm = whole.report.gradient_norm;
  ASSERT_GT(norm, 0.1);
  EXPECT_NEAR(whole.change.norm().item<double>(), norm, 1e-3 * norm) << "clip_norm 0 clips nothing";
  const DescentStep below = descend(2 * norm);
  EXPECT_TRUE(at::equal(below.change, whole.change)) << "the norm is below clip_norm";
  for (const double clip_norm : {0.5 * norm, 0.05}) {
    const DescentStep clipped = descend(clip_norm);
    EXPECT_EQ(clipped.report.gradient_norm, norm) << "the report is of the gradient as it was";
    EXPECT_NEAR(clipped.change.norm().item<double>(), clip_norm, 1e-3 * clip_norm);
    const at::Tensor wanted = whole.change * (clip_norm / norm);
    EXPECT_LT((clipped.change - wanted).norm().item<double>(), 1e-3 * clip_norm)
        << "same direction";
  }
}

TEST(TrainerTest, ReportsTheGradientOfEveryLayer) {
  const StepReport report = descend(1.0).report;
  double squares = 0.0;
  std::vector<std::string> layers;
  for (const auto& [layer, norm] : report.layers) {
    squares += norm * norm;
    layers.push_back(layer);
  }
  EXPECT_THAT(layers, ElementsAre("embeddings", "layer.0", "layer.1", "head"));
  EXPECT_NEAR(std::sqrt(squares), report.gradient_norm, 1e-5 * report.gradient_norm);
}

TEST(TrainerTest, EndsWithTheData) {
  Trainer trainer(small_model(), quick(10));
  Counting batches(2, 3);
  const TrainOutcome end = trainer.run(source_of(batches));
  EXPECT_EQ(end.ending, Ending::kNoMoreData);
  EXPECT_EQ(end.step, 3);
}

TEST(TrainerTest, RethrowsErrorsOfTheSource) {
  Trainer trainer(small_model(), quick(10));
  const BatchSource source{
      .next = [](Batch&) -> bool { throw std::runtime_error("shard 3 is damaged"); }};
  EXPECT_EQ(thrown([&] { trainer.run(source); }), "shard 3 is damaged");
}

TEST(TrainerTest, RejectsOptionsOutOfRange) {
  TrainOptions options = quick(10);
  options.accumulate = 0;
  EXPECT_EQ(thrown([&] { Trainer(small_model(), options); }),
            "[Trainer] accumulate must be positive, got 0");
  options = quick(0);
  EXPECT_EQ(thrown([&] { Trainer(small_model(), options); }),
            "[Trainer] steps must be positive, got 0");
}

// ---- Checkpoints --------------------------------------------------------------------------------

TEST_F(TrainTest, ResumesBitForBit) {
  TrainOptions options = quick(8);
  options.accumulate = 2;
  const auto once = small_model(0.1);
  Losses expected;
  {
    options.folder = path("once");
    Trainer trainer(once, options);
    expected.listen(trainer);
    Counting batches(3);
    trainer.run(source_of(batches));
  }
  options.folder = path("twice");
  Losses losses;
  for (const std::int64_t until : {3, 8}) {
    const Model model = small_model(0.1);
    Trainer trainer(model, options);
    losses.listen(trainer);
    EXPECT_EQ(trainer.resume(), until == 8);
    Counting batches(3);
    trainer.run(source_of(batches), until);
    if (until == 8) {
      EXPECT_TRUE(at::equal(weights(*once), weights(*model)));
    }
  }
  EXPECT_EQ(losses.values, expected.values);
}

TEST_F(TrainTest, KeepsTheLastCheckpointsAndNoUnfinishedOnes) {
  TrainOptions options = quick(10);
  options.folder = path("run");
  options.save_every = 2;
  std::filesystem::create_directories(path("run/checkpoints/.unfinished-step-00000001"));
  Trainer trainer(small_model(), options);
  trainer.on_save(
      [](const std::filesystem::path& folder) { write_file(folder / "vocab.txt", "a"); });
  Counting batches(2);
  trainer.run(source_of(batches));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("run/checkpoints"))) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("step-00000008", "step-00000010"));
  EXPECT_EQ(read_file(path("run/checkpoints/step-00000010/vocab.txt")), "a");
}

TEST_F(TrainTest, FailedSaveKeepsTheLastCheckpoint) {
  TrainOptions options = quick(6);
  options.folder = path("run");
  options.save_every = 2;
  Trainer trainer(small_model(), options);
  int saves = 0;
  trainer.on_save([&](const std::filesystem::path&) {
    if (++saves == 2) throw std::runtime_error("no space");
  });
  Counting batches(2);
  EXPECT_EQ(thrown([&] { trainer.run(source_of(batches)); }), "no space");
  EXPECT_EQ(last_checkpoint(path("run")).filename(), "step-00000002");
  Trainer again(small_model(), options);
  EXPECT_TRUE(again.resume());
  EXPECT_EQ(again.step(), 2);
}

TEST_F(TrainTest, RejectsCheckpointOfAnotherModel) {
  TrainOptions options = quick(1);
  options.folder = path("run");
  Counting batches(2);
  Trainer(small_model(), options).run(source_of(batches));
  Config other = small_config();
  other.num_hidden_layers = 3;
  Trainer trainer(make_model(other), options);
  EXPECT_THAT(thrown([&] { trainer.resume(); }),
              HasSubstr("belongs to another model: it has no roformer.encoder.layer.2."));
  write_file(path("run/checkpoints/step-00000001/trainer.json"), "{\"format\": 1");
  Trainer same(small_model(), options);
  EXPECT_THAT(thrown([&] { same.resume(); }), HasSubstr("trainer.json: "));
}

TEST_F(TrainTest, NonFiniteGradientStopsTheRun) {
  TrainOptions options = quick(20);
  options.folder = path("run");
  options.save_every = 2;
  options.report_every = 5;
  const Model model = small_model();
  Trainer trainer(model, options);
  Counting batches(2);
  std::int64_t asked = 0;
  at::Tensor last_good;
  trainer.on_stop([&] {
    // After step 3, a weight of the second layer becomes infinite.
    if (++asked != 4) return false;
    const at::NoGradGuard no_grad;
    model->named_parameters()["roformer.encoder.layer.1.output.dense.weight"].view(-1)[0].fill_(
        std::numeric_limits<float>::infinity());
    last_good = weights(*model);
    return false;
  });
  std::string message;
  try {
    trainer.run(source_of(batches));
  } catch (const NotFinite& error) {
    message = error.what();
    EXPECT_EQ(error.step(), 4);
  }
  EXPECT_THAT(message, HasSubstr("step 4: not a finite number: the gradients of "));
  EXPECT_THAT(message, HasSubstr("layer.1"));
  EXPECT_THAT(message, HasSubstr("checkpoints/step-00000002"));
  EXPECT_TRUE(at::equal(last_good, weights(*model)));
  EXPECT_EQ(last_checkpoint(path("run")).filename(), "step-00000002");
}

TEST_F(TrainTest, StopsWhenAsked) {
  TrainOptions options = quick(20);
  options.folder = path("run");
  Trainer trainer(small_model(), options);
  trainer.on_stop([&] { return trainer.step() == 5; });
  Counting batches(2);
  const TrainOutcome end = trainer.run(source_of(batches));
  EXPECT_EQ(end.ending, Ending::kStopped);
  EXPECT_EQ(end.step, 5);
  EXPECT_EQ(end.checkpoint, path("run") / "checkpoints" / "step-00000005");
}

TEST_F(TrainTest, MetricsAreTruncatedOnResume) {
  TrainOptions options = quick(6);
  options.folder = path("run");
  Counting batches(2);
  {
    Trainer trainer(small_model(), options);
    trainer.on_evaluation([&] { return Metrics{{"accuracy", 0.5}}; }, 3);
    trainer.run(source_of(batches), 3);
  }
  const std::string before = read_file(path("run/metrics.jsonl"));
  EXPECT_THAT(before, HasSubstr("{\"step\":3,\"evaluation\":{\"accuracy\":0.5}}\n"));
  write_file(path("run/metrics.jsonl"), before + "{\"step\":4,\"loss\":1.0}\n{\"step\":5,\"lo");
  Trainer trainer(small_model(), options);
  ASSERT_TRUE(trainer.resume());
  EXPECT_THAT(read_file(path("run/metrics.jsonl")), HasSubstr("\"step\":4"));
  trainer.run(source_of(batches), 3);
  EXPECT_EQ(read_file(path("run/metrics.jsonl")), before);
}

TEST(EventFileTest, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // RFC 3720, and every other implementation
  EXPECT_EQ(crc32c(""), 0u);
}

}  // namespace
}  // namespace rotary::roformer
