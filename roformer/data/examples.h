// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Task examples in memory: texts or pairs of texts, with a class or a number each.
///
///   namespace rf = rotary::roformer;
///   const rf::ExampleSet train = rf::read_tsv("chnsenticorp/train.tsv");
///   const rf::ExampleSet test = rf::read_tsv("chnsenticorp/test.tsv", {}, train.labels);
///   const rf::ExampleSet pairs = rf::read_jsonl("pairs.jsonl", {.first = "q", .second = "a"});
///   const rf::ExampleSet rated =
///       rf::read_tsv("stars.tsv", {.label = "stars", .label_kind = rf::LabelKind::kNumber});
///   const rf::ExampleSet scm = rf::pairs_of(rf::read_triples("scm.jsonl"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace rotary::roformer {

/// What the labels of a set are.
enum class LabelKind : std::uint8_t {
  kClass,   // one of several names
  kNumber,  // a real number (regression)
  kNone,    // unlabelled, such as GLUE's test sets
};

struct Example {
  std::string first{};
  /// Empty in a set of single texts.
  std::string second{};
  /// kClass: index into ExampleSet::labels.
  std::int64_t label = 0;
  /// kNumber: the label.
  double number = 0.0;
};

struct ExampleSet {
  std::vector<Example> examples{};
  /// Names of the classes: numeric names by value, then others by their bytes. Empty without them.
  std::vector<std::string> labels{};
  bool pairs = false;
  LabelKind label_kind = LabelKind::kClass;
};

/// Names of the columns (header line) or of the fields (JSON).
struct ExampleColumns {
  std::string label = "label";
  std::string first = "text_a";
  /// Empty: single texts.
  std::string second{};
  /// kNone reads no labels.
  LabelKind label_kind = LabelKind::kClass;
};

/// A tab-separated table with a header line; the default names are ChnSentiCorp's. `labels`: the
/// classes of another set, such as the training set; no others are then allowed. Throws IoError
/// with path and line.
ExampleSet read_tsv(const std::filesystem::path& path, const ExampleColumns& columns = {},
                    std::span<const std::string> labels = {});
/// One JSON object per line; classes are strings, integers or booleans.
ExampleSet read_jsonl(const std::filesystem::path& path, const ExampleColumns& columns = {},
                      std::span<const std::string> labels = {});

/// Three documents: which of b and c is more similar to a (CAIL2019-SCM).
struct Triple {
  std::string a{};
  std::string b{};
  std::string c{};
  /// Otherwise c is nearer.
  bool b_is_nearer = true;
};

/// Lines of {"A": ..., "B": ..., "C": ..., "label": "B" or "C"}; without a label, B is nearer.
std::vector<Triple> read_triples(const std::filesystem::path& path);

/// Two adjacent pairs per triple: (a, b) and (a, c); the nearer one has class 1.
ExampleSet pairs_of(std::span<const Triple> triples);

}  // namespace rotary::roformer
