// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The trainer: the arithmetic of a step, checkpoints that resume, what it does with bad numbers.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

#include "roformer/train/checkpoints.h"
#include "roformer/train/event_file.h"
#include "roformer/train/optimizer.h"
#include "roformer/train/ranks.h"
#include "roformer/train/run_config.h"
#include "roformer/train/schedule.h"
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

/// Rows in which a token is followed by the next number; every third is to be guessed.
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
        // Rows have one label more or less, so that means of means are not means.
        const bool masked = i % 3 == 1 && !(state_.row % 2 == 0 && i == 10);
        batch.ids.push_back(masked ? 1 : first + i);
        batch.labels.push_back(masked ? first + i : kIgnore);
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

// ---- Schedule and optimizer ---------------------------------------------------------------------

TEST(Schedule, WarmsUpAndFalls) {
  const auto at = [](ScheduleShape shape, std::int64_t step, double final_share = 0.0) {
    return schedule_share({.shape = shape, .warmup_steps = 10, .final_share = final_share}, step,
                          110);
  };
  for (const auto shape :
       {ScheduleShape::kConstant, ScheduleShape::kLinear, ScheduleShape::kCosine}) {
    EXPECT_DOUBLE_EQ(at(shape, 1), 0.1);
    EXPECT_DOUBLE_EQ(at(shape, 10), 1.0);
  }
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kConstant, 110), 1.0);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 60), 0.5);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 110), 0.0);
  EXPECT_DOUBLE_EQ(at(ScheduleShape::kLinear, 110, 0.1), 0.1);
  EXPECT_NEAR(at(ScheduleShape::kCosine, 35), 0.5 + 0.5 * std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(at(ScheduleShape::kCosine, 110, 0.2), 0.2, 1e-12);
}

/// The formula of the paper (Loshchilov & Hutter, algorithm 2), in double precision.
struct ReferenceAdamW {
  AdamWOptions options;
  double decay;
  at::Tensor value, first, second;
  int steps = 0;

  void step(double rate, const at::Tensor& gradient) {
    const at::Tensor g = gradient.to(at::kDouble);
    ++steps;
    first = options.beta1 * first + (1 - options.beta1) * g;
    second = options.beta2 * second + (1 - options.beta2) * g * g;
    const at::Tensor m = first / (1 - std::pow(options.beta1, steps));
    const at::Tensor v = second / (1 - std::pow(options.beta2, steps));
    value = value - rate * decay * value - rate * m / (v.sqrt() + options.epsilon);
  }
};

TEST(AdamWTest, IsTheFormulaOfThePaper) {
  const at::NoGradGuard no_grad;
  ::torch::nn::Linear layer(5, 3);
  const AdamWOptions options{.weight_decay = 0.3};
  std::vector<ReferenceAdamW> references;
  for (const at::Tensor& p : {layer->weight, layer->bias}) {
    const at::Tensor value = p.to(at::kDouble);
    references.push_back(
        {options, p.dim() == 2 ? 0.3 : 0.0, value, at::zeros_like(value), at::zeros_like(value)});
  }
  FlatParameters flat(*layer);
  AdamW optimizer(flat, options, 0, flat.size());
  at::manual_seed(1);
  for (int step = 1; step <= 5; ++step) {
    const double rate = 0.1 / step;
    std::size_t i = 0;
    for (const auto& part : flat.parts()) {
      part.gradient.normal_();
      references[i++].step(rate, part.gradient / 4);
    }
    optimizer.step(rate, at::full({1}, 4.0f), at::zeros({1}));
  }
  EXPECT_LT((layer->weight.to(at::kDouble) - references[0].value).abs().max().item<double>(), 1e-6);
  EXPECT_LT((layer->bias.to(at::kDouble) - references[1].value).abs().max().item<double>(), 1e-6);
  const at::Tensor before = flat.values().clone();
  optimizer.step(0.1, at::ones({1}), at::ones({1}));
  EXPECT_TRUE(at::equal(before, flat.values()));
}

