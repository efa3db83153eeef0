// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/examples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "roformer/data/example_collector.h"
#include "roformer/data/example_lines.h"

namespace rotary::roformer {
namespace {

using internal::Json;

std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && !text.empty() ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_number(std::string_view text) noexcept {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && rest == end && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

bool comes_before(const std::string& a, const std::string& b) {
  const auto x = parse_integer(a);
  const auto y = parse_integer(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

bool has(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::size_t column_of(const std::vector<std::string_view>& names, const std::string& name,
                      const std::string& source) {
  const auto at = std::ranges::find(names, name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  std::string known;
  for (const std::string_view other : names) {
    known += (known.empty() ? "" : ", ") + in_quotes(other);
  }
  fail_at_line(source, 1, "no column " + in_quotes(name) + "; there are " + known);
}

std::string label_of(const Json& object, const ExampleColumns& columns, const std::string& source,
                     std::size_t number) {
  if (columns.label_kind == LabelKind::kNone) return {};
  const bool is_number = columns.label_kind == LabelKind::kNumber;
  if (const Json* label = object.find(columns.label)) {
    if (label->is_string()) return label->as_string();
    if (label->is_integer() || (is_number && label->is_number())) return label->dump();
    if (label->is_boolean() && !is_number) return label->as_bool() ? "1" : "0";
  }
  fail_at_line(source, number,
               "expected " + in_quotes(columns.label) +
                   (is_number ? ", a number" : ", a text, a whole number or a boolean"));
}

}  // namespace

std::vector<std::string_view> split_tabs(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t tab = line.find('\t');
    out.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return out;
    line.remove_prefix(tab + 1);
  }
}

std::string text_of(const Json& object, const std::string& field, const std::string& source,
                    std::size_t number) {
  const Json* text = object.find(field);
  if (text == nullptr || !text->is_string()) {
    fail_at_line(source, number, "expected a text " + in_quotes(field));
  }
  return text->as_string();
}

ClassIndex::ClassIndex(std::string source, std::span<const std::string> given)
    : source_(std::move(source)), given_(!given.empty()), names_(given.begin(), given.end()) {
  for (const std::string& name : names_) {
    indices_.emplace(name, static_cast<std::int64_t>(indices_.size()));
  }
}

std::int64_t ClassIndex::index_of(const std::string& name, std::size_t line) {
  const auto [at, is_new] = indices_.emplace(name, static_cast<std::int64_t>(names_.size()));
  if (is_new && given_) {
    fail_at_line(source_, line, "no class " + in_quotes(name) + " among the known ones");
  }
  if (is_new) names_.push_back(name);
  return at->second;
}

std::vector<std::string> ClassIndex::finalize(std::vector<std::int64_t>& indices) const {
  std::vector<std::string> sorted = names_;
  if (!given_) std::ranges::sort(sorted, comes_before);
  indices.resize(names_.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    indices[static_cast<std::size_t>(indices_.at(sorted[i]))] = static_cast<std::int64_t>(i);
  }
  return sorted;
}

ExampleCollector::ExampleCollector(std::string source, std::span<const std::string> labels,
                                   LabelKind kind)
    : source_(source), kind_(kind), classes_(std::move(source), labels) {}

void ExampleCollector::add(std::string first, std::string second, const std::string& label,
                           std::size_t line) {
  Example example{.first = std::move(first), .second = std::move(second)};
  if (kind_ == LabelKind::kClass) example.label = classes_.index_of(label, line);
  if (kind_ == LabelKind::kNumber) {
    const auto number = parse_number(label);
    if (!number) {
      fail_at_line(source_, line, "a label must be a finite number, got " + in_quotes(label));
    }
    example.number = *number;
  }
  set_.examples.push_back(std::move(example));
}

ExampleSet ExampleCollector::take(bool pairs) {
  if (set_.examples.empty()) throw IoError(source_, IoError::kNoOffset, "no examples");
  set_.pairs = pairs;
  set_.label_kind = kind_;
  if (kind_ != LabelKind::kClass) return std::move(set_);
  std::vector<std::int64_t> indices;
  set_.labels = classes_.finalize(indices);
  for (Example& example : set_.examples) {
    example.label = indices[static_cast<std::size_t>(example.label)];
  }
  return std::move(set_);
}

ExampleSet read_table(const std::filesystem::path& path, const ExampleColumns& columns,
                      std::span<const std::string> labels, const TableLayout& layout) {
  const MappedFile file(path);
  const std::string source = path.string();
  const bool pairs = !columns.second.empty();
  LabelKind kind = columns.label_kind;
  std::optional<ExampleCollector> collector;
  std::size_t num_columns = 0;
  std::size_t label = 0;
  std::size_t first = 0;
  std::size_t second = 0;
  const auto read_names = [&](const std::vector<std::string_view>& names) {
    num_columns = names.size();
    first = column_of(names, columns.first, source);
    if (pairs) second = column_of(names, columns.second, source);
    if (layout.labels == TableLabels::kOptional && !has(names, columns.label)) {
      kind = LabelKind::kNone;
    }
    if (kind != LabelKind::kNone) label = column_of(names, columns.label, source);
    collector.emplace(source, labels, kind);
  };
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view bytes = file.bytes();
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  for_each_line(bytes, [&](std::string_view line, std::size_t number) {
    const std::vector<std::string_view> fields = split_tabs(line);
    if (number == 1) {
      const bool is_header = layout.names.empty() || has(fields, columns.first);
      read_names(is_header ? fields : split_tabs(layout.names));
      if (is_header) return;
    }
    if (line.empty()) return;
    if (fields.size() != num_columns) {
      fail_at_line(source, number,
                   "expected " + std::to_string(num_columns) + " columns, got " +
                       std::to_string(fields.size()));
    }
    collector->add(std::string(fields[first]), pairs ? std::string(fields[second]) : "",
                   kind == LabelKind::kNone ? std::string() : std::string(fields[label]), number);
  });
  if (!collector) throw IoError(source, IoError::kNoOffset, "no examples");
  return collector->take(pairs);
}

ExampleSet read_tsv(const std::filesystem::path& path, const ExampleColumns& columns,
                    std::span<const std::string> labels) {
  return read_table(path, columns, labels, {});
}

ExampleSet read_jsonl(const std::filesystem::path& path, const ExampleColumns& columns,
                      std::span<const std::string> labels) {
  const std::string source = path.string();
  const bool pairs = !columns.second.empty();
  ExampleCollector collector(source, labels, columns.label_kind);
  for_each_object(path, [&](const Json& object, std::size_t number) {
    collector.add(text_of(object, columns.first, source, number),
                  pairs ? text_of(object, columns.second, source, number) : "",
                  label_of(object, columns, source, number), number);
  });
  return collector.take(pairs);
}

std::vector<Triple> read_triples(const std::filesystem::path& path) {
  const std::string source = path.string();
  std::vector<Triple> out;
  for_each_object(path, [&](const Json& object, std::size_t number) {
    Triple triple{text_of(object, "A", source, number), text_of(object, "B", source, number),
                  text_of(object, "C", source, number), true};
    if (object.contains("label")) {
      const std::string label = text_of(object, "label", source, number);
      if (label != "B" && label != "C") {
        fail_at_line(source, number, "a label must be \"B\" or \"C\", got " + in_quotes(label));
      }
      triple.b_is_nearer = label == "B";
    }
    out.push_back(std::move(triple));
  });
  if (out.empty()) throw IoError(source, IoError::kNoOffset, "no triples");
  return out;
}

ExampleSet pairs_of(std::span<const Triple> triples) {
  ExampleSet set{.examples = {}, .labels = {"0", "1"}, .pairs = true};
  set.examples.reserve(2 * triples.size());
  for (const Triple& triple : triples) {
    set.examples.push_back({triple.a, triple.b, triple.b_is_nearer ? 1 : 0});
    set.examples.push_back({triple.a, triple.c, triple.b_is_nearer ? 0 : 1});
  }
  return set;
}

}  // namespace rotary::roformer
