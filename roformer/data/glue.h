// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tasks of GLUE (Wang et al. 2018), read from the files of its distribution as they are.
///
///   namespace rf = rotary::roformer;
///   const rf::GlueTask* task = rf::find_glue_task("mrpc");
///   const rf::ExampleSet train = rf::read_glue("GLUE/MRPC/train.tsv", *task);
///   const rf::ExampleSet valid = rf::read_glue("GLUE/MRPC/dev.tsv", *task, train.labels);
///   rf::detect_glue_task("GLUE/MRPC");    // the same task, by its folder
///
/// Tables have no quoting. CoLA's have no header line, but its test set has one; the sets test.tsv
/// have no labels.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "roformer/data/examples.h"

namespace rotary::roformer {

struct GlueTask {
  /// "sts-b", as in options; the folder is "STS-B".
  std::string_view name;
  /// Columns.
  std::string_view label;
  std::string_view first;
  /// Empty: single texts.
  std::string_view second;
  LabelKind label_kind;
  /// The metric that chooses the best epoch, of those that GLUE judges by.
  std::string_view metric;
  /// Names of the columns of files without a header line, separated by tabs.
  std::string_view names{};
};

/// CoLA, MRPC, RTE, SST-2 and STS-B.
std::span<const GlueTask> glue_tasks() noexcept;
/// By name, in any case, with or without the hyphen; null if there is none.
const GlueTask* find_glue_task(std::string_view name);
/// The task of a folder, or of a file: by the folder's name, else by the first line of the file (of
/// a folder: of train.tsv). Null if neither tells.
const GlueTask* detect_glue_task(const std::filesystem::path& path);

/// LabelKind::kNone if the file has no labels. `labels` as in read_tsv(). Throws IoError with path
/// and line.
ExampleSet read_glue(const std::filesystem::path& path, const GlueTask& task,
                     std::span<const std::string> labels = {});

}  // namespace rotary::roformer