TEST(FlatParametersTest, TheModelStaysWhatItWas) {
  const Model model = small_model();
  const at::Tensor before = weights(*model);
  const FlatParameters flat(*model, 3);
  EXPECT_TRUE(at::equal(before, weights(*model)));
  EXPECT_EQ(flat.size() % 3, 0);
  Counting batches(2);
  Batch batch;
  batches.next(batch);
  model->forward(to_inputs(batch, Task::kMaskedLm, at::kCPU)).loss.backward();
  for (const auto& part : flat.parts()) {
    EXPECT_EQ(part.parameter.grad().data_ptr(), part.gradient.data_ptr()) << part.name;
    EXPECT_EQ(part.parameter.dim() >= 2, part.offset < flat.num_decaying()) << part.name;
  }
  EXPECT_GT(flat.gradients().abs().sum().item<double>(), 0.0);
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

TEST(TrainerTest, AccumulatedBatchesAreOneLargeBatch) {
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

TEST(TrainerTest, ClipsTheGradient) {
  // One step of AdamW from zero moments: the first one is (1 - beta1) times the clipped gradient.
  const Model model = small_model();
  TrainOptions options = quick(1);
  options.clip_norm = 1e-3;
  options.gradients_every = 1;
  Trainer trainer(model, options);
  StepReport seen;
  trainer.on_report([&](const StepReport& report) { seen = report; });
  Counting batches(4);
  trainer.run(source_of(batches));
  EXPECT_GT(seen.gradient_norm, 1e-2);
  double squares = 0.0;
  std::vector<std::string> layers;
  for (const auto& [layer, norm] : seen.layers) {
    squares += norm * norm;
    layers.push_back(layer);
  }
  EXPECT_THAT(layers, ElementsAre("embeddings", "layer.0", "layer.1", "head"));
  EXPECT_NEAR(std::sqrt(squares), seen.gradient_norm, 1e-5 * seen.gradient_norm);
}

TEST(TrainerTest, EndsWithTheData) {
  Trainer trainer(small_model(), quick(10));
  Counting batches(2, 3);
  const TrainOutcome end = trainer.run(source_of(batches));
  EXPECT_EQ(end.ending, Ending::kNoMoreData);
  EXPECT_EQ(end.step, 3);
}

TEST(TrainerTest, ErrorsOfTheSourceAreThrown) {
  Trainer trainer(small_model(), quick(10));
  const BatchSource source{
      .next = [](Batch&) -> bool { throw std::runtime_error("shard 3 is damaged"); }};
  EXPECT_EQ(thrown([&] { trainer.run(source); }), "shard 3 is damaged");
}

TEST(TrainerTest, RefusesOptionsOutOfRange) {
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

TEST_F(TrainTest, KeepsTheLastCheckpointsAndNothingUnfinished) {
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

TEST_F(TrainTest, AFailedSaveLeavesTheOneBefore) {
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

TEST_F(TrainTest, RefusesACheckpointOfAnotherModel) {
  TrainOptions options = quick(1);
  options.folder = path("run");
  Counting batches(2);
  Trainer(small_model(), options).run(source_of(batches));
  Config other = small_config();
  other.num_hidden_layers = 3;
  Trainer trainer(make_model(other), options);
  EXPECT_THAT(thrown([&] { trainer.resume(); }),
              HasSubstr("is of another model: it has no roformer.encoder.layer.2."));
  write_file(path("run/checkpoints/step-00000001/trainer.json"), "{\"format\": 1");
  Trainer same(small_model(), options);
  EXPECT_THAT(thrown([&] { same.resume(); }), HasSubstr("trainer.json: "));
}

TEST_F(TrainTest, ABadNumberStopsTheRunAndChangesNothing) {
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

TEST_F(TrainTest, MetricsGoBackWithTheRun) {
  TrainOptions options = quick(6);
  options.folder = path("run");
  Counting batches(2);
  {
    Trainer trainer(small_model(), options);
    trainer.on_evaluation([&] { return Measures{{"accuracy", 0.5}}; }, 3);
    trainer.run(source_of(batches), 3);
  }
  const std::string before = read_file(path("run/metrics.jsonl"));
  EXPECT_THAT(before, HasSubstr("{\"step\":3,\"evaluation\":{\"accuracy\":0.5}}\n"));
  write_file(path("run/metrics.jsonl"), before + "{\"step\":4,\"loss\":1.0}\n{\"step\":5,\"lo");
  Trainer trainer(small_model(), options);
  ASSERT_TRUE(trainer.resume());
  EXPECT_EQ(read_file(path("run/metrics.jsonl")), before);
}

TEST(EventFileTest, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // RFC 3720, and every other implementation
  EXPECT_EQ(crc32c(""), 0u);
}

// ---- Config and environment ---------------------------------------------------------------------

TEST_F(TrainTest, ConfigsAreReadAndWritten) {
  const auto file_ = file("run.json", R"({"model": {"hidden_size": 64}, "corpus": "a.txt",
      "stages": "512x256x200, 1536x64x10", "packed": false, "learning_rate": 2})");
  RunConfig config = read_run_config(file_);
  EXPECT_EQ(config.model, "{\"hidden_size\":64}");
  EXPECT_THAT(config.corpus, ElementsAre("a.txt"));
  EXPECT_THAT(config.stages, ElementsAre(Stage{512, 256, 200}, Stage{1536, 64, 10}));
  EXPECT_FALSE(config.packed);
  EXPECT_EQ(config.steps(), 210);
  set_from_text(keys_of(config), "whole_words", std::vector<std::string>{"off"});
  set_from_text(keys_of(config), "corpus", std::vector<std::string>{"b", "c,d"});
  const RunConfig again = read_run_config(file("again.json", to_json(config)));
  EXPECT_EQ(to_json(again), to_json(config));
  EXPECT_THAT(again.corpus, ElementsAre("b", "c,d"));
}

TEST_F(TrainTest, WrongConfigsAreNamed) {
  const auto read = [&](const std::string& text) {
    return thrown([&] { read_run_config(file("run.json", text)); });
  };
  EXPECT_THAT(read(R"({"learnig_rate": 1})"),
              HasSubstr("run.json: there is no key \"learnig_rate\"; did you mean "
                        "\"learning_rate\"?"));
  EXPECT_THAT(read(R"({"mask_rate": 1.5})"),
              HasSubstr("run.json: mask_rate must be from 1e-06 to 1, got 1.5"));
  EXPECT_THAT(read(R"({"schedule": "step"})"),
              HasSubstr("schedule must be one of constant|linear|cosine, got \"step\""));
  EXPECT_THAT(read(R"({"keep": 2.5})"), HasSubstr("keep must be a whole number, got 2.5"));
  EXPECT_THAT(read(R"({"stages": "512x256"})"), HasSubstr("stages must be \"LENGTHxROWSxSTEPS"));
  EXPECT_THAT(read(R"({"stages": "512x0x1"})"), HasSubstr("stages must be of lengths from 3 on"));
  EXPECT_THAT(read("{"), HasSubstr("run.json: "));
  EXPECT_THAT(thrown([] { read_run_config("no/such.json"); }), HasSubstr("no/such.json: "));
  RunConfig config;
  EXPECT_EQ(thrown([&] { check_run_config(config, 1); }),
            "there is no corpus: name one with corpus");
  config.corpus = {"a"};
  EXPECT_EQ(thrown([&] { check_run_config(config, 3); }),
            "a batch of 256 rows is no multiple of 3 processes");
}

}  // namespace
}  // namespace rotary::roformer
