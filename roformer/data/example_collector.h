// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the readers of texts and pairs: labels of every kind, and tables of several layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "roformer/data/class_index.h"
#include "roformer/data/examples.h"

namespace rotary::roformer {

/// Collects examples, and finalises their class indices at the end.
class ExampleCollector {
 public:
  /// `labels` as in read_tsv().
  ExampleCollector(std::string source, std::span<const std::string> labels, LabelKind kind);

  /// Throws IoError for a label that is not of the kind.
  void add(std::string first, std::string second, const std::string& label, std::size_t line);
  /// Throws IoError if there are no examples.
  ExampleSet take(bool pairs);

 private:
  std::string source_;
  LabelKind kind_;
  ClassIndex classes_;
  ExampleSet set_;
};

/// Whether a table without the column of the labels is an unlabelled one, or an error.
enum class TableLabels : std::uint8_t { kRequired, kOptional };

struct TableLayout {
  /// Names of the columns, separated by tabs, of a table without a header line: one whose first
  /// line does not name the column of the text. Empty: the first line is the header.
  std::string_view names{};
  TableLabels labels = TableLabels::kRequired;
};

/// A tab-separated table; a quotation mark is a character like any other. Throws IoError with path
/// and line.
ExampleSet read_table(const std::filesystem::path& path, const ExampleColumns& columns,
                      std::span<const std::string> labels, const TableLayout& layout);

}  // namespace rotary::roformer
