// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/pretrain.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/vocabulary_files.h"
#include "roformer/model/rope_config.h"
#include "roformer/tasks/language.h"
#include "roformer/tasks/linear_keys.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/ranks.h"
#include "roformer/train/run_data.h"
#include "roformer/train/run_lock.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

/// Maximum number of validation tokens per evaluation.
constexpr std::size_t kValidationTokens = 100000;

/// Makes paths absolute, for the copy of the config.
RunConfig with_absolute_paths(RunConfig config) {
  const auto settle = [](std::string& path) {
    if (!path.empty()) path = fs::absolute(path).lexically_normal().string();
  };
  for (std::string* path : {&config.init, &config.cache, &config.vocab, &config.dict}) {
    settle(*path);
  }
  for (std::string& path : config.corpus) settle(path);
  for (std::string& path : config.validation) settle(path);
  if (fs::exists(config.model)) settle(config.model);
  if (!config.rope.starts_with('{')) settle(config.rope);
  return config;
}

Config preset_of_model(const std::string& name) {
  Config config;
  if (name == "base") return config;
  const bool small = name == "small";
  if (!small && name != "tiny") {
    internal::reject("model must be base, small, tiny, a config.json or a JSON object, got ", name);
  }
  config.hidden_size = small ? 384 : 128;
  config.num_hidden_layers = small ? 6 : 2;
  config.num_attention_heads = small ? 6 : 4;
  config.intermediate_size = 4 * config.hidden_size;
  return config;
}

/// {"preset": "tiny", ...}: the keys of that model, and those given.
internal::Json with_preset(internal::Json given) {
  if (!given.contains("preset")) return given;
  const internal::Json name = given.take("preset");
  if (!name.is_string()) {
    internal::reject("model: preset must be base, small or tiny, got ", name.excerpt());
  }
  internal::Json json = internal::parse_json(to_json(preset_of_model(name.as_string())), "model");
  json.take("vocab_size");
  json.update(given);
  return json;
}

/// Config of a new model, with at least as many tokens as the vocabulary.
Config config_of_new_model(const RunConfig& run, const Vocabulary& vocabulary, Task task) {
  Config config;
  if (run.model.starts_with('{')) {
    internal::Json json = with_preset(internal::parse_json(run.model, "model"));
    // Before the config is checked: some encodings are for causal models only.
    json["architectures"] = internal::Json(internal::Json::Array{architecture_of(task)});
    config = config_from_json(std::move(json), "model");
    if (run.model.find("\"vocab_size\"") == std::string::npos) {
      config.vocab_size = vocabulary.size();
    }
  } else if (fs::exists(run.model)) {
    const fs::path path(run.model);
    config = read_config(fs::is_directory(path) ? path / "config.json" : path);
  } else {
    config = preset_of_model(run.model);
    config.vocab_size = vocabulary.size();
  }
  config.pad_token_id = std::max(vocabulary.special().pad, 0);
  for (const Stage& stage : run.stages) {
    config.max_position_embeddings = std::max(config.max_position_embeddings, stage.length);
  }
  return config;
}

/// A learned position table has an end.
void check_lengths(const Config& config, const std::vector<Stage>& stages) {
  if (config.position_encoding.find("learned") == std::string::npos) return;
  for (const Stage& stage : stages) {
    if (stage.length <= config.max_position_embeddings) continue;
    internal::reject("stages must be of lengths up to the model's max_position_embeddings, ",
                     config.max_position_embeddings, ", got ", stage.length);
  }
}

void set_rope_learn(const RunConfig& run, Config& config) {
  if (run.rope_learn != "auto") config.rope_learn = rope_learn_of(run.rope_learn);
}

Model open_model_of_run(const RunConfig& run, const Vocabulary& vocabulary, at::Device device) {
  const Task task = run.objective == "causal" ? Task::kCausalLm : Task::kMaskedLm;
  at::manual_seed(run.seed);
  const auto change = [&](Config& config) {
    config.task = task;
    apply_rope_change({.rope = run.rope, .context = run.context}, config);
    set_rope_learn(run, config);
  };
  Model model;
  if (!run.init.empty()) {
    check_linear_keys_of_init(run);
    model = load_model(run.init, change).model;
    check_lengths(model->config(), run.stages);
  } else {
    Config config = with_linear_keys(run, config_of_new_model(run, vocabulary, task));
    change(config);
    model = make_model(config);
  }
  const std::int64_t size = model->config().vocab_size;
  if (vocabulary.size() > size) {
    throw IoError(vocabulary.source(), IoError::kNoOffset,
                  internal::concat(vocabulary.size(), " tokens, but the model has ", size));
  }
  model->to(device);
  return model;
}

at::Device choose_device(const RunConfig& config, const RankEnvironment& environment) {
  const bool there = at::globalContext().hasCUDA();
  if (config.device == "cuda" && !there) internal::reject("device is cuda, but there is no GPU");
  if (config.device == "cpu" || !there) return at::kCPU;
  return gpu_of_rank(environment);
}

