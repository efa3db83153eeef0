// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The labs tasks, learned and roformer at a tiny setting: their rows, the same twice, and what
// their parts promise.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "io/io_testing.h"
#include "roformer/lab/cost.h"
#include "roformer/lab/figure3.h"
#include "roformer/lab/generated_batches.h"
#include "roformer/lab/report.h"
#include "roformer/lab/runner.h"
#include "roformer/lab/task_scores.h"
#include "roformer/lab/tune_small.h"
#include "roformer/model_testing.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kTinyTraining =
    R"({"steps": 3, "learning_rate": 1e-3, "warmup_steps": 1, "weight_decay": 0.0, "beta2": 0.98})";
constexpr const char* kTinyModel =
    R"({"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32})";

/// Entries that a config file adds, with rates of their own.
constexpr const char* kMineT5 =
    R"([{"name": "mine", "position_encoding": "t5", "encoding_rate": 20.0}])";

struct LabRun {
  std::vector<Row> rows;
  /// Without measurements of the machine.
  std::string json;
  std::string report;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs the quick setting with a config file of these changes. With `interrupt` the run is stopped
/// again and again, and continued.
LabRun run_tiny(std::string_view name, const std::string& changes,
                const std::vector<std::string>& variants = {}, bool interrupt = false) {
  const TemporaryFolder folder;
  LabOptions options;
  options.folder = folder.path() / "out";
  options.quick = true;
  options.config = folder.path() / "config.json";
  options.variants = variants;
  std::ofstream(options.config) << changes;
  int runs = 0;
  for (bool done = false; !done; ++runs) {
    EXPECT_LT(runs, 200) << "never ends";
    if (runs >= 200) break;
    const auto lab = find_lab(name).make(options);
    int calls = 0;
    LabEvents events;
    if (interrupt) events.stop = [&] { return ++calls > 3 + 8 * runs; };
    done = run_lab(name, *lab, options, events);
    EXPECT_TRUE(done || interrupt);
    if (!done && !interrupt) break;
  }
  EXPECT_TRUE(runs > 1 || !interrupt);
  Results results = read_results(options.folder / "results.json");
  LabRun run{.rows = results.rows, .json = {}, .report = {}};
  std::erase_if(results.rows, [](const Row& row) { return is_cost(row.metric); });
  run.json = to_json(results);
  run.report = text_of(write_report(options.folder));
  return run;
}

/// The last training loss of a variant.
double last_loss(const LabRun& run, const std::string& variant, const std::string& metric) {
  double loss = 0.0;
  for (const Row& row : run.rows) {
    if (row.variant == variant && row.metric == metric) loss = row.value;
  }
  return loss;
}

std::set<std::string> names_of(const LabRun& run, std::string Row::*member) {
  std::set<std::string> names;
  for (const Row& row : run.rows) names.insert(row.*member);
  return names;
}

void expect_numbers(const LabRun& run) {
  for (const Row& row : run.rows) {
    EXPECT_NE(row.metric, kFailed) << row.variant << ": " << row.note;
    EXPECT_TRUE(row.has_value()) << row.variant << " " << row.metric;
  }
}

// ---- tasks --------------------------------------------------------------------------------------

std::string tiny_tasks() {
  return std::string(R"({"tasks": ["copy", "recall"], "rows_of_task": 2, "test_problems": 8,
    "test_lengths": [4, 12], "roper_problems": 4, "training": )") +
         kTinyTraining + R"(, "model": )" + kTinyModel +
         R"(, "roper": [{"name": "index", "rows": 2, "length": 40, "training": )" + kTinyTraining +
         R"(, "model": )" + kTinyModel + R"(}, {"name": "prefix", "seeds": 1, "rows": 2,
    "length": 60, "training": )" +
         kTinyTraining + R"(, "model": )" + kTinyModel + "}]}";
}

TEST(TasksLab, HasTheRowsOfItsSettings) {
  const LabRun run = run_tiny("tasks", tiny_tasks());
  expect_numbers(run);
  EXPECT_THAT(names_of(run, &Row::variant),
              UnorderedElementsAre("rope", "none", "t5", "alibi", "roper", "index/rope",
                                   "index/roper", "prefix/rope", "prefix/roper"));
  EXPECT_THAT(names_of(run, &Row::metric),
              UnorderedElementsAre("exact_copy", "exact_recall", "tokens_copy", "tokens_recall",
                                   "training_loss", "parameters", "train_tokens_per_second", "loss",
                                   "solved"));
  for (const Row& row : run.rows) {
    if (!row.metric.starts_with("exact_") && !row.metric.starts_with("tokens_")) continue;
    EXPECT_TRUE(row.at.at("length") == 4 || row.at.at("length") == 12);
    EXPECT_GE(row.value, 0.0);
    EXPECT_LE(row.value, 1.0);
  }
  EXPECT_THAT(run.report, HasSubstr("published mean reciprocal rank"));
  EXPECT_THAT(run.report, HasSubstr("62.00"));
}

