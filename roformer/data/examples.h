// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Examples of tasks, small enough for memory: texts or pairs of texts with a class.
///
///   namespace rf = rotary::roformer;
///   const rf::ExampleSet train = rf::read_tsv("chnsenticorp/train.tsv");
///   const rf::ExampleSet test = rf::read_tsv("chnsenticorp/test.tsv", {}, train.labels);
///   const rf::ExampleSet pairs = rf::read_jsonl("pairs.jsonl", {.first = "q", .second = "a"});
///   const rf::ExampleSet scm = rf::pairs_of(rf::read_triples("scm.jsonl"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace rotary::roformer {

struct Example {
  std::string first{};
  /// Empty in a set of single texts.
  std::string second{};
  /// Number of the class in ExampleSet::labels.
  std::int64_t label = 0;
};

struct ExampleSet {
  std::vector<Example> examples{};
  /// Names of the classes: numbers by value, then other names by their bytes.
  std::vector<std::string> labels{};
  bool pairs = false;
};

/// Where a table has what; by the names in its first line, or the fields of its objects.
struct ExampleColumns {
  std::string label = "label";
  std::string first = "text_a";
  /// Empty: single texts.
  std::string second{};
};

/// A table with tabs and a line of names at its head; ChnSentiCorp's with the names as they are.
/// `labels`: the classes of another set, such as that of training, which then are the only ones.
/// Throws IoError with path and line.
ExampleSet read_tsv(const std::filesystem::path& path, const ExampleColumns& columns = {},
                    std::span<const std::string> labels = {});
/// A JSON object a line; labels are texts, whole numbers or booleans.
ExampleSet read_jsonl(const std::filesystem::path& path, const ExampleColumns& columns = {},
                      std::span<const std::string> labels = {});

/// Three documents: which of two is nearer to the first (CAIL2019-SCM).
struct Triple {
  std::string a{};
  std::string b{};
  std::string c{};
  /// Otherwise c is.
  bool b_is_nearer = true;
};

/// Lines of {"A": ..., "B": ..., "C": ..., "label": "B" or "C"}; without a label, B is nearer.
std::vector<Triple> read_triples(const std::filesystem::path& path);

/// Two pairs for each triple, one after the other: (a, b) and (a, c), of class 1 where nearer.
ExampleSet pairs_of(std::span<const Triple> triples);

}  // namespace rotary::roformer