TrainOptions train_options_of(const RunConfig& run, const fs::path& folder, at::Device device) {
  TrainOptions options;
  options.steps = run.steps();
  options.learning_rate = run.learning_rate;
  options.schedule = {.shape = run.schedule == "constant" ? ScheduleShape::kConstant
                               : run.schedule == "cosine" ? ScheduleShape::kCosine
                                                          : ScheduleShape::kLinear,
                      .warmup_steps = run.warmup_steps,
                      .final_share = run.final_share};
  options.adamw = {.beta1 = run.beta1,
                   .beta2 = run.beta2,
                   .epsilon = run.epsilon,
                   .weight_decay = run.weight_decay};
  options.clip_norm = run.clip_norm;
  options.freeze = run.freeze;
  options.thaw_at = run.thaw_at;
  const bool half = run.precision == "bfloat16" || (run.precision == "auto" && !device.is_cpu());
  options.compute_type = half ? at::kBFloat16 : at::kFloat;
  options.checkpointing = run.checkpointing;
  options.deterministic = run.deterministic;
  options.seed = run.seed;
  options.shard_optimizer = run.shard_optimizer;
  options.report_every = run.report_every;
  options.gradients_every = run.gradients_every;
  options.folder = folder;
  options.save_every = run.save_every;
  options.keep = run.keep;
  return options;
}

/// One run of pretrain().
class PretrainRun {
 public:
  PretrainRun(const RunConfig& config, fs::path folder, const RunEvents& events);
  TrainOutcome run();

 private:
  bool first_rank() const { return environment_.rank == 0; }
  void say(const std::string& line) const {
    if (first_rank() && events_.say) events_.say(line);
  }
  std::shared_ptr<const TokenCache> open_corpus(const std::vector<std::string>& paths,
                                                const fs::path& cache) const;
  /// Throws OtherRun if the folder holds a run that the config would not continue.
  void check_same_run() const;
  void describe() const;
  BatchStream open_stage(std::size_t index) const;
  /// Throws IoError or std::invalid_argument if the data is not that of the checkpoint.
  void check_data() const;
  Metrics evaluate();
  TrainOutcome run_stages();
  void write_model();

  RunConfig config_;
  fs::path folder_;
  RunEvents events_;
  RankEnvironment environment_;
  at::Device device_;
  c10::OptionalDeviceGuard guard_;
  RanksPtr ranks_;
  std::optional<RunLock> lock_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  VocabularyFiles files_;
  std::shared_ptr<const TokenCache> corpus_;
  std::shared_ptr<const TokenCache> validation_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  /// Of the stage that runs.
  std::int64_t length_ = 0;
};

PretrainRun::PretrainRun(const RunConfig& config, fs::path folder, const RunEvents& events)
    : config_(with_absolute_paths(config)),
      folder_(std::move(folder)),
      events_(events),
      environment_(read_rank_environment()),
      device_(choose_device(config, environment_)) {
  check_run_config(config_, environment_.size);
  if (!device_.is_cpu()) guard_.reset_device(device_);
  tokenizer_ = open_run_tokenizer(config_);
  model_ = open_model_of_run(config_, tokenizer_->vocabulary(), device_);
  ranks_ = join_ranks(environment_, device_);
  files_ = VocabularyFiles::read(config_.vocab, config_.dict);
  if (first_rank()) {
    lock_.emplace(folder_);
    check_same_run();
  }
  corpus_ = open_corpus(
      config_.corpus, config_.cache.empty() ? folder_ / "corpus.tokens" : fs::path(config_.cache));
  if (!config_.validation.empty()) {
    validation_ = open_corpus(config_.validation, folder_ / "validation.tokens");
  }
}

void PretrainRun::check_same_run() const {
  const fs::path kept = folder_ / "config.json";
  if (!holds_run(folder_) || !fs::exists(kept)) return;
  const std::string_view key = other_key(config_, read_run_config(kept));
  if (key.empty()) return;
  throw OtherRun(internal::concat(folder_.string(), " holds a run with another value of ", key,
                                  ": leave it as it is to resume, or choose another folder"));
}

std::shared_ptr<const TokenCache> PretrainRun::open_corpus(const std::vector<std::string>& paths,
                                                           const fs::path& cache) const {
  const CorpusFiles files{.config = config_, .paths = paths, .cache = cache};
  // A resumed run continues at its position in the tokens that it started with.
  const bool settled = fs::exists(cache) && holds_run(folder_);
  if (first_rank() && !settled && files.needs_tokenizing(*tokenizer_)) {
    say("tokenizing into " + cache.string());
    files.tokenize(*tokenizer_, events_.on_tokens);
  }
  if (ranks_) ranks_->wait_for_all();
  return files.open(*tokenizer_);
}

