// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer bench: training speed on this machine.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "console/output.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/task_options.h"
#include "roformer/train/memory.h"
#include "roformer/train/step.h"

namespace rotary::roformer::cli {
namespace {

struct BenchOptions {
  std::string checkpoint;
  std::string batches;
  std::string device;  // empty: the GPU if there is one
  std::string type;    // empty: bfloat16 on a GPU, else float32
  std::int64_t rows = 64;
  std::int64_t length = 512;
  std::int64_t steps = 20;
  std::int64_t warmup = 5;
  double learning_rate = 1e-4;
  std::int64_t rate_warmup = 0;
  double dropout = -1.0;
  double peak = 0.0;
  bool checkpointing = false;
  bool packed = false;
  bool fastest = false;
  bool repeat_check = false;
  bool json = false;
};

constexpr const char* kBenchFooter =
    R"(Trains a masked or causal language model for some steps as `roformer pretrain` does: forward,
backward, clipping, AdamW. CHECKPOINT is a model, or a config.json for one with random weights.
Tokens are random, 15 % of them labelled, unless --batches names a .safetensors file with `ids` and
`labels`, int64 [steps, rows, length], which are used in order.

TFLOP/s counts the model's operations, whether they are computed twice (--checkpointing) or not at
all (the last layer at tokens without labels): 6 for each weight of a layer and token, 12 layers
hidden_size length for attention, and the head at labelled tokens. --peak is the machine's peak
rate to compare with (an H200: 989 in bfloat16).

Two equal runs on one machine give equal bits. --repeat-check runs twice and fails if a loss or a
weight differs; in JSON, weights_hash compares runs of several processes. --fastest lets attention
choose kernels that add gradients in any order.

Examples:
  roformer bench config.json --rows 64 --length 512 --peak 989
  roformer bench model/ --device cpu --type float32 --rows 2 --length 128 --steps 3)";

struct TrainingBatch {
  Inputs inputs;
  std::int64_t num_labels = 0;
};

at::Tensor random_labels(const at::Tensor& ids) {
  constexpr double kLabelled = 0.15;
  return at::where(at::rand(ids.sizes()) < kLabelled, ids, kIgnored);
}

TrainingBatch to_batch(const at::Tensor& ids, const at::Tensor& labels, const BenchOptions& options,
                       at::Device device) {
  const at::Tensor indices = labels.flatten().ne(kIgnored).nonzero().squeeze(1);
  TrainingBatch batch;
  batch.inputs.ids = ids.to(device);
  batch.inputs.labels = labels.to(device);
  batch.inputs.label_indices = indices.to(device);
  batch.inputs.logits_at = LogitsAt::kLabels;
  batch.inputs.causal_labels = CausalLabels::kNextToken;
  batch.num_labels = indices.numel();
  if (options.packed) {
    batch.inputs.cu_seqlens =
        at::arange(0, ids.numel() + 1, ids.size(1), at::TensorOptions(at::kInt)).to(device);
    batch.inputs.max_seqlen = ids.size(1);
  }
  return batch;
}

std::vector<TrainingBatch> make_batches(const BenchOptions& options, const Config& config,
                                        at::Device device) {
  std::vector<TrainingBatch> all;
  if (options.batches.empty()) {
    const at::Tensor ids =
        at::randint(1, config.vocab_size, {options.rows, options.length}, at::kLong);
    all.push_back(to_batch(ids, random_labels(ids), options, device));
    return all;
  }
  const TensorMap tensors = read_tensors(options.batches);
  for (const char* name : {"ids", "labels"}) {
    if (!tensors.contains(name) || tensors.at(name).dim() != 3) {
      fail_file(options.batches, fmt::format("no tensor `{}` [steps, rows, length]", name));
    }
  }
  const std::int64_t count = std::min(tensors.at("ids").size(0), options.warmup + options.steps);
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(to_batch(tensors.at("ids")[i], tensors.at("labels")[i], options, device));
  }
  return all;
}

