// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Options shared by verbs that read labelled data, and by those that may use a GPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <span>
#include <string>

#include "json/json.h"
#include "roformer/data/example_batches.h"
#include "roformer/data/examples.h"
#include "roformer/data/glue.h"
#include "roformer/data/token_examples.h"

namespace rotary::roformer::cli {

struct ComputeOptions {
  std::string device;
  std::string type = "float32";
};
/// --device and --dtype.
void add_compute_options(CLI::App& verb, ComputeOptions& options);
/// The device of --device; else the GPU if there is one. Throws UsageError for a missing GPU.
at::Device device_of(const ComputeOptions& options);
at::ScalarType type_of(const ComputeOptions& options);

struct ExampleOptions {
  /// Empty: by the name of the file.
  std::string format;
  ExampleColumns columns{};
  bool zero_types = false;
  /// The task of GLUE whose files are read; null: other files, with `columns`.
  const GlueTask* glue = nullptr;
};
/// --format, --label, --text, --second-text and --zero-types.
void add_example_options(CLI::App& verb, ExampleOptions& options);
/// The named task of GLUE, or that of the path if `name` is empty. Throws UsageError if it is none.
const GlueTask* glue_task_of(const std::string& name, const std::filesystem::path& path);
bool are_triples(const ExampleOptions& options);
PairTypes pair_types_of(const ExampleOptions& options);
/// Reads GLUE's files, a table or JSON lines, by --format or the file's name. `labels` as in
/// read_tsv().
ExampleSet read_examples(const std::filesystem::path& path, const ExampleOptions& options,
                         std::span<const std::string> labels = {});

/// The same for words with their classes: columns or JSON lines.
TagSet read_tags(const std::filesystem::path& path, const ExampleOptions& options,
                 std::span<const std::string> labels = {});

/// Prints JSON on one line.
void print_json(const internal::Json& json);

}  // namespace rotary::roformer::cli