TEST(TasksLab, GivesTheSameRowsTwice) {
  EXPECT_EQ(run_tiny("tasks", tiny_tasks()).json, run_tiny("tasks", tiny_tasks()).json);
}

TEST(TasksLab, ContinuesWhereItWasInterrupted) {
  const std::vector<std::string> variants = {"t5", "index/roper"};
  EXPECT_EQ(run_tiny("tasks", tiny_tasks(), variants).json,
            run_tiny("tasks", tiny_tasks(), variants, /*interrupt=*/true).json);
}

TEST(TasksLab, AddsAnEntryWithARateOfItsOwn) {
  const auto with = [](const std::string& entry) {
    std::string config = tiny_tasks();
    config.insert(config.size() - 1, ", \"encodings\": " + entry);
    return run_tiny("tasks", config, {"mine", "t5"});
  };
  const LabRun run = with(kMineT5);
  expect_numbers(run);
  EXPECT_NE(last_loss(run, "mine", "training_loss"), last_loss(run, "t5", "training_loss"));
  const LabRun same =
      with(R"([{"name": "mine", "position_encoding": "t5", "encoding_rate": 30.0}])");
  EXPECT_EQ(last_loss(same, "mine", "training_loss"), last_loss(same, "t5", "training_loss"));
}

TEST(TasksLab, StringsOfRoperAreSettings) {
  const auto roper = [](const std::string& more) {
    return run_tiny("tasks",
                    std::string(R"({"roper_problems": 4, "roper": [{"name": "index", "rows": 2,
                      "length": 40, "training": )") +
                        kTinyTraining + R"(, "model": )" + kTinyModel + more + "}]}",
                    {"index/rope"});
  };
  const LabRun longer = roper(R"(, "letters": [20, 24])");
  expect_numbers(longer);
  EXPECT_NE(longer.json, roper("").json);
  Random random(3, 0);
  for (int i = 0; i < 20; ++i) {
    const TextProblem problem =
        make_roper_problem(RoperTask::kIndex, random, {.min_letters = 20, .max_letters = 21});
    const std::size_t letters = problem.question.rfind("'") - problem.question.find("'") - 1;
    EXPECT_TRUE(letters == 20 || letters == 21) << problem.question;
  }
  const std::string row = roper_row(RoperTask::kPrefix, 40, random, {.substring = 5, .random = 2});
  EXPECT_EQ(row.find('>'), 5u);
  EXPECT_EQ(row.find('>', 6), 13u);
  EXPECT_THROW(roper(R"(, "letters": [9, 4])"), std::invalid_argument);
  EXPECT_THROW(roper(R"(, "encoding_rate": 4)"), std::invalid_argument);
  EXPECT_THAT([&] { roper(R"(, "training": {"step": 4})"); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("index, training: no key step in this entry; perhaps steps")));
  // An entry of another name says which task it is.
  std::string other = tiny_tasks();
  other.replace(other.find(R"("name": "index")"), 15, R"("name": "mine", "task": "index")");
  EXPECT_EQ(last_loss(run_tiny("tasks", other, {"mine/rope"}), "mine/rope", "loss"),
            last_loss(run_tiny("tasks", tiny_tasks(), {"index/rope"}), "index/rope", "loss"));
  EXPECT_THROW(roper(R"(, "task": "juggling")"), std::invalid_argument);
}

TEST(TasksLab, AcceptsItsFullSettings) {
  const TemporaryFolder folder;
  LabOptions options;
  options.folder = folder.path();
  const auto lab = find_lab("tasks").make(options);
  // Tasks of RoPER with two encodings, nine encodings; three seeds of those that papers rank.
  EXPECT_EQ(lab->units().size(), 2u + 4u + 2u + 4u + 4u * 3u + 5u);
}

TEST(TasksLab, RejectsOtherTasks) {
  EXPECT_THROW(run_tiny("tasks", R"({"tasks": ["juggling"]})"), std::invalid_argument);
}

TEST(GeneratedBatches, DependOnTheStepAlone) {
  const auto make = [] {
    return GeneratedBatches(
        [](std::int64_t rows, Random& random) {
          return task_batch(TaskKind::kCopy, {.rows = rows, .max_length = 5}, random);
        },
        {.rows = 3, .seed = 9, .chunk_steps = 4}, at::kCPU);
  };
  GeneratedBatches in_order = make();
  std::vector<TrainingBatch> batches;
  for (std::int64_t step = 1; step <= 10; ++step) batches.push_back(in_order(step));
  GeneratedBatches resumed = make();
  for (const std::int64_t step : {9, 2, 10, 5}) {
    const TrainingBatch again = resumed(step);
    const TrainingBatch& before = batches[static_cast<std::size_t>(step - 1)];
    EXPECT_TRUE(again.inputs.ids.equal(before.inputs.ids));
    EXPECT_TRUE(again.inputs.labels->equal(*before.inputs.labels));
    EXPECT_EQ(again.num_labels, again.inputs.labels->ne(kIgnored).sum().item<std::int64_t>());
  }
}