void PretrainRun::describe() const {
  std::int64_t parameters = 0;
  for (const at::Tensor& parameter : model_->parameters()) parameters += parameter.numel();
  const Config& config = model_->config();
  say(internal::concat(architecture_of(config), ": ", config.num_hidden_layers, " layers of ",
                       config.hidden_size, ", ", parameters, " parameters, ", config.vocab_size,
                       " tokens in the vocabulary"));
  say(internal::concat("corpus: ", corpus_->num_documents(), " documents, ", corpus_->num_tokens(),
                       " tokens"));
  say(internal::concat(
      "device: ", device_.str(),
      ranks_ ? internal::concat(", ", ranks_->size(), " processes over ", ranks_->backend()) : ""));
}

Metrics PretrainRun::evaluate() {
  Metrics metrics;
  // Every rank evaluates the same data, so that none waits for another.
  const auto documents = open_stream(validation_, {.order = Order::kInOrder, .epochs = 1});
  const auto texts =
      take_texts(*documents, tokenizer_->vocabulary(),
                 {.tokens = static_cast<std::size_t>(length_ - framing_tokens(Framing::kClsSep)),
                  .max_total = kValidationTokens,
                  .choice = TextChoice::kJoined});
  if (texts.empty()) return metrics;
  const BatchOptions batch = batch_options_of(config_, {.length = length_}, 0, 1);
  const LanguageScore score = score_language(*model_, tokenizer_->vocabulary(), texts,
                                             {.length = length_, .masking = batch.masking});
  metrics = {{"loss", score.loss}, {"accuracy", score.accuracy}};
  if (first_rank() && events_.on_metrics) events_.on_metrics(trainer_->step(), metrics);
  return metrics;
}

TrainOutcome PretrainRun::run() {
  describe();
  trainer_ = std::make_unique<Trainer>(model_, train_options_of(config_, folder_, device_), ranks_);
  trainer_->on_report([this](const StepReport& report) {
    if (events_.on_report) events_.on_report(report);
  });
  trainer_->on_stop([this] { return events_.stop && events_.stop(); });
  trainer_->on_save([this](const fs::path& folder) { files_.write(folder); });
  if (validation_) trainer_->on_evaluation([this] { return evaluate(); }, config_.evaluate_every);
  const bool resumed = trainer_->resume();
  if (resumed) check_data();
  if (first_rank()) write_text(folder_ / "config.json", to_json(config_));
  if (resumed) {
    say(internal::concat("resuming after step ", trainer_->step(), " of ", config_.steps()));
  }
  const TrainOutcome outcome = run_stages();
  if (outcome.ending == Ending::kDone && first_rank()) write_model();
  return outcome;
}

BatchStream PretrainRun::open_stage(std::size_t index) const {
  return {open_stream(corpus_, {.seed = config_.seed}), tokenizer_->vocabulary(),
          batch_options_of(config_, config_.stages[index], environment_.rank, environment_.size)};
}

void PretrainRun::check_data() const {
  std::size_t stage = 0;
  std::int64_t end = config_.stages.front().steps;
  while (trainer_->step() >= end && stage + 1 < config_.stages.size()) {
    end += config_.stages[++stage].steps;
  }
  if (trainer_->data_state()) open_stage(stage).restore(*trainer_->data_state());
}

TrainOutcome PretrainRun::run_stages() {
  TrainOutcome outcome{.step = trainer_->step(), .checkpoint = last_checkpoint(folder_)};
  std::int64_t end = 0;
  for (std::size_t i = 0; i < config_.stages.size(); ++i) {
    const Stage& stage = config_.stages[i];
    end += stage.steps;
    if (trainer_->step() >= end) continue;
    say(internal::concat("stage ", i + 1, " of ", config_.stages.size(), ": rows of ", stage.length,
                         " tokens, ", stage.batch, " a step, until step ", end));
    BatchStream batches = open_stage(i);
    length_ = stage.length;
    trainer_->set_accumulate(stage.batch / (batches.options().rows * environment_.size));
    outcome = trainer_->run(source_of(batches), end);
    if (outcome.ending != Ending::kDone) break;
  }
  return outcome;
}

void PretrainRun::write_model() {
  const fs::path target = folder_ / "model";
  save_model(target, *model_,
             {.add_files = [this](const fs::path& folder) { files_.write(folder); }});
  say("the model is in " + target.string());
}

}  // namespace

bool holds_run(const fs::path& folder) { return !last_checkpoint(folder).empty(); }

TrainOutcome pretrain(const RunConfig& config, const fs::path& folder, const RunEvents& events) {
  try {
    return PretrainRun(config, folder, events).run();
  } catch (const fs::filesystem_error& error) {
    throw IoError(error.path1().string(), IoError::kNoOffset, error.code().message());
  }
}

}  // namespace rotary::roformer
