// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/glue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <initializer_list>
#include <system_error>
#include <vector>

#include "roformer/data/example_collector.h"
#include "roformer/data/example_lines.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<GlueTask, 5> kGlueTasks{{
    {"cola", "label", "sentence", "", LabelKind::kClass, "matthews",
     "source\tlabel\tmark\tsentence"},
    {"mrpc", "Quality", "#1 String", "#2 String", LabelKind::kClass, "f1"},
    {"rte", "label", "sentence1", "sentence2", LabelKind::kClass, "accuracy"},
    {"sst-2", "label", "sentence", "", LabelKind::kClass, "accuracy"},
    {"sts-b", "score", "sentence1", "sentence2", LabelKind::kNumber, "spearman"},
}};

/// "STS-B" to "stsb".
std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') {
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  return out;
}

/// At most 4 KiB of it, without the byte order mark.
std::string first_line(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(4096, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  text.resize(std::min(text.size(), text.find('\n')));
  if (text.ends_with('\r')) text.pop_back();
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

/// Whether the line is a header with these columns; empty ones do not count.
bool names_all(std::string_view line, std::initializer_list<std::string_view> columns) {
  const std::vector<std::string_view> fields = split_tabs(line);
  return std::ranges::all_of(columns, [&](std::string_view column) {
    return column.empty() || std::ranges::find(fields, column) != fields.end();
  });
}

/// CoLA: source, 0 or 1, "*" or nothing, sentence.
bool is_cola(std::string_view line) {
  const std::vector<std::string_view> fields = split_tabs(line);
  return fields.size() == 4 && (fields[1] == "0" || fields[1] == "1") &&
         (fields[2].empty() || fields[2] == "*");
}

}  // namespace

std::span<const GlueTask> glue_tasks() noexcept { return kGlueTasks; }

const GlueTask* find_glue_task(std::string_view name) {
  const auto* const at = std::ranges::find_if(
      kGlueTasks, [&](const GlueTask& task) { return plain_name(task.name) == plain_name(name); });
  return at == kGlueTasks.end() ? nullptr : at;
}

const GlueTask* detect_glue_task(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  const bool is_folder = fs::is_directory(whole, ignored);
  fs::path folder = is_folder ? whole : whole.parent_path();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (const GlueTask* task = find_glue_task(folder.filename().string())) return task;
  const std::string line = first_line(is_folder ? whole / "train.tsv" : whole);
  if (is_cola(line)) return find_glue_task("cola");
  for (const GlueTask& task : kGlueTasks) {
    if (task.names.empty() && names_all(line, {task.label, task.first, task.second})) return &task;
  }
  return nullptr;
}

ExampleSet read_glue(const fs::path& path, const GlueTask& task,
                     std::span<const std::string> labels) {
  return read_table(path,
                    {.label = std::string(task.label),
                     .first = std::string(task.first),
                     .second = std::string(task.second),
                     .label_kind = task.label_kind},
                    labels, {.names = task.names, .labels = TableLabels::kOptional});
}

}  // namespace rotary::roformer