Model open_model(const BenchOptions& options) {
  Config config = options.checkpoint.ends_with(".json")
                      ? read_config(options.checkpoint)
                      : read_config(find_checkpoint(options.checkpoint).config);
  if (config.task != Task::kCausalLm) config.task = Task::kMaskedLm;
  if (options.dropout >= 0.0) {
    config.hidden_dropout_prob = options.dropout;
    config.attention_probs_dropout_prob = options.dropout;
  }
  if (options.checkpoint.ends_with(".json")) return make_model(config);
  const TensorMap tensors = read_weights(find_checkpoint(options.checkpoint).weights);
  Model model = make_model_for(tensors, config, options.checkpoint);
  load_weights(*model, tensors, options.checkpoint);
  return model;
}

/// Floating-point operations per token, forward and backward.
double operations_per_token(const Config& c, double length, double labelled) {
  const auto hidden = static_cast<double>(c.hidden_size);
  const auto inner = static_cast<double>(c.intermediate_size);
  const auto layers = static_cast<double>(c.num_hidden_layers);
  const auto embedding = static_cast<double>(c.embedding_dim());
  const double weights = layers * (4 * hidden * hidden + 2 * hidden * inner);
  const double head =
      embedding * ((c.mlm_transform ? hidden : 0.0) + static_cast<double>(c.vocab_size));
  return 6 * weights + 12 * layers * hidden * length + 6 * labelled * head;
}

/// Of the bits of all parameters (FNV-1a over 32-bit words).
std::uint64_t hash_of_weights(const ModelImpl& model) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor host = parameter.detach().to(at::kCPU, at::kFloat).contiguous();
    const auto* words = static_cast<const std::uint32_t*>(host.const_data_ptr());
    for (std::int64_t i = 0; i < host.numel(); ++i) hash = (hash ^ words[i]) * 0x100000001b3U;
  }
  return hash;
}

/// The learning rate of a step, from 0 on.
double rate_of(const BenchOptions& options, std::int64_t step) {
  if (step >= options.rate_warmup) return options.learning_rate;
  return options.learning_rate * static_cast<double>(step + 1) /
         static_cast<double>(options.rate_warmup);
}

struct BenchResult {
  double tokens_per_second = 0.0;
  double seconds = 0.0;  // per step
  double teraflops = 0.0;
  std::int64_t memory = 0;
  std::vector<double> losses{};
  std::string attention{};
  std::uint64_t weights_hash = 0;
};

BenchResult measure(const BenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  at::Device device = device_of({.device = options.device});
  if (!device.is_cpu() && !device.has_index()) device.set_index(0);
  at::manual_seed(1);
  const Model model = open_model(options);
  model->to(device);
  model->train();
  const bool half = options.type.empty() ? !device.is_cpu() : options.type == "bfloat16";
  const at::ScalarType type = half ? at::kBFloat16 : at::kFloat;
  model->set_compute_type(type);
  model->set_checkpointing(options.checkpointing);
  const std::vector<TrainingBatch> batches = make_batches(options, model->config(), device);
  TrainStep train_step(*model,
                       {.learning_rate = options.learning_rate,
                        .compute_type = type,
                        .deterministic = !options.fastest},
                       nullptr);

  std::vector<StatisticsCopy> copies;
  Clock::time_point start;
  double tokens = 0.0;
  double num_labels = 0.0;
  for (std::int64_t step = 0; step < options.warmup + options.steps; ++step) {
    if (step == options.warmup) {
      if (!copies.empty()) copies.back().read();  // synchronises with the device
      start = Clock::now();
    }
    const TrainingBatch& batch = batches[static_cast<std::size_t>(step) % batches.size()];
    train_step.add_batch(batch.inputs, batch.num_labels);
    train_step.update(step + 1, rate_of(options, step), /*stop_requested=*/false);
    copies.push_back(train_step.take_statistics());
    if (step < options.warmup) continue;
    tokens += static_cast<double>(batch.inputs.ids.numel());
    num_labels += static_cast<double>(batch.num_labels);
  }
  copies.back().read();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();

  BenchResult result{.tokens_per_second = tokens / seconds,
                     .seconds = seconds / static_cast<double>(options.steps),
                     .memory = peak_memory(device),
                     .attention = model->roformer().attention_backend(),
                     .weights_hash = hash_of_weights(*model)};
  const auto length = static_cast<double>(batches.front().inputs.ids.size(1));
  result.teraflops = 1e-12 * result.tokens_per_second *
                     operations_per_token(model->config(), length, num_labels / tokens);
  for (StatisticsCopy& copy : copies) {
    const StatisticsCopy::Statistics statistics = copy.read();
    result.losses.push_back(statistics.loss_sum / statistics.num_labels);
  }
  return result;
}

