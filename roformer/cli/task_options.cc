// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/task_options.h"

#include <ATen/Context.h>

#include <CLI/CLI.hpp>

#include "console/output.h"
#include "roformer/cli/commands.h"

namespace rotary::roformer::cli {
namespace {

bool is_jsonl(const std::filesystem::path& path, const ExampleOptions& options) {
  return options.format.empty() ? path.extension() == ".jsonl" : options.format == "jsonl";
}

}  // namespace

void add_compute_options(CLI::App& verb, ComputeOptions& options) {
  verb.add_option("--device", options.device,
                  "cpu, cuda or cuda:N; default: the GPU if there is one")
      ->type_name("DEVICE");
  verb.add_option("--dtype", options.type, "float32 or bfloat16")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
}

at::Device device_of(const ComputeOptions& options) {
  const bool has_gpu = at::hasCUDA();
  if (options.device.empty()) return has_gpu ? at::kCUDA : at::kCPU;
  const bool names_gpu = options.device.starts_with("cuda");
  if (options.device != "cpu" && !names_gpu) {
    throw UsageError("--device must be cpu, cuda or cuda:N, got " + options.device);
  }
  if (names_gpu && !has_gpu) throw UsageError("there is no GPU that PyTorch can use here");
  return at::Device(options.device);
}

at::ScalarType type_of(const ComputeOptions& options) {
  return options.type == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

void add_example_options(CLI::App& verb, ExampleOptions& options) {
  verb.add_option("--label", options.columns.label, "Column or field of the class or number")
      ->type_name("NAME");
  verb.add_option("--text", options.columns.first, "Column or field of the text")
      ->type_name("NAME");
  verb.add_option("--second-text", options.columns.second,
                  "Column or field of the second text of a pair; default: single texts")
      ->type_name("NAME");
  verb.add_flag("--zero-types", options.zero_types,
                "Token types of the second text are 0, as in RoFormer's own code");
}

const GlueTask* glue_task_of(const std::string& name, const std::filesystem::path& path) {
  const GlueTask* task = name.empty() ? detect_glue_task(path) : find_glue_task(name);
  if (task != nullptr) return task;
  std::string known;
  for (const GlueTask& one : glue_tasks()) {
    known.append(known.empty() ? "" : ", ").append(one.name);
  }
  throw UsageError(path.string() +
                   ": neither its folder nor its first line tells the task of GLUE: " +
                   "name it with --task (" + known + ")");
}

bool are_triples(const ExampleOptions& options) { return options.format == "triples"; }

PairTypes pair_types_of(const ExampleOptions& options) {
  return options.zero_types ? PairTypes::kZero : PairTypes::kZeroOne;
}

ExampleSet read_examples(const std::filesystem::path& path, const ExampleOptions& options,
                         std::span<const std::string> labels) {
  if (options.glue != nullptr) return read_glue(path, *options.glue, labels);
  return is_jsonl(path, options) ? read_jsonl(path, options.columns, labels)
                                 : read_tsv(path, options.columns, labels);
}

TagSet read_tags(const std::filesystem::path& path, const ExampleOptions& options,
                 std::span<const std::string> labels) {
  return is_jsonl(path, options) ? read_tags_jsonl(path, labels) : read_conll(path, labels);
}

void print_json(const internal::Json& json) { console::print_out(json.dump() + "\n"); }

}  // namespace rotary::roformer::cli