/// Greedy continuation by whole forward passes, without a cache.
std::string continue_without_cache(ModelImpl& model, const Alphabet& alphabet, std::string text,
                                   std::size_t length) {
  const std::size_t begin = text.size();
  while (text.size() < length) {
    const at::Tensor ids = at::tensor(alphabet.ids(text)).unsqueeze(0);
    const at::Tensor logits = model.forward({.ids = ids}).logits[0][-1];
    text += alphabet.character(logits.argmax().item<std::int64_t>());
  }
  text.erase(0, begin);
  return text.substr(0, text.find('#'));
}

TEST(TaskScores, GreedyContinuationIsThatOfWholePasses) {
  const Alphabet& alphabet = alphabet_of(RoperTask::kIndex);
  for (const bool rotated : {false, true}) {
    Config config = small(Task::kCausalLm, alphabet.size());
    config.rotary_output = rotated;
    const Model model = make(config);
    const std::vector<std::string> prompts = {"?s='abc'; s[1:]==", "?s='x"};
    const std::vector<std::string> texts = continue_greedily(*model, alphabet, prompts, 24);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(texts[i], continue_without_cache(*model, alphabet, prompts[i], 24));
    }
  }
}

TEST(TaskScores, AModelThatKnowsNothingSolvesNothing) {
  Config config = small(Task::kCausalLm, TaskTokens::kCount);
  config.max_position_embeddings = 128;
  const TaskScore score = score_task(*make(config), TaskKind::kReverse, 20, 16, 1);
  EXPECT_EQ(score.exact, 0.0);
  EXPECT_LT(score.tokens, 0.2);
  const Model model = make(small(Task::kCausalLm, alphabet_of(RoperTask::kAddition).size()));
  EXPECT_EQ(count_solved(*model, RoperTask::kAddition, 4, 1), 0);
}

// ---- learned ------------------------------------------------------------------------------------

std::string tiny_text(const char* more) {
  return std::string(R"({"rows": 2, "training": )") + kTinyTraining + R"(, "model": )" +
         kTinyModel + more + "}";
}

TEST(LearnedLab, TellsHowFarFrequenciesMove) {
  const LabRun run = run_tiny("learned", tiny_text(R"(, "test_lengths": [64, 128])"));
  expect_numbers(run);
  EXPECT_THAT(names_of(run, &Row::variant),
              UnorderedElementsAre("fixed", "gain", "frequencies", "per_head", "receptive_field"));
  std::set<std::string> moved;
  for (const Row& row : run.rows) {
    if (row.metric != "mean_change") continue;
    moved.insert(row.variant);
    EXPECT_GT(row.value, 0.0) << row.variant;
    EXPECT_LT(row.value, 10.0) << row.variant;
  }
  EXPECT_EQ(moved.size(), 4u) << "all but the fixed one";
  EXPECT_THAT(run.report, HasSubstr("Change of the frequencies"));
}

TEST(LearnedLab, GivesTheSameRowsTwiceAndWhenContinued) {
  const std::string config = tiny_text(R"(, "test_lengths": [64])");
  const std::vector<std::string> variants = {"fixed", "per_head"};
  const LabRun run = run_tiny("learned", config, variants);
  EXPECT_EQ(run.json, run_tiny("learned", config, variants).json);
  EXPECT_EQ(run.json, run_tiny("learned", config, variants, /*interrupt=*/true).json);
}

TEST(LearnedLab, AddsAnEntryWithARateOfItsOwn) {
  const auto change = [](const char* rate) {
    const LabRun run =
        run_tiny("learned",
                 tiny_text((std::string(R"(, "test_lengths": [64], "encodings": [{"name": "mine",
                    "rope_learn": "per_head", "encoding_rate": )") +
                            rate + "}]")
                               .c_str()),
                 {"mine"});
    expect_numbers(run);
    return last_loss(run, "mine", "mean_change");
  };
  EXPECT_GT(change("10.0"), 3.0 * change("1.0"));
  EXPECT_THROW(change("-1.0"), std::invalid_argument);
}

// ---- roformer -----------------------------------------------------------------------------------

std::string tiny_roformer() {
  return tiny_text((std::string(R"(, "linear_rows": 2, "linear_length": 32, "length": 32,
    "glue": {"max_examples": 16, "epochs": 1, "rows": 8}, "linear_training": )") +
                    kTinyTraining + R"(, "linear_model": )" + kTinyModel)
                       .c_str());
}