/// Throws std::runtime_error where two equal runs differ.
void check_repeated(const BenchResult& once, const BenchResult& again) {
  for (std::size_t step = 0; step < once.losses.size(); ++step) {
    if (once.losses[step] == again.losses[step]) continue;
    throw std::runtime_error(
        fmt::format("--repeat-check: two equal runs differ: the loss of step {} is {} and {}",
                    step + 1, once.losses[step], again.losses[step]));
  }
  if (once.weights_hash == again.weights_hash) return;
  throw std::runtime_error("--repeat-check: two equal runs differ in their weights");
}

void bench(const BenchOptions& options) {
  const BenchResult r = measure(options);
  if (options.repeat_check) check_repeated(r, measure(options));
  if (options.json) {
    internal::Json json = {{"tokens_per_second", r.tokens_per_second},
                           {"seconds_per_step", r.seconds},
                           {"peak_memory", r.memory},
                           {"tflops", r.teraflops},
                           {"attention", r.attention},
                           {"weights_hash", fmt::format("{:016x}", r.weights_hash)},
                           {"losses", r.losses}};
    if (options.peak > 0.0) json["utilisation"] = r.teraflops / options.peak;
    console::print_out(json.dump() + "\n");
    return;
  }
  std::string text = fmt::format("{:.0f} tokens/s, {:.1f} ms a step, {:.1f} GB, {:.0f} TFLOP/s",
                                 r.tokens_per_second, 1e3 * r.seconds,
                                 1e-9 * static_cast<double>(r.memory), r.teraflops);
  if (options.peak > 0.0)
    text += fmt::format(", {:.0f} % of {:g}", 100 * r.teraflops / options.peak, options.peak);
  text += fmt::format(", attention: {}, loss {:.4f} to {:.4f}", r.attention, r.losses.front(),
                      r.losses.back());
  if (options.repeat_check) text += ", equal bits in both runs";
  console::print_out(text + "\n");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* verb =
      app.add_subcommand("bench", "Measure the training speed of a model on this machine");
  verb->footer(kBenchFooter);
  verb->add_option("CHECKPOINT", o->checkpoint, "A model, or a config.json")
      ->required()
      ->type_name("");
  verb->add_option("--rows", o->rows, "Sequences per batch")->check(CLI::PositiveNumber);
  verb->add_option("--length", o->length, "Tokens per sequence")->check(CLI::PositiveNumber);
  verb->add_option("--steps", o->steps, "Measured steps")->check(CLI::PositiveNumber);
  verb->add_option("--warmup", o->warmup, "Warm-up steps before them")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--type", o->type, "bfloat16 or float32; default: bfloat16 on a GPU")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  verb->add_option("--device", o->device, "cpu, cuda or cuda:N; default: the GPU if there is one")
      ->type_name("DEVICE");
  verb->add_option("--dropout", o->dropout, "Dropout probability, instead of the config's")
      ->check(CLI::Range(0.0, 0.99));
  verb->add_option("--learning-rate", o->learning_rate, "Of AdamW");
  verb->add_option("--rate-warmup", o->rate_warmup, "Steps of linear warm-up to that rate")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--batches", o->batches, "A .safetensors file with ids and labels");
  verb->add_option("--peak", o->peak, "Peak TFLOP/s of the machine");
  verb->add_flag("--checkpointing", o->checkpointing, "Recompute layers in the backward pass");
  verb->add_flag("--packed", o->packed, "Rows as packed sequences");
  verb->add_flag("--fastest", o->fastest, "Runs may differ in their last bits");
  verb->add_flag("--repeat-check", o->repeat_check, "Run twice; fail unless all bits are equal");
  verb->add_flag("--json", o->json, "Print JSON, with the loss of every step");
  verb->callback([o] { bench(*o); });
}

}  // namespace rotary::roformer::cli