TEST(RoformerLab, TrainsMaskedLinearAndTunedModels) {
  const LabRun run = run_tiny("roformer", tiny_roformer());
  expect_numbers(run);
  std::set<std::string> tuned;
  std::set<std::string> linear;
  for (const Row& row : run.rows) {
    if (row.metric == "order_accuracy") tuned.insert(row.variant);
    if (row.metric == "held_out_loss") linear.insert(row.variant);
  }
  EXPECT_THAT(tuned, UnorderedElementsAre("learned", "rope"));
  EXPECT_THAT(linear, UnorderedElementsAre("performer", "performer+rope", "performer+rope before",
                                           "elu", "elu+rope", "softmax+rope"));
  EXPECT_THAT(run.report, HasSubstr("88.9"));
  EXPECT_EQ(run.json, run_tiny("roformer", tiny_roformer()).json);
}

TEST(RoformerLab, ContinuesWhereItWasInterrupted) {
  const std::vector<std::string> variants = {"rope", "performer+rope"};
  EXPECT_EQ(run_tiny("roformer", tiny_roformer(), variants).json,
            run_tiny("roformer", tiny_roformer(), variants, /*interrupt=*/true).json);
}

TEST(RoformerLab, AddsEntriesWithARateOfTheirOwn) {
  const auto run_with = [](const char* list, const char* rate) {
    std::string config = tiny_roformer();
    config.insert(config.size() - 1, std::string(", \"") + list +
                                         R"(": [{"name": "mine", "position_encoding": "t5",
                          "initializer_range": 0.5, "encoding_rate": )" +
                                         rate + "}]");
    const LabRun run = run_tiny("roformer", config, {"mine"});
    expect_numbers(run);
    return last_loss(run, "mine", list == std::string("masked") ? "masked_loss" : "character_loss");
  };
  for (const char* list : {"masked", "linear"}) {
    EXPECT_NE(run_with(list, "30.0"), run_with(list, "1.0")) << list;
  }
}

TEST(OrderTask, DiffersInTheOrderOfWordsAlone) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "text.txt") << "one two three four\nfive six seven eight nine\n"
                                               "too short\nten eleven twelve thirteen\n";
  const SmallTask task = order_task(folder.path() / "text.txt", 2, 1, 3);
  EXPECT_EQ(task.train.examples.size(), 2u);
  EXPECT_EQ(task.valid.examples.size(), 1u);
  std::set<std::string> firsts;
  for (const ExampleSet* set : {&task.train, &task.valid}) {
    for (const Example& example : set->examples) {
      const bool in_order = example.first.starts_with("one") || example.first.starts_with("five") ||
                            example.first.starts_with("ten");
      EXPECT_EQ(example.label, in_order ? 1 : 0) << example.first;
      firsts.insert(example.first);
    }
  }
  EXPECT_EQ(firsts.size(), 3u);
  EXPECT_THROW(order_task(folder.path() / "text.txt", 2, 3, 3), IoError);
}

/// Without positions an encoder's [CLS] does not see the order of words: the task cannot be solved.
TEST(OrderTask, NeedsPositions) {
  const at::Tensor ids = at::tensor({3, 10, 11, 12, 13}, at::kLong).unsqueeze(0);
  const at::Tensor reversed = at::tensor({3, 13, 12, 11, 10}, at::kLong).unsqueeze(0);
  for (const char* encoding : {"none", "rope", "learned", "t5", "alibi"}) {
    Config config = small(Task::kEncoder);
    config.position_encoding = encoding;
    const Model model = make(config);
    const at::NoGradGuard no_grad;
    const double difference = apart(model->forward({.ids = ids}).hidden[0][0],
                                    model->forward({.ids = reversed}).hidden[0][0]);
    if (config.position_encoding == "none") {
      EXPECT_LT(difference, 1e-5);
    } else {
      EXPECT_GT(difference, 1e-3) << encoding;
    }
  }
}

// ---- Published curves ---------------------------------------------------------------------------

TEST(Figure3, CurvesFallAndRopeIsAhead) {
  for (const auto curves : {published_masked_curves(), published_performer_curves()}) {
    ASSERT_EQ(curves.size(), 2u);
    for (const PublishedCurve& curve : curves) {
      for (std::size_t i = 1; i < curve.points.size(); ++i) {
        EXPECT_LT(curve.points[i - 1].step, curve.points[i].step) << curve.name;
        EXPECT_GT(curve.points[i - 1].loss, curve.points[i].loss) << curve.name;
      }
    }
    EXPECT_EQ(curves[0].points.back().step, curves[1].points.back().step);
    EXPECT_LT(curves[0].points.back().loss, curves[1].points.back().loss);
  }
}

}  // namespace
}  // namespace rotary::roformer::lab
